//! A mount that is missing: /etc/fstab or a systemd mount unit names its mount point, and no file system
//! is mounted there.
//!
//! Files that are created at the mount point meanwhile are on the file system below it. The mount hides
//! them later.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::directory::{self, MOST_LINKS};
use super::mount_table::{self, unescaped};
use super::nesting::resolved;
use crate::os::text::{quoted, quoted_path};

const FSTAB: &str = "etc/fstab";
/// Where systemd looks for units; the first directory that has the name wins. The last directory is the
/// distribution's, and has units that nothing starts.
const UNITS: [&str; 4] = [
    "etc/systemd/system",
    "run/systemd/system",
    "run/systemd/generator",
    "usr/lib/systemd/system",
];
const NOAUTO: &str = "noauto";

/// A mount that is missing on the way to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingMount {
    pub(crate) point: PathBuf,
    origin: Origin,
}

/// The file that names the mount point.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// A line of fstab, by its number and its words.
    Fstab { number: usize, line: String },
    /// A mount unit.
    Unit(PathBuf),
}

impl MissingMount {
    /// The first mount that is missing on the way to `path`. Reads files, and must not be called for a
    /// path that may hang.
    pub(crate) fn above(path: &Path) -> Option<MissingMount> {
        let path = followed(path);
        let mounted = mount_table::above(&path)?.into_iter();
        let mounted: Vec<PathBuf> = mounted.map(|mount| mount.point).collect();
        find(&path, &mounted, Path::new("/"))
    }

    /// systemd does not mount it at boot.
    pub(crate) fn is_noauto(&self) -> bool {
        matches!(&self.origin, Origin::Fstab { line, .. } if is_noauto(line))
    }

    /// The command that mounts it.
    pub(crate) fn fix(&self) -> String {
        match &self.origin {
            Origin::Fstab { .. } => format!("mount {}", quoted_path(&self.point)),
            Origin::Unit(file) => {
                let unit = file.file_name().unwrap_or_default().to_string_lossy();
                format!("systemctl start {}", quoted(&unit))
            }
        }
    }
}

impl fmt::Display for MissingMount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is not mounted, ", self.point.display())?;
        match &self.origin {
            Origin::Fstab { number, line } => {
                write!(
                    formatter,
                    "although line {number} of /{FSTAB} has it: {line}"
                )?;
                if is_noauto(line) {
                    write!(formatter, " ({NOAUTO}: systemd does not mount it at boot)")?;
                }
                Ok(())
            }
            Origin::Unit(file) => write!(formatter, "although {} names it", file.display()),
        }
    }
}

/// The same for a path without links, with these mount points and the files of this host.
fn find(path: &Path, mounted: &[PathBuf], host: &Path) -> Option<MissingMount> {
    let is_mounted = |step: &&Path| mounted.iter().any(|point| point == step);
    // Below the deepest mount: a mount that is missing above that mount does not matter for the path.
    let steps = path.ancestors().take_while(|step| !is_mounted(step));
    let mut steps: Vec<&Path> = steps.filter(|step| step.parent().is_some()).collect();
    // A mount point may be on a file system that is missing itself.
    steps.reverse();
    let fstab = fs::read(host.join(FSTAB)).unwrap_or_default();
    let fstab = String::from_utf8_lossy(&fstab).into_owned();
    steps.into_iter().find_map(|point| {
        let origin = line_of(&fstab, point).or_else(|| unit_of(point, host))?;
        let point = point.to_owned();
        Some(MissingMount { point, origin })
    })
}

/// The path without links. A link may lead to a file system that is not mounted, so that it leads nowhere.
fn followed(path: &Path) -> PathBuf {
    let mut path = resolved(path);
    for _ in 0..MOST_LINKS {
        let links = path.ancestors().find_map(|step| {
            let target = fs::read_link(step).ok()?;
            Some((step.to_owned(), target))
        });
        let Some((link, target)) = links else {
            break;
        };
        let rest = path.strip_prefix(&link).unwrap_or(Path::new(""));
        path = resolved(&directory::of(&link).join(target).join(rest));
    }
    path
}

