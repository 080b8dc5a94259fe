//! What keeps a socket or a link from its place.

use std::path::PathBuf;

use thiserror::Error;

use crate::grpc::proto::control::Cause;

/// Why nothing of ours stands at a place, in words that an operator can act on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
pub(crate) enum Obstacle {
    /// Somebody else serves there.
    #[error("{0}")]
    LiveOwner(String),
    /// A file or directory that is neither a socket nor a link. It is never deleted.
    #[error("{0}")]
    NotASocket(String),
    /// Another driver of this daemon has the name.
    #[error("the driver \"{0}\" has the same name, and keeps it while it is there")]
    NameTaken(String),
    /// Somebody keeps removing or changing it.
    #[error(
        "{what} was removed or changed {count} times within 30 s of being put back; trying at a slower pace"
    )]
    Contested { what: &'static str, count: u32 },
    /// It was put there, and taken away or replaced before it could be looked at.
    #[error("it is removed or replaced as soon as it is put there")]
    RemovedAtOnce,
    /// The kubelet's directory is not there; it is the kubelet's to make.
    #[error("{} is missing; the kubelet makes it when it starts", .0.display())]
    NoDirectory(PathBuf),
    /// The file system said no.
    #[error("{0}")]
    Failed(String),
}

impl Obstacle {
    /// Somebody else listens at the place, or another driver of ours does.
    pub(crate) fn is_a_server(&self) -> bool {
        matches!(self, Obstacle::LiveOwner(_) | Obstacle::NameTaken(_))
    }

    /// Somebody else is in the way, rather than something missing.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Obstacle::LiveOwner(_)
            | Obstacle::NotASocket(_)
            | Obstacle::NameTaken(_)
            | Obstacle::Contested { .. }
            | Obstacle::RemovedAtOnce => true,
            Obstacle::NoDirectory(_) | Obstacle::Failed(_) => false,
        }
    }

    /// The code for programs.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Obstacle::LiveOwner(_) => Cause::LiveOwner,
            Obstacle::NotASocket(_) => Cause::AlienFile,
            Obstacle::Contested { .. } | Obstacle::RemovedAtOnce => Cause::Contested,
            Obstacle::NameTaken(_) | Obstacle::NoDirectory(_) | Obstacle::Failed(_) => {
                Cause::Unspecified
            }
        }
    }
}
