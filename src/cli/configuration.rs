//! The configuration that a command line names, with the kubelet's root directory found.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::args::Args;
use super::exit::print_error;
use crate::config::{self, ConfigError, Loaded, Sources};
use crate::disk::runtime_dir;
use crate::kubelet::root::{self, Host, KubeletRoot, RootSource};
use crate::supervisor::saved_state::SavedState;
use crate::systemd::main_pids_of_kubelets;

/// A configuration that can be read more than once.
pub(super) struct Configuration {
    sources: Sources,
    /// The runtime directory of the daemon, whose state has the kubelet that called last.
    runtime: PathBuf,
    /// The kubelet's root directory that was found last for `root_dir = "auto"`.
    pub(super) root: RefCell<Option<KubeletRoot>>,
}

impl Configuration {
    /// From these sources; `--log-level` wins over them.
    pub(super) fn new(args: &Args, mut sources: Sources) -> Configuration {
        let level = args.log_level.as_deref();
        let overrides = &mut sources.overrides;
        overrides.set("--log-level", &["log", "level"], level);
        Configuration {
            sources,
            runtime: runtime_dir::locate(args.runtime_dir.as_deref()),
            root: RefCell::default(),
        }
    }

    /// As the daemon of the unit would read it.
    pub(super) fn of_command(args: &Args) -> Configuration {
        Configuration::new(args, Sources::of_command(args.config.clone()))
    }

    pub(super) fn load(&self) -> Result<Loaded, ConfigError> {
        let mut loaded = config::load(&self.sources)?;
        if loaded.needs_kubelet_root() {
            let known = self.root.borrow().clone();
            let host = Host::new(Path::new("/proc"), main_pids_of_kubelets);
            let root = root::find(&host, root_before(&self.runtime), known);
            loaded.resolve_kubelet_root(root.path.clone(), root.why.to_string())?;
            self.root.replace(Some(root));
        }
        Ok(loaded)
    }
}

/// The configuration as the daemon of the unit would read it, for a command that prints none of its
/// warnings itself.
pub(super) fn load(args: &Args) -> Result<Loaded, ConfigError> {
    let loaded = Configuration::of_command(args).load()?;
    for warning in &loaded.warnings {
        print_error(&format!("warning: {warning}"));
    }
    Ok(loaded)
}

/// The root of the kubelet that last called a daemon with this runtime directory.
fn root_before(runtime: &Path) -> Option<KubeletRoot> {
    let (path, kubelet) = SavedState::kubelet_root(&runtime_dir::state(runtime))?;
    let why = match kubelet.filter(|kubelet| kubelet.is_running()) {
        Some(kubelet) => RootSource::Called { pid: kubelet.pid },
        None => RootSource::Before,
    };
    Some(KubeletRoot { path, why })
}
