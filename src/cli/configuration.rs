//! The configuration that a command line names, with the kubelet's root directory found.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::args::Args;
use super::exit::{Exit, print_error};
use super::unapplied::{Change, changes};
use crate::config::{self, ConfigError, Loaded, Sources};
use crate::disk::layout::Layout;
use crate::disk::runtime_dir;
use crate::kubelet::root::{self, KubeletRoot};
use crate::supervisor::saved_state::SavedState;
use crate::systemd::sandbox;

/// How long the files and directories of the configuration may take.
const PATIENCE: Duration = Duration::from_secs(10);

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

    /// As the daemon would read it with the environment of this command.
    pub(super) fn of_command(args: &Args) -> Configuration {
        Configuration::new(args, Sources::of_process(args.config.clone()))
    }

    pub(super) fn load(&self) -> Result<Loaded, ConfigError> {
        let mut loaded = config::load(&self.sources)?;
        if loaded.needs_kubelet_root() {
            let known = self.root.borrow().as_ref().map(|root| root.path.clone());
            let saved = || SavedState::kubelet_root(&runtime_dir::state(&self.runtime));
            let root = root::find(Path::new("/"), known.or_else(saved));
            loaded.resolve_kubelet_root(root.path.clone(), root.why.to_string())?;
            self.root.replace(Some(root));
        }
        Ok(loaded)
    }
}

/// The configuration as the daemon would read it, for a command that prints none of its warnings itself.
pub(super) fn load(args: &Args) -> Result<Loaded, ConfigError> {
    let loaded = Configuration::of_command(args).load()?;
    for warning in &loaded.warnings {
        print_error(&format!("warning: {warning}"));
    }
    Ok(loaded)
}

/// A configuration that the daemon of the unit accepts.
pub(super) struct Accepted {
    pub(super) loaded: Loaded,
    pub(super) layout: Layout,
    /// The last changes of its files.
    pub(super) changes: Vec<Change>,
    /// Directories that the shipped unit would hide, where it is not known which unit runs the daemon.
    pub(super) warnings: Vec<String>,
}

/// The configuration, unless the daemon of the unit would refuse it at its start or at a reload. The
/// error has the daemon's words.
pub(super) async fn accepted(args: &Args) -> Result<Accepted, Exit> {
    let (loaded, layout, changes) = load_apart(args).await?;
    // A configuration that `--config` names is not the unit's.
    let of_unit = match args.config {
        None => sandbox::of_the_unit(&loaded.settings).await,
        Some(_) => None,
    };
    let warnings = match of_unit {
        Some(Err(kept)) => return Err(Exit::Config(kept.to_string())),
        Some(Ok(())) => Vec::new(),
        None => sandbox::kept_by_the_unit(&loaded.settings),
    };
    Ok(Accepted {
        loaded,
        layout,
        changes,
        warnings,
    })
}

/// Reads the configuration in another thread: it looks at registry_dir and at the kubelet's directory,
/// and a file system that hangs must not block the command.
async fn load_apart(args: &Args) -> Result<(Loaded, Layout, Vec<Change>), Exit> {
    let configuration = Configuration::of_command(args);
    let loading = spawn_blocking(move || {
        let loaded = configuration.load()?;
        let layout = loaded.settings.layout();
        let changes = changes(&loaded);
        Ok::<_, Exit>((loaded, layout, changes))
    });
    match timeout(PATIENCE, loading).await {
        Ok(loaded) => loaded.map_err(Exit::failed)?,
        Err(_) => Err(Exit::Failed(format!(
            "the configuration was not read within {PATIENCE:?}: a file system on the path of \
             its files, of registry_dir or of kubelet.plugins_registry does not answer"
        ))),
    }
}
