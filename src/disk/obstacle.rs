//! The reason why a socket or a link of ours is not at its place.

use std::path::PathBuf;

use thiserror::Error;

use crate::grpc::proto::control::Cause;

/// The reason, in words that an operator can act on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
pub(crate) enum Obstacle {
    /// Another process serves at the place.
    #[error("{0}")]
    LiveOwner(String),
    /// A file or directory that is neither a socket nor a link. The registrar never deletes it.
    #[error("{0}")]
    NotASocket(String),
    /// Another driver of this daemon has the name.
    #[error("the driver \"{0}\" has the same name, and keeps it while it exists")]
    NameTaken(String),
    /// Another process keeps removing or changing the file.
    #[error(
        "{what} was removed or changed {count} times within 30 s of being put back; retrying at a slower pace"
    )]
    Contested { what: &'static str, count: u32 },
    /// Another process removed or replaced the file before we could look at it.
    #[error("it is removed or replaced as soon as it is put there")]
    RemovedAtOnce,
    /// The kubelet's directory is missing. Only the kubelet makes it.
    #[error("{} is missing; the kubelet makes it when it starts", .0.display())]
    NoDirectory(PathBuf),
    /// registry_dir and the kubelet's directory have become one directory, or two, since the configuration was
    /// loaded.
    #[error(
        "registry_dir and {} are {} now; to use them so: node-storage-driver-registrar reload",
        .plugins_registry.display(),
        if *.is_one { "one directory" } else { "two directories" }
    )]
    OtherLayout {
        plugins_registry: PathBuf,
        is_one: bool,
    },
    /// The file system refused.
    #[error("{0}")]
    Failed(String),
}

impl Obstacle {
    /// Another process or another driver of ours listens at the place.
    pub(crate) fn is_a_server(&self) -> bool {
        matches!(self, Obstacle::LiveOwner(_) | Obstacle::NameTaken(_))
    }

    /// Another file or process is in the way, rather than a directory missing.
    pub(crate) fn is_conflict(&self) -> bool {
        !matches!(self, Obstacle::NoDirectory(_) | Obstacle::Failed(_))
    }

    /// The code for programs.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Obstacle::LiveOwner(_) => Cause::LiveOwner,
            Obstacle::NotASocket(_) => Cause::AlienFile,
            Obstacle::Contested { .. } | Obstacle::RemovedAtOnce => Cause::Contested,
            Obstacle::OtherLayout { .. } => Cause::OtherLayout,
            Obstacle::NameTaken(_) | Obstacle::NoDirectory(_) | Obstacle::Failed(_) => {
                Cause::Unspecified
            }
        }
    }
}