/// The line of fstab with this mount point.
fn line_of(fstab: &str, point: &Path) -> Option<Origin> {
    let (index, line) = fstab.lines().enumerate().find(|(_, line)| {
        let mut fields = line.split_ascii_whitespace();
        let is_comment = line.trim_start().starts_with('#');
        let (named, kind) = (fields.nth(1), fields.next());
        let named = named.and_then(|named| unescaped(named.as_bytes()));
        let named = named.and_then(|named| String::from_utf8(named).ok());
        let is_here = named.is_some_and(|named| Path::new(&named) == point);
        is_here && !is_comment && kind != Some("swap")
    })?;
    Some(Origin::Fstab {
        number: index + 1,
        line: line.split_ascii_whitespace().collect::<Vec<_>>().join(" "),
    })
}

fn is_noauto(line: &str) -> bool {
    let options = line.split_ascii_whitespace().nth(3);
    options.is_some_and(|options| options.split(',').any(|option| option == NOAUTO))
}

/// The mount unit of a mount point. systemd refuses a mount unit whose Where= differs from its name, so
/// that the name alone tells the mount point.
fn unit_of(point: &Path, host: &Path) -> Option<Origin> {
    let name = format!("{}.mount", escaped(point));
    let directories = || UNITS.iter().map(|directory| host.join(directory));
    let (index, file) = directories()
        .map(|directory| directory.join(&name))
        .enumerate()
        .find(|(_, file)| fs::symlink_metadata(file).is_ok())?;
    let is_the_distributions = index == UNITS.len() - 1;
    let is_used = !is_the_distributions || directories().any(|units| is_wanted(&units, &name));
    (is_used && !is_masked(&file)).then_some(Origin::Unit(file))
}

/// `systemctl mask` links the unit to /dev/null. An empty file means the same.
fn is_masked(unit: &Path) -> bool {
    fs::read(unit).is_ok_and(|text| text.is_empty())
}

/// Another unit starts this unit: systemctl has linked it into a directory such as local-fs.target.wants.
fn is_wanted(units: &Path, name: &str) -> bool {
    let entries: io::Result<Vec<_>> = fs::read_dir(units).and_then(Iterator::collect);
    let directories = entries
        .unwrap_or_default()
        .into_iter()
        .map(|entry| entry.path());
    let is_dependency = |directory: &PathBuf| {
        let kind = directory.extension();
        kind.is_some_and(|kind| kind == "wants" || kind == "requires")
    };
    let mut links = directories
        .filter(is_dependency)
        .map(|directory| directory.join(name));
    links.any(|link| fs::symlink_metadata(link).is_ok())
}

