//! The configuration: its layers, the settings that they make, and where each value came from.
//!
//! Later layers win: built-in defaults, `config.toml`, `config.d/*.toml` beside it, the environment,
//! flags. Each layer is checked on its own before the merge, because only then an error knows its file.

pub(crate) mod choice;
mod combinations;
mod environment;
mod error;
mod file;
mod key;
mod layer;
pub(crate) mod literal;
mod origin;
mod provenance;
mod schema;
mod settings;
mod sources;
mod value;

use std::path::PathBuf;

pub use choice::{LogLevel, LogTarget, OnLiveOwner, OnStop, ReadyWhen};
pub use error::{ConfigError, Problem};
pub use key::Key;
pub use layer::Overrides;
pub use origin::Origin;
pub use provenance::{ExplainedKey, Provenance};
pub use settings::{
    ClusterSettings, DiscoverySettings, DriverSettings, HttpSettings, KubeletSettings, LogSettings,
    ServiceSettings, Settings,
};
pub(crate) use settings::{PLUGINS_REGISTRY, csi_socket};
pub use sources::{DEFAULT_CONFIG, Sources};
pub use value::{Listen, NodeName, RootDir};

use layer::Layer;
use origin::Origins;
use sources::Found;

/// A configuration that is valid as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The effective values.
    pub settings: Settings,
    origins: Origins,
    /// Why this root directory takes the place of `"auto"`; `None` if `root_dir` is not `"auto"`.
    pub root_found: Option<String>,
    /// Which variables were ignored, and why.
    pub warnings: Vec<String>,
    /// The files that were read, in the order in which they count.
    pub files: Vec<PathBuf>,
    /// The directories whose entries decide which files are read: `config.d`, and the directory of a
    /// default file that does not exist.
    pub directories: Vec<PathBuf>,
    /// Which files were not read, and why: those in `config.d` that are no drop-ins, and a default file
    /// that does not exist.
    pub passed_over: Vec<String>,
}

impl Loaded {
    /// Whether `root_dir` is `"auto"` and the kubelet's root directory is not found yet.
    pub fn needs_kubelet_root(&self) -> bool {
        self.settings.kubelet.root_dir == RootDir::Auto
    }

    /// Puts the kubelet's root directory in the place of `"auto"`, with the reason in words.
    ///
    /// # Errors
    /// The kubelet's registry in that root leaves too little room for a pinned driver's name.
    pub fn resolve_kubelet_root(&mut self, root: PathBuf, why: String) -> Result<(), ConfigError> {
        self.settings.kubelet.root_dir = RootDir::Path(root);
        self.root_found = Some(why);
        self.complete()
    }

    /// Derives the paths that no layer sets, and checks the combinations of keys.
    fn complete(&mut self) -> Result<(), ConfigError> {
        self.settings.derive_paths(&self.origins);
        ConfigError::from_problems(combinations::faults(self))
    }
}

/// Reads every layer, checks it, and merges all of them.
///
/// # Errors
/// Every problem in any layer, each with its file, variable or flag, its key and its value. The
/// combinations of keys are checked when all layers are valid.
pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let Found {
        layers,
        mut problems,
        warnings,
        files,
        directories,
        passed_over,
    } = sources.read();
    problems.extend(layers.iter().flat_map(Layer::check));
    ConfigError::from_problems(problems)?;

    let mut loaded = Loaded {
        settings: layer::merge(&layers)?,
        origins: origin::origins(&layers),
        root_found: None,
        warnings,
        files,
        directories,
        passed_over,
    };
    loaded.complete()?;
    Ok(loaded)
}

#[cfg(test)]
mod tests;
