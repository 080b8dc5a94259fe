//! The kubelet's root directory, for `root_dir = "auto"`: one of the well-known directories.
//!
//! A kubelet with any other root has to be named. A command line proves nothing: any pod may have the same.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::start_sockets::StartSockets;
use crate::disk::directory;

/// The kubelet's own default.
pub(super) const DEFAULT: &str = "/var/lib/kubelet";
pub(super) const OF_K0S: &str = "/var/lib/k0s/kubelet";
pub(super) const OF_MICROK8S: &str = "/var/snap/microk8s/common/var/lib/kubelet";

/// The directories of distributions, the most common first.
const WELL_KNOWN: [&str; 7] = [
    DEFAULT,
    OF_K0S,
    OF_MICROK8S,
    "/opt/rke/var/lib/kubelet",
    "/var/vcap/data/kubelet",
    "/var/lib/rancher/k3s/agent/kubelet",
    "/cm/local/apps/kubernetes/var/kubelet",
];

/// Every kubelet creates it in its root when it starts. Drivers create `plugins` themselves.
const REGISTRY: &str = "plugins_registry";

/// A root directory, and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubeletRoot {
    pub(crate) path: PathBuf,
    pub(crate) why: RootSource,
}

/// The reason for a choice, the strongest first. `Error` gives each its words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum RootSource {
    /// A process of root, or of our own user, listens on the pod-resources socket in it.
    #[error("{} listens on pod-resources/kubelet.sock in it", process(*.pid))]
    Served { pid: Option<u32> },
    #[error("no kubelet listens in a well-known directory, and only this one has {REGISTRY}")]
    OnlyRegistry,
    #[error("no kubelet listens in a well-known directory, and this one was used last")]
    LastKnown,
    #[error("no kubelet has used a well-known directory; this is the default")]
    Default,
}

/// The root directory of this node's kubelet; `known` is the one that was used last. Where several fit, the
/// last known one is kept: another path, also to the same directory, would move every driver.
///
/// Well-known paths are below `system`, which is / except in tests.
pub(crate) fn find(system: &Path, known: Option<PathBuf>) -> KubeletRoot {
    let place = |root: &str| system.join(root.trim_start_matches('/'));
    let mut roots = WELL_KNOWN;
    roots.sort_by_key(|root| known.as_deref() != Some(Path::new(root)));
    let served = roots.iter().find_map(|root| {
        let listener = StartSockets::of(&place(root)).listener()?;
        let why = RootSource::Served { pid: listener.pid };
        listener.is_trusted().then_some((PathBuf::from(root), why))
    });
    let only_registry = || {
        let registries = roots.map(|root| (root, place(root).join(REGISTRY)));
        let mut used = registries.iter().filter(|(_, registry)| registry.is_dir());
        let (root, first) = used.next()?;
        let is_only = used.all(|(_, other)| directory::is_same(first, other) == Some(true));
        is_only.then(|| (PathBuf::from(root), RootSource::OnlyRegistry))
    };
    let (path, why) = served
        .or_else(only_registry)
        .or_else(|| known.map(|root| (root, RootSource::LastKnown)))
        .unwrap_or_else(|| (DEFAULT.into(), RootSource::Default));
    KubeletRoot { path, why }
}

fn process(pid: Option<u32>) -> String {
    pid.map_or("a process".to_owned(), |pid| format!("pid {pid}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use tempfile::TempDir;

    use super::*;

    /// A system with directories of the test's choice.
    struct System(TempDir);

    impl System {
        fn new() -> System {
            System(tempfile::tempdir().unwrap())
        }

        fn place(&self, path: &str) -> PathBuf {
            self.0.path().join(path.trim_start_matches('/'))
        }

        fn with(self, directory: &str) -> System {
            fs::create_dir_all(self.place(directory)).unwrap();
            self
        }

        fn listen(&self, root: &str) -> UnixListener {
            let directory = self.place(root).join("pod-resources");
            fs::create_dir_all(&directory).unwrap();
            UnixListener::bind(directory.join("kubelet.sock")).unwrap()
        }

        fn find(&self, known: Option<&str>) -> (String, RootSource) {
            let KubeletRoot { path, why } = find(self.0.path(), known.map(PathBuf::from));
            (path.display().to_string(), why)
        }
    }

    fn served() -> RootSource {
        let pid = Some(std::process::id());
        RootSource::Served { pid }
    }

    #[test]
    fn each_well_known_directory_is_found_by_its_listener_and_by_its_plugins_registry() {
        for root in WELL_KNOWN {
            let system = System::new().with(&format!("{root}/plugins_registry"));
            let found = (root.to_owned(), RootSource::OnlyRegistry);
            assert_eq!(system.find(Some("/known")), found);
            let system = System::new();
            let _listener = system.listen(root);
            assert_eq!(system.find(Some("/known")), (root.to_owned(), served()));
            // Drivers make this one.
            let system = System::new().with(&format!("{root}/plugins"));
            assert_eq!(system.find(None), (DEFAULT.to_owned(), RootSource::Default));
        }
    }

    #[test]
    fn a_listener_counts_more_than_directories_and_the_last_known_of_two_is_kept() {
        let system = System::new()
            .with("/var/lib/kubelet/plugins_registry")
            .with("/var/lib/k0s/kubelet/plugins_registry");
        let known = |root: &str| (root.to_owned(), RootSource::LastKnown);
        assert_eq!(system.find(Some("/known")), known("/known"));
        assert_eq!(system.find(Some(OF_K0S)), known(OF_K0S));
        assert_eq!(system.find(None).1, RootSource::Default);
        let _k0s = system.listen(OF_K0S);
        assert_eq!(system.find(None), (OF_K0S.to_owned(), served()));
        assert_eq!(system.find(Some(DEFAULT)), (OF_K0S.to_owned(), served()));
        let _default = system.listen(DEFAULT);
        assert_eq!(system.find(None), (DEFAULT.to_owned(), served()));
        assert_eq!(system.find(Some(OF_K0S)), (OF_K0S.to_owned(), served()));
    }

    #[test]
    fn a_socket_without_a_listener_is_no_kubelet() {
        let system = System::new().with("/var/lib/kubelet/plugins_registry");
        drop(system.listen(OF_K0S));
        assert_eq!(system.find(None).1, RootSource::OnlyRegistry);
        assert_eq!(system.find(None).0, DEFAULT);
    }

    /// k0s recommends such a link for drivers that know only the default.
    #[test]
    fn two_paths_to_one_directory_are_one_and_the_last_known_path_stays() {
        let system = System::new()
            .with("/var/lib/k0s/kubelet/plugins_registry")
            .with("/var/lib");
        symlink(system.place(OF_K0S), system.place(DEFAULT)).unwrap();
        let only = |root: &str| (root.to_owned(), RootSource::OnlyRegistry);
        assert_eq!(system.find(None), only(DEFAULT));
        assert_eq!(system.find(Some(OF_K0S)), only(OF_K0S));
        let _kubelet = system.listen(OF_K0S);
        assert_eq!(system.find(Some(OF_K0S)), (OF_K0S.to_owned(), served()));
    }
}
