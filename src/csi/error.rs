//! Why a driver is no use, in words for the one who has to act.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use humantime::format_duration;
use thiserror::Error;
use tonic::Code;

use super::query::NODE_GET_INFO;
use super::trust::Exposure;
use crate::config::SUN_PATH_MAX;
use crate::disk::directory::LET_US_READ;
use crate::disk::identity::Identity;
use crate::disk::reach::Hung;
use crate::driver::answer::AnswerError;
use crate::grpc::client::{Broken, ConnectError};
use crate::grpc::proto::control::Cause;

/// Why the driver is no use yet.
#[derive(Debug, Error)]
pub(crate) enum DriverError {
    #[error("waiting for {}", .0.display())]
    Absent(PathBuf),
    #[error("waiting for {}: {} is missing", .socket.display(), .missing.display())]
    NoDirectory { socket: PathBuf, missing: PathBuf },
    #[error("{} is no socket", .0.display())]
    NoSocket(PathBuf),
    #[error("cannot look at {}: {source}", .socket.display())]
    Unseen { socket: PathBuf, source: io::Error },
    #[error("cannot look at {}: {source}", .socket.display())]
    OutOfReach { socket: PathBuf, source: Hung },
    #[error(
        "may not look into {} ({owner}) for {}: {LET_US_READ}",
        .directory.display(),
        .socket.display()
    )]
    Hidden {
        socket: PathBuf,
        directory: PathBuf,
        owner: String,
    },
    #[error("refused: {exposure}; a driver that is found by itself must be out of others' reach")]
    Exposed {
        exposure: Exposure,
        /// The socket that is there, if it may be another user's doing.
        strangers: Option<Box<Identity>>,
    },
    #[error("{} is {length} bytes long, and the path of a socket may have {SUN_PATH_MAX}", .socket.display())]
    LongPath { socket: PathBuf, length: usize },
    #[error("nobody listens on {}", .0.display())]
    Refused(PathBuf),
    #[error(
        "may not connect to {}: {source}; a socket of another user needs CAP_DAC_OVERRIDE in the unit",
        .socket.display()
    )]
    Forbidden {
        socket: PathBuf,
        source: ConnectError,
    },
    #[error("{}: {source}", .socket.display())]
    Connect {
        socket: PathBuf,
        source: ConnectError,
    },
    #[error("{} does not answer: {step} took longer than {}", .socket.display(), format_duration(*.deadline))]
    TimedOut {
        socket: PathBuf,
        step: &'static str,
        deadline: Duration,
    },
    #[error(
        "NodeGetInfo has taken longer than {}; waiting up to {} for it",
        format_duration(*.so_far),
        format_duration(*.deadline)
    )]
    Slow {
        so_far: Duration,
        deadline: Duration,
    },
    #[error("{} closed the connection before it answered", .0.display())]
    Closed(PathBuf),
    #[error("the connection to {} broke before it answered: {source}", .socket.display())]
    Broken { socket: PathBuf, source: Broken },
    #[error("{method} failed: {code:?}: {message}")]
    Call {
        method: &'static str,
        code: Code,
        message: String,
    },
    #[error(
        "the driver has no Node service (NodeGetInfo is unimplemented), so there is nothing to register"
    )]
    NoNodeService,
    #[error("the driver is still starting (Probe says not ready)")]
    NotReady,
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error("the driver hangs: {0}")]
    Hung(Box<DriverError>),
    #[error("{} was removed", .0.display())]
    Removed(PathBuf),
}

impl DriverError {
    /// The code for programs.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            DriverError::Forbidden { .. } => Cause::SocketForbidden,
            DriverError::Exposed { .. } => Cause::Exposed,
            DriverError::Hidden { .. } => Cause::DirectoryForbidden,
            late if late.is_node_info_late() => Cause::NodeInfoLate,
            _ => Cause::Unspecified,
        }
    }

    /// Nothing can change until somebody makes a file.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(
            self,
            DriverError::Absent(_) | DriverError::NoDirectory { .. } | DriverError::NoSocket(_)
        )
    }

    /// Something is wrong with the driver, as opposed to one that is not there or takes its time.
    pub(crate) fn is_error(&self) -> bool {
        !self.is_absence() && !matches!(self, DriverError::Slow { .. })
    }

    /// Trying again is of no use before something changes on disk.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.is_absence()
            || matches!(
                self,
                DriverError::Hidden { .. }
                    | DriverError::Exposed { .. }
                    | DriverError::LongPath { .. }
            )
    }

    /// Another user has put a socket of their own into the place of the one that was `seen` there. A
    /// directory that has another owner, with the same socket in it, is a driver's that still runs.
    pub(crate) fn is_taken(&self, seen: Option<&Identity>) -> bool {
        match self {
            DriverError::Exposed {
                strangers: Some(theirs),
                ..
            } => seen.is_none_or(|seen| !theirs.is_same_object(seen)),
            _ => false,
        }
    }

    /// What the socket is on does not answer.
    pub(crate) fn hung(&self) -> Option<&Hung> {
        match self {
            DriverError::OutOfReach { source, .. } => Some(source),
            _ => None,
        }
    }

    /// NodeGetInfo had all the time that it may take.
    pub(crate) fn is_node_info_late(&self) -> bool {
        match self {
            DriverError::TimedOut { step, .. } => *step == NODE_GET_INFO,
            DriverError::Hung(trouble) => trouble.is_node_info_late(),
            _ => false,
        }
    }
}
