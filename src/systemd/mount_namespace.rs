//! The lines of a service's files that give the service its own mount namespace.
//!
//! Mounts that the service makes do not leave such a namespace: systemd first makes every mount in it a slave
//! of the node's mount. MountFlags=shared does not help, because the copies then form peer groups of their own.

use std::fmt;
use std::path::{Path, PathBuf};

use super::unit_properties::UnitProperties;

/// The directives of systemd.exec(5) that make a mount namespace, each by itself. Those that need no image
/// were tried on systemd 247 to 262. The last directives have older names, or were added later.
const DIRECTIVES: [&str; 36] = [
    "PrivateMounts",
    "PrivateTmp",
    "PrivateDevices",
    "PrivateIPC",
    "IPCNamespacePath",
    "ProtectSystem",
    "ProtectHome",
    "ProtectKernelTunables",
    "ProtectKernelModules",
    "ProtectKernelLogs",
    "ProtectControlGroups",
    "ProtectProc",
    "ProcSubset",
    "ReadOnlyPaths",
    "ReadWritePaths",
    "InaccessiblePaths",
    "ExecPaths",
    "NoExecPaths",
    "BindPaths",
    "BindReadOnlyPaths",
    "TemporaryFileSystem",
    "MountFlags",
    "RootDirectory",
    "RootImage",
    "RootMStack",
    "MountImages",
    "ExtensionImages",
    "ExtensionDirectories",
    "DynamicUser",
    "LogNamespace",
    "ReadOnlyDirectories",
    "ReadWriteDirectories",
    "InaccessibleDirectories",
    "PrivatePIDs",
    "PrivateBPF",
    "BindLogSockets",
];
/// These make a mount namespace on systemd 257 and later, and not on 252.
const LATER: [&str; 3] = [PRIVATE_NETWORK, NETWORK_NAMESPACE_PATH, "MountAPIVFS"];
const PRIVATE_MOUNTS: &str = "PrivateMounts";
const PRIVATE_NETWORK: &str = "PrivateNetwork";
const NETWORK_NAMESPACE_PATH: &str = "NetworkNamespacePath";

/// systemd's words for no, and the values of single directives that make no namespace.
const NO: [&str; 6] = ["no", "n", "false", "f", "off", "0"];
const DEFAULTS: [(&str, &str); 4] = [
    ("ProtectProc", "default"),
    ("ProcSubset", "all"),
    ("MountFlags", "shared"),
    ("RootDirectory", "/"),
];

/// The files of a service, as systemd has loaded them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceFiles {
    /// The unit's file, then its drop-ins, in the order in which systemd reads them.
    pub(crate) paths: Vec<PathBuf>,
    /// The file that a generator made the unit from, such as a quadlet.
    pub(crate) source: Option<PathBuf>,
}

/// A line that gives the service its own mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamespaceLine {
    file: PathBuf,
    number: usize,
    directive: String,
    value: String,
}

impl fmt::Display for NamespaceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NamespaceLine {
            number,
            directive,
            value,
            ..
        } = self;
        let file = self.file.display();
        write!(f, "{file}:{number}: {directive}={value}")?;
        match LATER.contains(&directive.as_str()) {
            true => f.write_str(" (only with a systemd newer than 252)"),
            false => Ok(()),
        }
    }
}

impl NamespaceLine {
    /// The line is in a file of a package, which the next upgrade would restore.
    pub(crate) fn is_packaged(&self) -> bool {
        let mut of_packages = ["/usr/lib", "/lib"].into_iter();
        of_packages.any(|top| self.file.starts_with(top))
    }
}

impl ServiceFiles {
    /// None if systemd does not answer or does not know the service.
    pub(crate) async fn of(service: &str) -> Option<ServiceFiles> {
        let properties = UnitProperties::of(service, "FragmentPath,DropInPaths,SourcePath").await?;
        Some(ServiceFiles::from_properties(&properties))
    }

    fn from_properties(properties: &UnitProperties) -> ServiceFiles {
        let words = |name| properties.value(name).split_whitespace();
        let paths = words("FragmentPath").chain(words("DropInPaths"));
        ServiceFiles {
            paths: paths.map(PathBuf::from).collect(),
            source: words("SourcePath").next().map(PathBuf::from),
        }
    }
}

/// The lines of these files, in the order in which systemd reads them, that each give the service its own
/// mount namespace. A later empty or negative assignment cancels the lines before it.
pub(crate) fn namespace_lines<'a>(
    files: impl IntoIterator<Item = (&'a Path, &'a str)>,
) -> Vec<NamespaceLine> {
    let mut lines: Vec<NamespaceLine> = Vec::new();
    let mut is_refused = false;
    for (file, text) in files {
        for (number, directive, value) in assignments(text) {
            let is_on = makes_namespace(&directive, &value);
            if directive == PRIVATE_MOUNTS {
                is_refused = !is_on && !value.is_empty();
            }
            if is_on {
                lines.push(NamespaceLine {
                    file: file.to_owned(),
                    number,
                    directive,
                    value,
                });
            } else {
                lines.retain(|line| line.directive != directive);
            }
        }
    }
    // PrivateMounts=no keeps a network namespace from bringing a mount namespace along.
    let of_network = [PRIVATE_NETWORK, NETWORK_NAMESPACE_PATH];
    lines.retain(|line| !is_refused || !of_network.contains(&line.directive.as_str()));
    lines
}

fn makes_namespace(directive: &str, value: &str) -> bool {
    let word = value.to_ascii_lowercase();
    !word.is_empty() && !NO.contains(&&*word) && !DEFAULTS.contains(&(directive, &*word))
}

