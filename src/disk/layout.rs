//! The layout: the paths of a registration, with two directories or with one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::disk::directory;
use crate::disk::name::DriverName;
use crate::disk::nesting::is_one;
use crate::disk::obstacle::Obstacle;
use crate::disk::socket::SUN_PATH_MAX;

/// The end of a registration socket's name.
const REG_SOCK: &str = "-reg.sock";

/// Where sockets and links go.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Layout {
    registry_dir: PathBuf,
    plugins_registry: PathBuf,
    /// `registry_dir` as the kubelet sees it.
    seen_as: PathBuf,
    /// Both directories are the same. The socket then has a hidden name, which the kubelet ignores.
    one_directory: bool,
}

/// A driver name that makes the path of a socket too long.
#[derive(Debug, PartialEq, Eq, Error)]
#[error(
    "the name \"{name}\" is too long: {} has {length} bytes, and the path of a socket has at most {SUN_PATH_MAX}",
    .path.display()
)]
pub(crate) struct TooLong {
    name: DriverName,
    path: PathBuf,
    length: usize,
}

impl Layout {
    pub(crate) fn new(registry_dir: &Path, plugins_registry: &Path, seen_as: &Path) -> Layout {
        Layout {
            registry_dir: registry_dir.to_owned(),
            plugins_registry: plugins_registry.to_owned(),
            seen_as: seen_as.to_owned(),
            one_directory: is_one(registry_dir, plugins_registry),
        }
    }

    /// The directory of the sockets. The registrar creates it.
    pub(crate) fn registry_dir(&self) -> &Path {
        &self.registry_dir
    }

    /// The directory of the links. It is the kubelet's, and the registrar never creates it.
    pub(crate) fn plugins_registry(&self) -> &Path {
        &self.plugins_registry
    }

    /// The directory of the sockets as the kubelet sees it.
    pub(crate) fn seen_as(&self) -> &Path {
        &self.seen_as
    }

    pub(crate) fn one_directory(&self) -> bool {
        self.one_directory
    }

