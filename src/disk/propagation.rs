//! Mount propagation: whether a mount that one process makes shows for another process.
//!
//! The numbers of mounts and of peer groups are the same in all namespaces, so that the tables of two
//! processes can be compared (mount_namespaces(7), "Shared subtrees").

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::disk::directory::{MOST_LINKS, is_missing, names};
use crate::disk::mount_table::{MountEntry, unescaped};
use crate::disk::reach::is_local;

/// The table of a node with thousands of volumes has about a megabyte.
const MOST_BYTES: u64 = 16 << 20;

/// The mounts as a process sees them.
#[derive(Debug)]
pub(crate) struct MountView {
    /// The root directory of the process, as we see it: `/proc/PID/root`.
    root: PathBuf,
    mounts: Vec<Mount>,
}

/// A mount, with its peer groups.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    entry: MountEntry,
    /// The number of the file system, such as 8:1.
    device: String,
    /// The directory of the file system that is mounted.
    root: PathBuf,
    /// The peer group that the mount is a member of: it passes mounts on to the group, and receives them.
    shared: Option<u64>,
    /// The peer group that the mount is a slave of: it only receives mounts from the group.
    master: Option<u64>,
    /// The nearest peer group above the master that is in the namespace of the process, too.
    propagate_from: Option<u64>,
}

/// Whether a mount that one process, the maker, makes at a path shows for another process, the viewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Shows,
    /// It stays with the maker.
    Stays(Barrier),
    /// The viewer receives the mounts of this peer group, and neither table shows whose slave the group is:
    /// it may receive the mounts of the maker through a third namespace.
    NotKnown {
        group: u64,
    },
}

/// Why a mount stays in the namespace of its maker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Barrier {
    /// The maker sees another directory at this path.
    OtherDirectory {
        kind: String,
        source: String,
        point: PathBuf,
    },
    /// The maker's mount at this point is private: it has no peer group.
    Private { point: PathBuf },
    /// The maker's mount at this point only receives mounts.
    Slave { point: PathBuf },
    /// The maker's mount at this point passes mounts on, but not to the viewer's mount.
    OtherGroup { point: PathBuf },
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Barrier::OtherDirectory {
                kind,
                source,
                point,
            } => {
                let point = point.display();
                write!(
                    f,
                    "another directory is at that path ({kind} {source}, mounted at {point})"
                )
            }
            Barrier::Private { point } => write!(f, "the mount {} is private", point.display()),
            Barrier::Slave { point } => {
                let point = point.display();
                write!(
                    f,
                    "the mount {point} is a slave: it receives mounts, and passes none on"
                )
            }
            Barrier::OtherGroup { point } => {
                let point = point.display();
                write!(
                    f,
                    "the mount {point} is shared, but not with the other namespace"
                )
            }
        }
    }
}

impl MountView {
    /// The view of a process with this directory in /proc.
    ///
    /// # Errors
    /// The table cannot be read, or is longer than any table of a node.
    pub(crate) fn of(process: &Path) -> io::Result<MountView> {
        let mut table = Vec::new();
        let file = File::open(process.join("mountinfo"))?;
        file.take(MOST_BYTES + 1).read_to_end(&mut table)?;
        if table.len() as u64 > MOST_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(MountView::parse(&table, process.join("root")))
    }

    fn parse(table: &[u8], root: PathBuf) -> MountView {
        let lines = table.split(|byte| *byte == b'\n');
        let mounts = lines.filter_map(Mount::parse).collect();
        MountView { root, mounts }
    }

    /// The mount that the file or directory at `path` is on. Of several mounts at one point, the last hides
    /// the others. `path` has no links.
    fn mount_of(&self, path: &Path) -> Option<&Mount> {
        let above = self.mounts.iter();
        let above = above.filter(|mount| path.starts_with(&mount.entry.point));
        above.max_by_key(|mount| mount.entry.point.components().count())
    }

