//! The configuration: its layers, what they add up to, and where each value came from.
//!
//! Later layers win: built-in defaults, `config.toml`, `config.d/*.toml` beside it, the unit's
//! environment as a command knows it, the environment, flags. Each layer is checked on its own
//! before the merge, because only then does an error know the file that it is in.

mod combinations;
mod driver;
mod environment;
mod environment_file;
mod error;
mod file;
mod key;
mod layer;
mod literal;
mod provenance;
mod schema;

mod choice;
mod origin;
mod service_link;
mod settings;
mod tree;
mod value;
mod wildcard;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use figment::Figment;

pub use choice::{LogLevel, LogTarget, OnLiveOwner, OnStop, ReadyWhen};
pub use driver::{DriverDefaults, DriverSettings};
pub use error::{ConfigError, Problem};
pub use key::Key;
pub use layer::Overrides;
pub use origin::Origin;
pub use provenance::{ExplainedKey, Provenance};
pub use settings::{
    DiscoverySettings, HttpSettings, KubeletSettings, LogSettings, ServiceSettings, Settings,
};
pub use value::{Listen, RootDir};

use origin::Origins;
use tree::Tree;

/// Where the configuration is when no flag says otherwise. It may be missing.
pub const DEFAULT_CONFIG: &str = "/etc/node-storage-driver-registrar/config.toml";

/// Where the unit has its variables from: the `EnvironmentFile=` of the shipped one, in its order.
pub const UNIT_ENVIRONMENT: [&str; 2] = [
    "/etc/default/node-storage-driver-registrar",
    "/etc/sysconfig/node-storage-driver-registrar",
];

/// All that a configuration is made from; by default nothing.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--config`: this file must be there.
    pub config: Option<PathBuf>,
    /// The file read without `--config`; `None` reads no file at all.
    pub default_config: Option<PathBuf>,
    /// Files of variables that the daemon is given by its unit, for a process that is not the
    /// daemon. They belong to the default configuration, and are not read with `--config`.
    pub environment_files: Vec<PathBuf>,
    /// The process' environment; only names that start with `NSDR_` count.
    pub environment: Vec<(OsString, OsString)>,
    /// What flags set.
    pub overrides: Overrides,
}

impl Sources {
    /// The sources of this process: its environment and the default file, unless `config` names one.
    /// The daemon takes its environment as it is.
    pub fn of_process(config: Option<PathBuf>, overrides: Overrides) -> Self {
        Self {
            config,
            default_config: Some(PathBuf::from(DEFAULT_CONFIG)),
            environment_files: Vec::new(),
            environment: std::env::vars_os().collect(),
            overrides,
        }
    }

    /// The same for a command that judges what the unit's daemon would do.
    pub fn of_command(config: Option<PathBuf>, overrides: Overrides) -> Self {
        Self {
            environment_files: UNIT_ENVIRONMENT.map(PathBuf::from).to_vec(),
            ..Self::of_process(config, overrides)
        }
    }

    fn main_file(&self) -> Option<(&Path, file::Presence)> {
        match (&self.config, &self.default_config) {
            (Some(named), _) => Some((named, file::Presence::Required)),
            (None, Some(default)) => Some((default, file::Presence::Optional)),
            (None, None) => None,
        }
    }

    fn unit_environment(&self) -> &[PathBuf] {
        match &self.config {
            Some(_) => &[],
            None => &self.environment_files,
        }
    }
}

/// A configuration that is valid as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The effective values.
    pub settings: Settings,
    origins: Origins,
    /// Why the root directory was taken that stands in the place of "auto".
    root_found: Option<String>,
    warnings: Vec<String>,
}

impl Loaded {
    /// Whether somebody still has to find the kubelet's root directory, for `root_dir = "auto"`.
    pub fn needs_kubelet_root(&self) -> bool {
        self.settings.kubelet.root_dir == RootDir::Auto
    }

    /// Puts the root directory that was found in the place of `"auto"`, with the reason in words.
    ///
    /// # Errors
    /// The kubelet's registry in that root leaves too little room for a pinned driver's name.
    pub fn resolve_kubelet_root(&mut self, root: PathBuf, why: String) -> Result<(), ConfigError> {
        if !self.registry_dir_is_given() {
            self.settings.kubelet.registry_dir = root.join(settings::PLUGINS_REGISTRY);
        }
        self.settings.kubelet.root_dir = RootDir::Path(root);
        self.root_found = Some(why);
        ConfigError::from_problems(combinations::find(self))
    }

    /// Why the root directory was taken that stands in the place of `"auto"`, if one was found.
    pub fn root_found(&self) -> Option<&str> {
        self.root_found.as_deref()
    }

    /// Which files of variables were not taken into account, and why.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn registry_dir_is_given(&self) -> bool {
        self.origins
            .contains(&Key::of(&["kubelet", "registry_dir"]))
    }
}

/// Reads every layer, checks it, and merges them.
///
/// # Errors
/// Everything that is wrong in any layer, each with its file, variable or flag, its key and its
/// value; what only shows in the sum (two drivers with one socket) once the layers are right.
pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let (mut layers, mut problems) = match sources.main_file() {
        Some((path, presence)) => file::layers(path, presence),
        None => (Vec::new(), Vec::new()),
    };
    let variables = environment::layers(sources.unit_environment(), &sources.environment);
    layers.extend(variables.layers);
    problems.extend(variables.problems);
    layers.extend_from_slice(sources.overrides.layers());
    problems.extend(layers.iter().flat_map(layer::Layer::check));
    ConfigError::from_problems(problems)?;

    let figment = layers.iter().fold(Figment::new(), Figment::merge);
    let tree: Tree = figment.extract().map_err(Problem::from)?;
    let loaded = Loaded {
        settings: Settings::from(tree),
        origins: Origins::of(&figment, &layers)?,
        root_found: None,
        warnings: variables.warnings,
    };
    ConfigError::from_problems(combinations::find(&loaded))?;
    Ok(loaded)
}