    /// A mount or a link can make one directory of two, or two of one, at any time. Until the next load of the
    /// configuration nothing is put there: a link could replace its own socket, or lead nowhere.
    pub(crate) fn holds(&self) -> Result<(), Obstacle> {
        match directory::is_same(&self.registry_dir, &self.plugins_registry) {
            Some(is_one) if is_one != self.one_directory => Err(Obstacle::OtherLayout {
                plugins_registry: self.plugins_registry.clone(),
                is_one,
            }),
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn socket(&self, name: &DriverName) -> PathBuf {
        self.registry_dir.join(self.socket_name(name))
    }

    pub(crate) fn link(&self, name: &DriverName) -> PathBuf {
        self.plugins_registry.join(format!("{name}{REG_SOCK}"))
    }

    /// The socket and the link of a driver.
    pub(crate) fn places(&self, name: &DriverName) -> [PathBuf; 2] {
        [self.socket(name), self.link(name)]
    }

    /// The target of the link.
    pub(crate) fn target(&self, name: &DriverName) -> PathBuf {
        self.target_dir().join(self.socket_name(name))
    }

    /// The directory of each link's target; empty if that is the link's own directory.
    fn target_dir(&self) -> &Path {
        match self.one_directory {
            true => Path::new(""),
            false => &self.seen_as,
        }
    }

    /// Whether a registrar with this layout made a link with this target, for any driver.
    pub(crate) fn is_target(&self, target: &Path) -> bool {
        let name = target.file_name();
        target.parent() == Some(self.target_dir())
            && name.is_some_and(|name| self.is_socket_name(name))
    }

    /// Whether a registrar with this layout gives its sockets such names.
    fn is_socket_name(&self, name: &OsStr) -> bool {
        let name = name.as_bytes();
        name.ends_with(REG_SOCK.as_bytes()) && name.starts_with(b".") == self.one_directory
    }

    /// The driver whose registration socket has this name in `registry_dir`.
    pub(crate) fn driver_of(&self, socket_name: &OsStr) -> Option<DriverName> {
        if !self.is_socket_name(socket_name) {
            return None;
        }
        let name = socket_name.to_str()?.strip_suffix(REG_SOCK)?;
        DriverName::parse(name.strip_prefix('.').unwrap_or(name)).ok()
    }

    /// Where a socket is bound before it is renamed into its place. In its own directory the
    /// kubelet would log an error for the temporary name, so the parent directory is used instead.
    pub(crate) fn socket_stage(&self) -> &Path {
        if self.one_directory {
            self.link_stage()
        } else {
            &self.registry_dir
        }
    }

    /// Where a link is made before it is renamed over an old link: beside the kubelet's directory,
    /// on the same file system, but where the kubelet does not look.
    pub(crate) fn link_stage(&self) -> &Path {
        self.plugins_registry
            .parent()
            .unwrap_or(&self.plugins_registry)
    }

    /// Both the socket and the link must fit into sun_path: the registrar binds the socket, and the
    /// kubelet connects to the link.
    pub(crate) fn check(&self, name: &DriverName) -> Result<(), TooLong> {
        for path in self.places(name) {
            let length = path.as_os_str().len();
            if length > SUN_PATH_MAX {
                return Err(TooLong {
                    name: name.clone(),
                    path,
                    length,
                });
            }
        }
        Ok(())
    }

    fn socket_name(&self, name: &DriverName) -> String {
        let hidden = if self.one_directory { "." } else { "" };
        format!("{hidden}{name}{REG_SOCK}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(one_directory: bool) -> Layout {
        Layout {
            registry_dir: if one_directory {
                "/k/plugins_registry"
            } else {
                "/v/registry"
            }
            .into(),
            plugins_registry: "/k/plugins_registry".into(),
            seen_as: "/seen".into(),
            one_directory,
        }
    }

    fn name() -> DriverName {
        DriverName::parse("a.b").unwrap()
    }

    #[test]
    fn two_directories_have_a_socket_here_and_a_link_there() {
        let layout = layout(false);
        assert_eq!(
            layout.socket(&name()),
            Path::new("/v/registry/a.b-reg.sock")
        );
        assert_eq!(
            layout.link(&name()),
            Path::new("/k/plugins_registry/a.b-reg.sock")
        );
        assert_eq!(layout.target(&name()), Path::new("/seen/a.b-reg.sock"));
        assert_eq!(layout.socket_stage(), Path::new("/v/registry"));
        assert_eq!(layout.link_stage(), Path::new("/k"));
    }

    #[test]
    fn one_directory_has_a_hidden_socket_and_a_relative_link_to_it() {
        let layout = layout(true);
        assert_eq!(
            layout.socket(&name()),
            Path::new("/k/plugins_registry/.a.b-reg.sock")
        );
        assert_eq!(
            layout.link(&name()),
            Path::new("/k/plugins_registry/a.b-reg.sock")
        );
        assert_eq!(layout.target(&name()), Path::new(".a.b-reg.sock"));
        assert_eq!(layout.socket_stage(), Path::new("/k"));
    }

    #[test]
    fn knows_its_own_targets_and_no_others() {
        let two = layout(false);
        assert!(two.is_target(Path::new("/seen/x-reg.sock")));
        for other in [
            "/seen/x.sock",
            "/seen/.x-reg.sock",
            "/seen/d/x-reg.sock",
            "x-reg.sock",
            "/",
            "/v/registry/x-reg.sock",
        ] {
            assert!(!two.is_target(Path::new(other)), "{other}");
        }
        let one = layout(true);
        assert!(one.is_target(Path::new(".x-reg.sock")));
        assert!(!one.is_target(Path::new("x-reg.sock")));
        assert!(!one.is_target(Path::new("d/.x-reg.sock")));
    }

    #[test]
    fn knows_whose_a_socket_is_by_its_name() {
        let owner = |one, name: &str| layout(one).driver_of(OsStr::new(name));
        assert_eq!(owner(false, "a.b-reg.sock"), Some(name()));
        assert_eq!(owner(true, ".a.b-reg.sock"), Some(name()));
        for (one, other) in [
            (false, ".a.b-reg.sock"),
            (true, "a.b-reg.sock"),
            (false, "a.b.sock"),
            (false, "-reg.sock"),
            (false, "a_b-reg.sock"),
        ] {
            assert_eq!(owner(one, other), None, "{other}");
        }
    }

    #[test]
    fn a_name_that_makes_a_path_too_long_is_refused_with_the_path() {
        let mut layout = layout(false);
        let name = DriverName::parse(&"x".repeat(63)).unwrap();
        assert_eq!(layout.check(&name), Ok(()));
        layout.plugins_registry = Path::new("/").join("k".repeat(40));
        let refused = layout.check(&name).unwrap_err();
        assert_eq!(refused.length, 1 + 40 + 1 + 63 + REG_SOCK.len());
        assert!(refused.to_string().contains("114 bytes"), "{refused}");
    }
}
