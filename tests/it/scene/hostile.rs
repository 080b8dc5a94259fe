//! A node with the registrar on it, and what these tests ask of the two.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bed::wire::get_info;
use bed::{DriverStatus, Node, Registrar, eventually};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Uid;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_node-storage-driver-registrar");
pub(crate) const NAME: &str = "local.csi.paas.cucloud";
pub(crate) const OTHER: &str = "nfs.csi.k8s.io";
/// Generous: the machine may be busy with other tests.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A node and its registrar. What else runs there is the test's own.
pub(crate) struct Scene {
    pub(crate) registrar: Registrar,
    pub(crate) node: Node,
}

impl Scene {
    /// The kubelet's directory is there, `drivers` are configured with HTTP on [`Self::http`],
    /// followed by `more` tables of TOML; nothing runs yet.
    pub(crate) fn new(drivers: &[&str], more: &str) -> Scene {
        let node = Node::new();
        node.make_kubelet_registry_dir();
        let scene = Scene {
            registrar: Registrar::new(PROGRAM, &node),
            node,
        };
        let listen = format!("unix:{}", scene.http().display());
        let http = format!("[http]\nlisten = {listen:?}\n{more}");
        scene.node.write_default_config(drivers, &http);
        scene
    }

    /// The same, and the registrar runs.
    pub(crate) fn started(drivers: &[&str], more: &str) -> Scene {
        let mut scene = Scene::new(drivers, more);
        scene.registrar.start();
        scene
    }

    pub(crate) fn http(&self) -> PathBuf {
        self.node.runtime_dir().join("http.sock")
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.node.runtime_dir().join("control.sock")
    }

    #[track_caller]
    pub(crate) fn phase(&self, id: &str, phase: &str) -> DriverStatus {
        self.registrar.wait_phase(id, phase, SOON)
    }

    /// Waits until the kubelet's question is answered through the link.
    #[track_caller]
    pub(crate) fn wait_answered(&self, name: &str) {
        let link = self.node.link(name);
        eventually("GetInfo is answered", SOON, || {
            get_info(&link).map_err(|status| status.to_string())
        });
    }
}

/// A file that nobody but its owner has any business with, to be pointed at.
pub(crate) struct Victim(PathBuf);

impl Victim {
    const WORDS: &str = "to be left alone\n";
    const MODE: u32 = 0o640;

    pub(crate) fn in_directory(directory: &Path) -> Victim {
        let path = directory.join("victim");
        fs::write(&path, Victim::WORDS).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(Victim::MODE)).unwrap();
        Victim(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    #[track_caller]
    pub(crate) fn is_untouched(&self) {
        assert_eq!(fs::read_to_string(&self.0).unwrap(), Victim::WORDS);
        assert_eq!(mode(&self.0), Victim::MODE);
    }
}

/// The mode of what is at the path itself.
pub(crate) fn mode(path: &Path) -> u32 {
    let found = fs::symlink_metadata(path);
    let found = found.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    found.permissions().mode() & 0o7777
}

/// Says loudly when a test goes without root. In CI it must be there.
pub(crate) fn is_root() -> bool {
    let root = Uid::effective().is_root();
    if !root {
        bed::skipped("root, to act as somebody else");
    }
    root
}

/// This many connections that say `words` and no more; those that were closed meanwhile included.
pub(crate) fn flood(path: &Path, count: usize, words: &[u8]) -> Vec<UnixStream> {
    use std::io::Write;
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most.min(8192), most).unwrap();
    let open = |_| {
        let mut stream = UnixStream::connect(path).unwrap();
        match stream.write_all(words) {
            Ok(()) | Err(_) => stream,
        }
    };
    (0..count).map(open).collect()
}
