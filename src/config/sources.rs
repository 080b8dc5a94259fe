//! The sources of a configuration: files, environment and flags.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use figment::value::Dict;

use super::error::Problem;
use super::file::FileFault;
use super::layer::{Layer, Overrides};
use super::origin::Origin;
use super::{environment, file};
use crate::os::text::printable;

/// The main configuration file, unless a flag names another. It may be missing.
pub const DEFAULT_CONFIG: &str = "/etc/node-storage-driver-registrar/config.toml";

/// Everything that a configuration is read from; by default nothing.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--config`: this file must exist.
    pub config: Option<PathBuf>,
    /// The file that is read without `--config`; `None` reads no file.
    pub default_config: Option<PathBuf>,
    /// The environment of the process; only names that start with `NSDR_` count.
    pub environment: Vec<(OsString, OsString)>,
    /// The values that flags set.
    pub overrides: Overrides,
}

/// The layers that the sources hold, in the order in which they count.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) layers: Vec<Layer>,
    pub(super) problems: Vec<Problem>,
    /// The variables that were ignored, with the reason.
    pub(super) warnings: Vec<String>,
    /// The files that were read, in this order.
    pub(super) files: Vec<PathBuf>,
    /// The directories whose entries decide which files are read.
    pub(super) directories: Vec<PathBuf>,
    /// The files that were not read, with the reason.
    pub(super) passed_over: Vec<String>,
}

impl Found {
    pub(super) fn add_file(&mut self, path: &Path, dict: Result<Dict, FileFault>) {
        let origin = Origin::File(path.to_owned());
        match dict {
            Ok(dict) => {
                self.files.push(path.to_owned());
                self.layers.push(Layer { origin, dict });
            }
            Err(fault) => self.problems.push(Problem::new(path.display(), fault)),
        }
    }

    pub(super) fn pass_over(&mut self, path: &Path, why: &str) {
        let path = printable(&path.to_string_lossy());
        self.passed_over.push(format!("{path}: {why}"));
    }
}

impl Sources {
    /// The sources of a process: its environment, and the default file unless `config` names a file.
    pub fn of_process(config: Option<PathBuf>) -> Self {
        Self {
            config,
            default_config: Some(PathBuf::from(DEFAULT_CONFIG)),
            environment: std::env::vars_os().collect(),
            ..Self::default()
        }
    }

    pub(super) fn read(&self) -> Found {
        let mut found = Found::default();
        let is_default = self.config.is_none();
        if let Some(main) = self.config.as_ref().or(self.default_config.as_ref()) {
            file::read(main, is_default, &mut found);
        }
        environment::read(&self.environment, &mut found);
        found.layers.extend_from_slice(&self.overrides.0);
        found
    }
}
