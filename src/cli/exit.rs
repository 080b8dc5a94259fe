//! Exit codes, and the messages that go with them.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::api::control::ClientError;
use crate::config::ConfigError;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Exit {
    /// The command failed.
    Failed(String),
    /// The command has printed its answer, and the answer is no.
    No,
    /// The command line asks for help or for the version, or clap does not understand it.
    CommandLine(clap::Error),
    /// The cluster could not be asked.
    Unavailable(String),
    /// The flags do not go together.
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
        Exit::failed(error)
    }
}

impl Exit {
    pub(crate) fn failed(error: impl Display) -> Exit {
        Exit::Failed(error.to_string())
    }

    /// Prints the message, and returns the code of sysexits.h.
    pub(crate) fn report(self) -> ExitCode {
        let (why, code) = match self {
            Exit::No => return ExitCode::from(1),
            Exit::CommandLine(error) => {
                let code = if error.use_stderr() { 64 } else { 0 };
                return ExitCode::from(error.print().map_or(1, |()| code));
            }
            Exit::Failed(why) => (why, 1),
            Exit::Usage(why) => (why, 64),
            Exit::Unavailable(why) => (why, 69),
            Exit::Config(why) => (why, 78),
        };
        print_error(&format!("error: {why}"));
        ExitCode::from(code)
    }
}

/// Prints a line on stderr. Where stderr is closed, the exit code alone says it.
pub(crate) fn print_error(words: &str) {
    drop(writeln!(io::stderr(), "{words}"));
}