/// The name of a path in a unit, as `systemd-escape --path` has it: systemd.unit(5).
fn escaped(path: &Path) -> String {
    let names = path.components().filter_map(|step| match step {
        Component::Normal(name) => Some(name.as_bytes()),
        _ => None,
    });
    let path = names.collect::<Vec<_>>().join(&b'/');
    let mut name = String::with_capacity(path.len());
    for (index, byte) in path.into_iter().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if index > 0 => name.push('.'),
            b'_' | b':' => name.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => name.push(byte.into()),
            _ => name += &format!("\\x{byte:02x}"),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// A host with this fstab and these units.
    fn host(fstab: &str, units: &[&str]) -> TempDir {
        let host = tempfile::tempdir().unwrap();
        for directory in UNITS.into_iter().chain(["etc"]) {
            fs::create_dir_all(host.path().join(directory)).unwrap();
        }
        fs::write(host.path().join(FSTAB), fstab).unwrap();
        for unit in units {
            fs::write(host.path().join(unit), "[Mount]\n").unwrap();
        }
        host
    }

    fn missing(host: &TempDir, path: &str, mounted: &[&str]) -> Option<(String, String)> {
        let mounted: Vec<PathBuf> = mounted.iter().map(PathBuf::from).collect();
        let missing = find(Path::new(path), &mounted, host.path())?;
        let host = host.path().to_string_lossy();
        Some((missing.to_string().replace(&*host, ""), missing.fix()))
    }

    const SOCKET: &str = "/vdata/storage/plugins/a/csi.sock";

    #[test]
    fn a_line_of_fstab_whose_file_system_is_not_mounted_is_named_with_its_number() {
        let host = host(
            "# /dev/sdz /vdata ext4\n\nUUID=1 /  ext4 defaults\nUUID=2\t/vdata  xfs\tdefaults 0 2\n",
            &[],
        );
        let (found, fix) = missing(&host, SOCKET, &["/"]).unwrap();
        assert_eq!(
            found,
            "/vdata is not mounted, although line 4 of /etc/fstab has it: UUID=2 /vdata xfs defaults 0 2"
        );
        assert_eq!(fix, "mount /vdata");
        assert_eq!(missing(&host, SOCKET, &["/", "/vdata"]), None);
        assert_eq!(missing(&host, "/vdata2/x", &["/"]), None);
        // A mount further down has the file, whatever is missing above it.
        assert_eq!(missing(&host, SOCKET, &["/", "/vdata/storage"]), None);
    }

    #[test]
    fn noauto_is_said_and_swap_is_no_mount_point() {
        let fstab = "/dev/sdb /vdata ext4 rw,noauto 0 0\n/dev/sdc none swap sw 0 0\n/dev/sdd /s swap sw\n/dev/sde /a\\040b ext4\n";
        let host = host(fstab, &[]);
        let (found, _) = missing(&host, SOCKET, &["/"]).unwrap();
        assert!(
            found.ends_with("(noauto: systemd does not mount it at boot)"),
            "{found}"
        );
        assert_eq!(missing(&host, "/s/x", &["/"]), None);
        let (_, fix) = missing(&host, "/a b/x", &["/"]).unwrap();
        assert_eq!(fix, "mount '/a b'");
    }

    #[test]
    fn the_first_of_two_missing_mounts_comes_first() {
        let host = host("/dev/a /vdata/storage ext4\n/dev/b /vdata ext4\n", &[]);
        let point = |mounted: &[&str]| missing(&host, SOCKET, mounted).unwrap().1;
        assert_eq!(point(&["/"]), "mount /vdata");
        assert_eq!(point(&["/", "/vdata"]), "mount /vdata/storage");
    }

    #[test]
    fn a_mount_unit_is_found_by_its_escaped_name() {
        let units = ["run/systemd/system/srv-a\\x2db-\\x2ec.mount"];
        let host = host("", &units);
        // systemd escapes a dot at the start of the whole path alone.
        assert_eq!(escaped(Path::new("/srv/a-b/.c")), "srv-a\\x2db-.c");
        assert_eq!(escaped(Path::new("/.c")), "\\x2ec");
        assert_eq!(missing(&host, "/srv/a-b/.c/x", &["/"]), None);
        let unit = "etc/systemd/system/srv-a\\x2db.mount";
        fs::write(host.path().join(unit), "[Mount]\n").unwrap();
        let (found, fix) = missing(&host, "/srv/a-b/c/x", &["/"]).unwrap();
        assert_eq!(
            found,
            format!("/srv/a-b is not mounted, although /{unit} names it")
        );
        assert_eq!(fix, "systemctl start 'srv-a\\x2db.mount'");
    }

    #[test]
    fn a_masked_unit_and_a_unit_of_the_distribution_that_nothing_starts_do_not_count() {
        let shipped = "usr/lib/systemd/system/vdata.mount";
        let host = host("", &[shipped]);
        assert_eq!(missing(&host, SOCKET, &["/"]), None);
        let wants = host.path().join("etc/systemd/system/local-fs.target.wants");
        fs::create_dir(&wants).unwrap();
        symlink("/nowhere", wants.join("vdata.mount")).unwrap();
        let (found, fix) = missing(&host, SOCKET, &["/"]).unwrap();
        assert!(found.contains(shipped), "{found}");
        assert_eq!(fix, "systemctl start vdata.mount");
        let masked = host.path().join("etc/systemd/system/vdata.mount");
        symlink("/dev/null", masked).unwrap();
        assert_eq!(missing(&host, SOCKET, &["/"]), None);
    }

    #[test]
    fn a_link_that_leads_to_a_missing_mount_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let point = root.join("vdata");
        symlink(point.join("storage"), root.join("link")).unwrap();
        symlink("circle", root.join("circle")).unwrap();
        let host = host(&format!("/dev/a {} ext4\n", point.display()), &[]);
        let mounted = [PathBuf::from("/")];
        let find = |path: &str| find(&followed(&root.join(path)), &mounted, host.path());
        assert_eq!(find("link/plugins").unwrap().point, point);
        fs::create_dir_all(&point).unwrap();
        let words = find("vdata").unwrap().to_string();
        let is_said = format!("{} is not mounted", point.display());
        assert!(words.starts_with(&is_said), "{words}");
        assert_eq!(find("circle/plugins"), None);
    }
}