    /// The path without links, in the root directory of the process. Links behind a mount that may hang are
    /// not followed, because to read them may block.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let mut links = 0;
        let mut steps = names(path);
        let mut way = PathBuf::from("/");
        let mut is_safe = true;
        while let Some(step) = steps.pop() {
            if step == ".." {
                way.pop();
                continue;
            }
            way.push(step);
            let mount = self.mount_of(&way);
            is_safe &= mount.is_some_and(|mount| is_local(&mount.entry.kind));
            if !is_safe {
                continue;
            }
            match fs::read_link(self.inside(&way)) {
                Ok(target) if links < MOST_LINKS => {
                    links += 1;
                    way = match target.is_absolute() {
                        true => PathBuf::from("/"),
                        false => way.parent().unwrap_or(Path::new("/")).to_owned(),
                    };
                    steps.append(&mut names(&target));
                }
                Ok(_) => return Err(Errno::ELOOP.into()),
                // Not a link, or nothing is at that path: what follows cannot be a link either.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(way)
    }

    fn has_member(&self, group: u64) -> bool {
        let mut mounts = self.mounts.iter();
        mounts.any(|mount| mount.shared == Some(group))
    }

    fn inside(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Mount> {
        let entry = MountEntry::parse(line)?;
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let device = String::from_utf8_lossy(fields.next()?).into_owned();
        let root = PathBuf::from(OsString::from_vec(unescaped(fields.next()?)?));
        let tags = fields.skip(2).take_while(|field| *field != b"-");
        let tags: Vec<&str> = tags.filter_map(|tag| str::from_utf8(tag).ok()).collect();
        let group = |name| {
            let mut numbers = tags.iter().filter_map(|tag| tag.strip_prefix(name));
            numbers.next()?.parse().ok()
        };
        Some(Mount {
            shared: group("shared:"),
            master: group("master:"),
            propagate_from: group("propagate_from:"),
            entry,
            device,
            root,
        })
    }

    /// The file system and the directory in it that `path` leads to, whatever its path is in a namespace.
    fn place(&self, path: &Path) -> (&str, PathBuf) {
        let below = path.strip_prefix(&self.entry.point).unwrap_or(path);
        (&self.device, self.root.join(below))
    }
}

/// The peer groups whose mounts arrive at this mount: its own group, its masters, and the masters of these
/// groups, as far as the tables show them. All members of a peer group have the same master.
fn received_by(mount: &Mount, tables: [&MountView; 2]) -> BTreeSet<u64> {
    let masters = |of: &Mount| of.master.into_iter().chain(of.propagate_from);
    let mut groups: BTreeSet<u64> = mount.shared.into_iter().chain(masters(mount)).collect();
    loop {
        let all = tables.iter().flat_map(|table| &table.mounts);
        let received = all.filter(|other| other.shared.is_some_and(|own| groups.contains(&own)));
        let above: BTreeSet<u64> = received.flat_map(masters).collect();
        if above.is_subset(&groups) {
            return groups;
        }
        groups.extend(above);
    }
}

/// Whether a mount that `maker` makes below `path` shows for `viewer` below the same path.
///
/// # Errors
/// A path or a table of a process could not be read.
pub(crate) fn propagation(
    maker: &MountView,
    viewer: &MountView,
    path: &Path,
) -> io::Result<Propagation> {
    let paths = [maker.resolve(path)?, viewer.resolve(path)?];
    // A process that has ended has an empty table.
    let made = maker.mount_of(&paths[0]).ok_or(io::ErrorKind::NotFound)?;
    let seen = viewer.mount_of(&paths[1]).ok_or(io::ErrorKind::NotFound)?;
    let point = made.entry.point.clone();
    if made.place(&paths[0]) != seen.place(&paths[1]) {
        return Ok(Propagation::Stays(Barrier::OtherDirectory {
            kind: made.entry.kind.clone(),
            source: made.entry.source.clone(),
            point,
        }));
    }
    let tables = [maker, viewer];
    let received = received_by(seen, tables);
    let shows = |group: u64| received.contains(&group);
    // A group that the maker receives mounts from is above the maker's group, never below it.
    let above = received_by(made, tables);
    let is_shown = |group: u64| tables.iter().any(|table| table.has_member(group));
    let mut unseen = received.difference(&above).copied();
    let unseen = unseen.find(|group| !is_shown(*group));
    Ok(match (made.shared, made.master) {
        // A mount belongs to a single namespace: both processes are in it.
        _ if made.entry.id == seen.entry.id => Propagation::Shows,
        (Some(group), _) if shows(group) => Propagation::Shows,
        (Some(_), _) => match unseen {
            Some(group) => Propagation::NotKnown { group },
            None => Propagation::Stays(Barrier::OtherGroup { point }),
        },
        (None, Some(_)) => Propagation::Stays(Barrier::Slave { point }),
        (None, None) => Propagation::Stays(Barrier::Private { point }),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const PODS: &str = "/var/lib/kubelet/pods";
    const HOST: &str = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n";

    fn view(table: &str) -> MountView {
        MountView::parse(table.as_bytes(), PathBuf::from("/nowhere"))
    }

    fn reason(maker: &str, viewer: &str) -> Option<String> {
        match propagation(&view(maker), &view(viewer), Path::new(PODS)).unwrap() {
            Propagation::Shows => None,
            Propagation::Stays(barrier) => Some(barrier.to_string()),
            Propagation::NotKnown { group } => Some(format!("not known: {group}")),
        }
    }

    #[test]
    fn a_mount_shows_only_for_members_and_slaves_of_the_makers_peer_group() {
        let root = |tags: &str| format!("900 800 8:1 / / rw,noatime {tags}- ext4 /dev/sda1 rw\n");
        let container = |tags: &str| {
            let volume = "/var/lib/kubelet /var/lib/kubelet rw";
            format!(
                "700 600 0:50 / / rw - overlay overlay rw\n701 700 8:1 {volume} {tags}- ext4 /dev/sda1 rw\n"
            )
        };
        let copy = "the mount / is shared, but not with the other namespace";
        let slave = "is a slave: it receives mounts, and passes none on";
        let slave_at = |point: &str| format!("the mount {point} {slave}");
        for (case, maker, viewer, barrier) in [
            ("one namespace", HOST.into(), HOST.into(), None),
            // Private in the namespace of both: there is no other namespace to pass it on to.
            ("one private mount", root(""), root(""), None),
            ("a peer", root("shared:1 "), HOST.into(), None),
            (
                "systemd's sandbox",
                root("shared:500 master:1 "),
                HOST.into(),
                Some(copy.to_owned()),
            ),
            (
                "MountFlags=slave",
                root("master:1 "),
                HOST.into(),
                Some(slave_at("/")),
            ),
            (
                "MountFlags=private",
                root(""),
                HOST.into(),
                Some("the mount / is private".to_owned()),
            ),
            (
                "unbindable",
                root("unbindable "),
                HOST.into(),
                Some("the mount / is private".to_owned()),
            ),
            ("rshared", container("shared:1 "), HOST.into(), None),
            (
                "rslave",
                container("master:1 "),
                HOST.into(),
                Some(slave_at("/var/lib/kubelet")),
            ),
            (
                "no volume at all",
                "700 600 0:50 / / rw - overlay overlay rw\n".into(),
                HOST.into(),
                Some(
                    "another directory is at that path (overlay overlay, mounted at /)".to_owned(),
                ),
            ),
            (
                "a volume of another directory",
                "700 600 8:1 /srv/kubelet /var/lib/kubelet rw shared:1 - ext4 /dev/sda1 rw\n".into(),
                HOST.into(),
                Some(
                    "another directory is at that path (ext4 /dev/sda1, mounted at /var/lib/kubelet)"
                        .to_owned(),
                ),
            ),
            // The kubelet is in a namespace of its own.
            ("a sandboxed viewer", HOST.into(), root("shared:500 master:1 "), None),
            ("an rslave viewer", HOST.into(), container("master:1 "), None),
            (
                "a private viewer",
                HOST.into(),
                container(""),
                Some(copy.to_owned()),
            ),
            (
                "two containers",
                container("shared:1 "),
                root("shared:500 master:1 "),
                None,
            ),
            (
                "a slave of a slave",
                HOST.into(),
                "900 1 8:1 / / rw master:500 - ext4 /dev/sda1 rw\n\
                 901 900 8:1 / /host rw shared:500 master:1 - ext4 /dev/sda1 rw\n"
                    .into(),
                None,
            ),
            // As the kernel shows it, and the mount arrives: the peers of 2 are in a third namespace.
            (
                "a slave of a slave in a third namespace",
                HOST.into(),
                root("master:2 "),
                Some("not known: 2".to_owned()),
            ),
            (
                "a slave of a slave, with the group of the maker in its namespace",
                HOST.into(),
                root("master:2 propagate_from:1 "),
                None,
            ),
            (
                "between the master and the group that is in its namespace",
                root("shared:3 master:1 "),
                root("master:2 propagate_from:1 ").replace("900", "901"),
                Some("not known: 2".to_owned()),
            ),
            (
                "the maker's table shows the master of the viewer's master",
                format!("{HOST}23 22 8:1 / /mnt rw shared:2 master:1 - ext4 /dev/sda1 rw\n"),
                root("master:2 "),
                None,
            ),
            // Group 1 passes mounts on to the maker, so that it cannot receive the maker's.
            (
                "two slaves of one group",
                root("shared:500 master:1 "),
                container("master:1 "),
                Some(copy.to_owned()),
            ),
        ] {
            assert_eq!(reason(&maker, &viewer), barrier, "{case}");
        }
    }

    #[test]
    fn the_deepest_and_last_mount_of_the_path_counts() {
        let shared = "30 22 8:2 / /var/lib/kubelet rw shared:7 - xfs /dev/sdb rw\n";
        let pods = "31 30 8:2 /pods /var/lib/kubelet/pods rw - xfs /dev/sdb rw\n";
        let node = format!("{HOST}{shared}");
        let maker = node.replace("30 22", "40 22").replace("22 1", "39 1");
        assert_eq!(reason(&maker, &node), None);
        let above = format!("{maker}{pods}");
        let private = "the mount /var/lib/kubelet/pods is private";
        assert_eq!(reason(&above, &node).as_deref(), Some(private));
        let hidden = format!("{maker}{pods}{}", pods.replace(" rw -", " rw shared:7 -"));
        assert_eq!(reason(&hidden, &node), None);
    }

    #[test]
    fn links_are_followed_in_the_root_of_each_process() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("var/lib")).unwrap();
        let link = dir.path().join("var/lib/kubelet");
        symlink("../../data/kubelet", &link).unwrap();
        let table = format!("{HOST}30 22 8:2 / /data rw shared:7 - xfs /dev/sdb rw\n");
        let node = MountView::parse(table.as_bytes(), dir.path().to_owned());
        let volume = "/kubelet /var/lib/kubelet rw shared:7 - xfs /dev/sdb rw";
        let container = view(&format!(
            "50 1 0:50 / / rw - overlay o rw\n51 50 8:2 {volume}\n"
        ));
        let path = Path::new(PODS);
        let shows = propagation(&container, &node, path).unwrap();
        assert_eq!(shows, Propagation::Shows);
        // An absolute link leads to the root of the process, not to ours.
        fs::remove_file(&link).unwrap();
        symlink("/data/kubelet", &link).unwrap();
        assert_eq!(node.resolve(path).unwrap(), Path::new("/data/kubelet/pods"));
        fs::remove_file(&link).unwrap();
        symlink("kubelet", &link).unwrap();
        assert!(propagation(&container, &node, path).is_err());
        // Behind a file system that may hang, no link is read.
        let hanging = format!("{HOST}30 22 0:9 / /var rw - nfs4 server:/var rw\n");
        for hanging in [
            hanging.clone(),
            // The way to the local file system leads through the other.
            format!("{hanging}31 30 0:10 / /var/lib rw - tmpfs tmpfs rw\n"),
        ] {
            let hanging = MountView::parse(hanging.as_bytes(), dir.path().to_owned());
            assert_eq!(hanging.resolve(path).unwrap(), path);
        }
    }

    #[test]
    fn a_process_without_mounts_or_without_a_table_is_not_compared() {
        let gone = propagation(&view(""), &view(HOST), Path::new(PODS));
        assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::NotFound);
        let dir = tempfile::tempdir().unwrap();
        assert!(MountView::of(dir.path()).is_err());
        let ours = MountView::of(Path::new("/proc/self")).unwrap();
        let same = propagation(&ours, &ours, Path::new("/proc")).unwrap();
        assert_eq!(same, Propagation::Shows);
    }

    #[test]
    fn a_table_without_end_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        symlink("/dev/zero", dir.path().join("mountinfo")).unwrap();
        let error = MountView::of(dir.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
