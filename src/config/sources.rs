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

/// The `EnvironmentFile=` settings of the shipped unit, in its order.
pub const UNIT_ENVIRONMENT: [&str; 2] = [
    "/etc/default/node-storage-driver-registrar",
    "/etc/sysconfig/node-storage-driver-registrar",
];

/// Everything that a configuration is read from; by default nothing.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--config`: this file must exist.
    pub config: Option<PathBuf>,
    /// The file that is read without `--config`; `None` reads no file.
    pub default_config: Option<PathBuf>,
    /// Files with the variables that the unit passes to the daemon, for a process that is not the
    /// daemon. They belong to the default configuration, and are not read with `--config`.
    pub environment_files: Vec<PathBuf>,
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
    pub(super) warnings: Vec<String>,
    /// The files that were read, in this order.
    pub(super) files: Vec<PathBuf>,
    /// The directories whose entries decide which files are read.
    pub(super) directories: Vec<PathBuf>,
    /// The files that were not read, with the reason.
    pub(super) passed_over: Vec<String>,
}

impl Found {
    pub(super) fn add(&mut self, layer: Result<Option<Layer>, Problem>) {
        match layer {
            Ok(layer) => self.layers.extend(layer),
            Err(problem) => self.problems.push(problem),
        }
    }

    pub(super) fn add_file(&mut self, path: &Path, dict: Result<Dict, FileFault>) {
        let origin = Origin::File(path.to_owned());
        match dict {
            Ok(dict) => {
                self.files.push(path.to_owned());
                self.layers.push(Layer { origin, dict });
            }
            Err(fault) => self.add_fault(path, &fault),
        }
    }

    pub(super) fn pass_over(&mut self, path: &Path, why: &str) {
        let path = printable(&path.to_string_lossy());
        self.passed_over.push(format!("{path}: {why}"));
    }

    pub(super) fn add_fault(&mut self, path: &Path, fault: &FileFault) {
        let problem = Problem::new(path.display(), fault);
        match fault {
            FileFault::Ignored(_) => self.warnings.push(problem.to_string()),
            _ => self.problems.push(problem),
        }
    }
}

impl Sources {
    /// The sources of the daemon: its environment, and the default file unless `config` names a
    /// file.
    pub fn of_process(config: Option<PathBuf>) -> Self {
        Self {
            config,
            default_config: Some(PathBuf::from(DEFAULT_CONFIG)),
            environment: std::env::vars_os().collect(),
            ..Self::default()
        }
    }

    /// The sources of a command that predicts what the unit's daemon does.
    pub fn of_command(config: Option<PathBuf>) -> Self {
        Self {
            environment_files: UNIT_ENVIRONMENT.map(PathBuf::from).to_vec(),
            ..Self::of_process(config)
        }
    }

    pub(super) fn read(&self) -> Found {
        let mut found = Found::default();
        let is_default = self.config.is_none();
        if let Some(main) = self.config.as_ref().or(self.default_config.as_ref()) {
            file::read(main, is_default, &mut found);
        }
        if is_default {
            environment::read_files(&self.environment_files, &mut found);
        } else {
            for file in self.environment_files.iter().filter(|file| file.exists()) {
                found.pass_over(
                    file,
                    "belongs to the unit, and does not count with --config",
                );
            }
        }
        environment::read(&self.environment, &mut found);
        found.layers.extend_from_slice(&self.overrides.0);
        found
    }
}
