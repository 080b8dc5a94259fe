//! Why a driver cannot be registered yet, in words for the operator.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use humantime::format_duration;
use thiserror::Error;
use tonic::Code;

use super::query::NODE_GET_INFO;
use super::trust::Exposure;
use crate::disk::directory::{self, LET_US_READ, mount_question};
use crate::disk::identity::Identity;
use crate::disk::reach::Hung;
use crate::disk::socket::SUN_PATH_MAX;
use crate::driver::answer::AnswerError;
use crate::grpc::client::{Broken, ConnectError};
use crate::grpc::proto::control::Cause;

/// Why the driver cannot be registered yet.
#[derive(Debug, Error)]
pub(crate) enum DriverError {
    #[error("waiting for {}", .0.display())]
    Absent(PathBuf),
    #[error(
        "waiting for {}: {} is missing{}",
        .socket.display(),
        .missing.display(),
        mount_question_above(.socket, .missing)
    )]
    NoDirectory { socket: PathBuf, missing: PathBuf },
    #[error("{} is not a socket", .0.display())]
    NoSocket(PathBuf),
    #[error("cannot access {}: {}", .0.display(), .1)]
    Unseen(PathBuf, io::Error),
    #[error("cannot access {}: {}", .0.display(), .1)]
    OutOfReach(PathBuf, Hung),
    #[error(
        "no permission to search {} ({owner}) for {}: {LET_US_READ}",
        .directory.display(),
        .socket.display()
    )]
    Hidden {
        socket: PathBuf,
        directory: PathBuf,
        owner: String,
    },
    #[error(
        "refused: {exposure}; discovery accepts a driver only in directories that root alone can change"
    )]
    Exposed {
        exposure: Exposure,
        /// The socket that exists, if another user may have created it.
        foreign: Option<Box<Identity>>,
    },
    #[error("{} is {} bytes long; the path of a socket has at most {SUN_PATH_MAX}", .0.display(), .1)]
    LongPath(PathBuf, usize),
    #[error("no process listens on {}", .0.display())]
    Refused(PathBuf),
    #[error(
        "no permission to connect to {}: {}; for a socket of another user the unit needs CAP_DAC_OVERRIDE",
        .0.display(),
        .1
    )]
    Forbidden(PathBuf, ConnectError),
    #[error("{}: {}", .0.display(), .1)]
    Connect(PathBuf, ConnectError),
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
    #[error("the connection to {} broke before it answered: {}", .0.display(), .1)]
    Broken(PathBuf, Broken),
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

/// The driver's own directory is created by the driver, and no mount is missing where it alone is.
fn mount_question_above(socket: &Path, missing: &Path) -> String {
    let is_own = missing == directory::of(socket);
    if is_own {
        String::new()
    } else {
        mount_question(missing)
    }
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

    /// Nothing changes until a process creates a file.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(
            self,
            DriverError::Absent(_) | DriverError::NoDirectory { .. } | DriverError::NoSocket(_)
        )
    }

    /// The driver has a fault: it exists, and is not merely slow.
    pub(crate) fn is_error(&self) -> bool {
        !self.is_absence() && !matches!(self, DriverError::Slow { .. })
    }

    /// A retry is useless until something changes on disk.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.is_absence()
            || matches!(
                self,
                DriverError::Hidden { .. }
                    | DriverError::Exposed { .. }
                    | DriverError::LongPath(..)
            )
    }

    /// Another user has replaced the socket that was `seen` before. If only the owner of the
    /// directory has changed and the socket is the same, the driver still runs.
    pub(crate) fn is_taken(&self, seen: Option<&Identity>) -> bool {
        let DriverError::Exposed { foreign, .. } = self else {
            return false;
        };
        let is_other = |found: &Identity| seen.is_none_or(|seen| !found.is_same_object(seen));
        foreign.as_deref().is_some_and(is_other)
    }

    /// The file system that does not respond, if that is the cause.
    pub(crate) fn hung(&self) -> Option<&Hung> {
        match self {
            DriverError::OutOfReach(_, hung) => Some(hung),
            _ => None,
        }
    }

    /// NodeGetInfo took longer than `node_info_timeout`.
    pub(crate) fn is_node_info_late(&self) -> bool {
        match self {
            DriverError::TimedOut { step, .. } => *step == NODE_GET_INFO,
            DriverError::Hung(cause) => cause.is_node_info_late(),
            _ => false,
        }
    }
}
