//! The file at a place where a socket or a link of ours belongs, and the rules for replacing it.

use std::fmt::Display;
use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::directory::{self, if_found};
use super::identity::Identity;
use super::obstacle::Obstacle;
use super::socket::{ListenerProbe, listener, probe};
use crate::os::process;

/// How often a place is looked at again because another process put a file there between the look
/// and the rename.
const LOOKS: usize = 3;

/// The file at a place.
#[derive(Debug)]
pub(super) enum Occupant {
    Nothing,
    Ours(Identity),
    /// A link that leads nowhere, or to our own socket by another path than ours, or a socket without a
    /// listener.
    Replaceable(Identity),
    /// Another process listens; the text says which.
    LiveOwner(Identity, String),
}

impl Occupant {
    /// Looks at `path`; `is_ours` recognizes our own file.
    ///
    /// # Errors
    /// A file that we never replace, a missing directory, or a failed look.
    pub(super) fn at(
        path: &Path,
        is_ours: impl Fn(&Identity) -> bool,
    ) -> Result<Occupant, Obstacle> {
        let unknown = |error: io::Error| failed("look at", path, &error);
        let found = if_found(Identity::and_kind_of(path)).map_err(unknown)?;
        let Some((identity, kind)) = found else {
            let directory = directory::of(path);
            return match if_found(fs::metadata(directory)).map_err(unknown)? {
                Some(_) => Ok(Occupant::Nothing),
                None => Err(Obstacle::NoDirectory(directory.to_owned())),
            };
        };
        if is_ours(&identity) {
            return Ok(Occupant::Ours(identity));
        }
        let shown = path.display();
        if !kind.is_symlink() && !kind.is_socket() {
            let kind = describe(kind);
            return Err(Obstacle::NotASocket(format!(
                "{shown} is {kind}, neither a socket nor a link; move it away"
            )));
        }
        match probe(path) {
            ListenerProbe::Dead => Ok(Occupant::Replaceable(identity)),
            ListenerProbe::Alive(stream) => {
                let pid = stream.as_ref().and_then(listener);
                let owner = pid.map_or("another process".to_owned(), process::describe);
                let serving = format!("{owner} serves {shown}");
                Ok(Occupant::LiveOwner(identity, serving))
            }
            ListenerProbe::Unknown(error) => Err(unknown(error)),
        }
    }

    pub(super) fn identity(&self) -> Option<&Identity> {
        match self {
            Occupant::Nothing => None,
            Occupant::Ours(identity)
            | Occupant::Replaceable(identity)
            | Occupant::LiveOwner(identity, _) => Some(identity),
        }
    }
}

/// Looks at a place and puts a file of ours there with `put`, which replaces what was seen and fails
/// with `AlreadyExists` when another file came after the look: then it looks again. A live owner is
/// replaced only with `take_over`.
pub(super) fn place<T>(
    attempt: &str,
    path: &Path,
    take_over: bool,
    look: impl Fn() -> Result<Occupant, Obstacle>,
    put: impl Fn(&Occupant) -> io::Result<T>,
) -> Result<T, Obstacle> {
    for _ in 0..LOOKS {
        let seen = match look()? {
            Occupant::LiveOwner(_, owner) if !take_over => return Err(Obstacle::LiveOwner(owner)),
            seen => seen,
        };
        match put(&seen) {
            Ok(done) => return Ok(done),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(attempt, path, &error)),
        }
    }
    let why = "another process keeps putting files there";
    Err(failed(attempt, path, &why))
}

/// The file that was put at `path` just now. Another process may have replaced it since, and its file
/// is never taken for ours.
pub(super) fn placed(
    attempt: &str,
    path: &Path,
    is_ours: impl Fn(&Identity) -> bool,
) -> Result<Identity, Obstacle> {
    let found = if_found(Identity::of(path)).map_err(|error| failed(attempt, path, &error))?;
    found.filter(is_ours).ok_or(Obstacle::RemovedAtOnce)
}

pub(super) fn failed(attempt: &str, path: &Path, why: &dyn Display) -> Obstacle {
    Obstacle::Failed(format!("cannot {attempt} {}: {why}", path.display()))
}

/// Makes a file with `make` in the directory `stage`, or in `directory` where `stage` is on another mount
/// or is not ours to write. In `directory` the kubelet sees the temporary name, and logs that it is gone.
pub(super) fn staged<T>(
    stage: &Path,
    directory: &Path,
    make: impl Fn(&Path) -> io::Result<T>,
) -> io::Result<T> {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem};
    make(stage).or_else(|error| match error.kind() {
        CrossesDevices | PermissionDenied | ReadOnlyFilesystem => make(directory),
        _ => Err(error),
    })
}

fn describe(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_file() {
        "a regular file"
    } else {
        "a special file"
    }
}