/// The assignments of a unit's file to the directives that we know, with the numbers of their lines.
fn assignments(text: &str) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    let mut is_service = false;
    for (number, line) in logical_lines(text) {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[') {
            is_service = section.strip_suffix(']') == Some("Service");
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_service) {
            let name = name.trim_end();
            if DIRECTIVES.contains(&name) || LATER.contains(&name) {
                found.push((number, name.to_owned(), value.trim_start().to_owned()));
            }
        }
    }
    found
}

/// A line that ends with a backslash goes on in the next line, past comments; systemd.syntax(7).
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut whole: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with(['#', ';']) {
            continue;
        }
        let (begun, is_added) = (whole.last_mut(), continues);
        // Two backslashes are an escaped backslash.
        let backslashes = line.bytes().rev().take_while(|byte| *byte == b'\\');
        continues = backslashes.count() % 2 == 1;
        let part = if continues {
            format!("{} ", &line[..line.len() - 1])
        } else {
            line.to_owned()
        };
        match begun {
            Some((_, begun)) if is_added => begun.push_str(&part),
            _ => whole.push((index + 1, part)),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::super::systemctl::Systemctl;
    use super::super::systemctl::tests::script;
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(file, text)| (Path::new(*file), *text));
        let lines = namespace_lines(files);
        lines.iter().map(ToString::to_string).collect()
    }

    fn of_service(text: &str) -> Vec<String> {
        let lines = lines(&[("u", &format!("[Service]\n{text}"))]);
        let shown = |line: String| line.split_once(": ").unwrap().1.to_owned();
        lines.into_iter().map(shown).collect()
    }

    #[test]
    fn names_each_line_of_the_unit_and_of_its_drop_ins() {
        let unit = "[Unit]\nPrivateTmp=no\n\n[Service]\nExecStart=/x\n  PrivateTmp = yes\n[Install]\nProtectHome=yes\n";
        let drop_in = "# harden\n[Service]\nProtectSystem=full\nPrivateTmp=yes\n";
        assert_eq!(
            lines(&[("/u/a.service", unit), ("/u/a.service.d/x.conf", drop_in)]),
            [
                "/u/a.service:6: PrivateTmp=yes",
                "/u/a.service.d/x.conf:3: ProtectSystem=full",
                "/u/a.service.d/x.conf:4: PrivateTmp=yes",
            ]
        );
    }

    #[test]
    fn a_later_line_that_is_empty_or_negative_cancels_the_lines_before_it() {
        for off in ["no", "False", "off", "0", ""] {
            let text = format!("PrivateTmp=yes\nProtectHome=read-only\nPrivateTmp={off}\n");
            assert_eq!(of_service(&text), ["ProtectHome=read-only"], "{off}");
        }
        let drop_in = "[Service]\nReadOnlyPaths=\nReadOnlyPaths=/c\n";
        let unit = "[Service]\nReadOnlyPaths=/a\nReadOnlyPaths=/b\n";
        assert_eq!(
            lines(&[("u", unit), ("d", drop_in)]),
            ["d:3: ReadOnlyPaths=/c"]
        );
        assert_eq!(
            of_service("PrivateTmp=no\nPrivateTmp=yes\n"),
            ["PrivateTmp=yes"]
        );
    }

    #[test]
    fn values_that_make_no_namespace_are_not_named() {
        for off in [
            "ProtectProc=default",
            "ProcSubset=all",
            "MountFlags=shared",
            "RootDirectory=/",
            "ProtectHostname=yes",
            "PrivateUsers=yes",
            "StateDirectory=x",
            "#PrivateTmp=yes",
            "; PrivateTmp=yes",
            "PrivateMounts=no\nPrivateNetwork=yes",
        ] {
            assert_eq!(of_service(off), [] as [&str; 0], "{off}");
        }
        for on in [
            "MountFlags=slave",
            "ReadOnlyPaths=/",
            "ProtectHome=tmpfs",
            "RootMStack=/a",
        ] {
            assert_eq!(of_service(on), [on]);
        }
        assert_eq!(
            of_service("PrivateNetwork=yes\n"),
            ["PrivateNetwork=yes (only with a systemd newer than 252)"]
        );
    }

    #[test]
    fn a_line_that_continues_has_the_number_of_its_beginning_and_a_command_is_no_directive() {
        let text = "[Service]\nExecStart=/x \\\n  PrivateTmp=yes\nReadWritePaths=/a \\\n# why\n  /b\n\nProtectHome=yes";
        assert_eq!(
            lines(&[("u", text)]),
            ["u:4: ReadWritePaths=/a  /b", "u:8: ProtectHome=yes"]
        );
        assert_eq!(of_service("PrivateTmp=yes \\"), ["PrivateTmp=yes"]);
        let escaped = "TemporaryFileSystem=/a\\\\\nPrivateTmp=yes";
        assert_eq!(of_service(escaped).len(), 2);
    }

    #[tokio::test]
    async fn systemd_names_the_files_of_another_unit() {
        let (_dir, path) = script(
            "[ \"$4\" = nfs.service ] || exit 1; printf 'LoadState=loaded\\nFragmentPath=/u/nfs.service\\nDropInPaths=/d/a.conf /d/b.conf\\nSourcePath=\\n'",
        );
        let asked = UnitProperties::ask(Systemctl(&path), "nfs.service", "FragmentPath").await;
        let files = ServiceFiles::from_properties(&asked.unwrap().unwrap());
        let paths = ["/u/nfs.service", "/d/a.conf", "/d/b.conf"];
        assert_eq!(files.paths, paths.map(PathBuf::from));
        assert_eq!(files.source, None);
    }
}
