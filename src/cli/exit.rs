//! Exit codes, and the words that go with them.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::api::control::ClientError;
use crate::config::ConfigError;

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
            Exit::Failed(why) => failed(&why, 1),
            Exit::Usage(why) => failed(&why, 64),
            Exit::Config(why) => failed(&why, 78),
        }
    }
}

fn failed(why: &str, code: u8) -> ExitCode {
    complain(&format!("error: {why}"));
    ExitCode::from(code)
}

/// Says something on stderr. Where nobody can read it, the exit code has to do.
pub(crate) fn complain(words: &str) {
    drop(writeln!(io::stderr(), "{words}"));
}

/// Prints help or a usage error: 0 for what was asked for, 64 for what was not understood.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let code = if error.use_stderr() { 64 } else { 0 };
    match error.print() {
        Ok(()) => ExitCode::from(code),
        Err(_) => ExitCode::from(1),
    }
}
