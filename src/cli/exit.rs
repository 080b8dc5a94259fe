//! Exit codes, and the words that go with them.

use std::process::ExitCode;

use crate::config::ConfigError;
use crate::control::ClientError;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Exit {
    /// Something failed; said on stderr.
    Failed(String),
    /// The answer is no, and has been printed.
    No,
    /// The command line is bad.
    Usage(String),
    /// The configuration is bad.
    Config(String),
}

impl From<ConfigError> for Exit {
    fn from(error: ConfigError) -> Exit {
        Exit::Config(error.to_string())
    }
}

impl From<ClientError> for Exit {
    fn from(error: ClientError) -> Exit {
        Exit::Failed(error.to_string())
    }
}

impl Exit {
    /// For an answer that has been printed.
    pub(crate) fn no_unless(yes: bool) -> Result<(), Exit> {
        if yes { Ok(()) } else { Err(Exit::No) }
    }

    /// Says what went wrong, and gives the code of sysexits.h.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Exit::No => ExitCode::from(1),
            Exit::Failed(why) => {
                eprintln!("error: {why}");
                ExitCode::from(1)
            }
            Exit::Usage(why) => {
                eprintln!("error: {why}");
                ExitCode::from(64)
            }
            Exit::Config(why) => {
                eprintln!("error: {why}");
                ExitCode::from(78)
            }
        }
    }
}

/// Prints help or a usage error: 0 for what was asked for, 64 for what was not understood.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let code = if error.use_stderr() { 64 } else { 0 };
    match error.print() {
        Ok(()) => ExitCode::from(code),
        Err(_) => ExitCode::from(1),
    }
}
