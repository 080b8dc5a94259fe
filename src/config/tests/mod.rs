//! A configuration in a directory of its own, and what is asked of it.

mod faults;
mod fuzz;
mod layers;
mod meaning;
mod random;
mod shipped;
mod sources;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use super::{ConfigError, Loaded, Overrides, Sources, load};

/// The sources of a process that reads its files from a temporary directory.
struct Bench {
    dir: tempfile::TempDir,
    sources: Sources,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sources = Sources {
            config: None,
            default_config: Some(dir.path().join("config.toml")),
            environment: Vec::new(),
            overrides: Overrides::default(),
        };
        Self { dir, sources }
    }

    fn with(text: &str) -> Self {
        Self::new().file("config.toml", text)
    }

    fn file(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.sources.environment.push((name.into(), value.into()));
        self
    }

    fn flag(mut self, flag: &str, key: &[&str], value: &str) -> Self {
        self.sources.overrides.set(flag, key, Some(value));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn try_load(&self) -> Result<Loaded, ConfigError> {
        load(&self.sources)
    }

    #[track_caller]
    fn load(&self) -> Loaded {
        self.try_load().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The message of the error, with `DIR` for the temporary directory.
    #[track_caller]
    fn fault(&self) -> String {
        let error = self.try_load().expect_err("the configuration is wrong");
        error
            .to_string()
            .replace(self.dir.path().to_str().unwrap(), "DIR")
    }
}
