//! One place on disk: who is there, and putting something of ours there without harm to others.

use std::fmt::Display;
use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::obstacle::Obstacle;
use crate::config::OnLiveOwner;
use crate::disk::identity::Identity;
use crate::disk::socket::{ListenerProbe, listener, probe};

/// Who is at a place.
#[derive(Debug)]
pub(crate) enum Occupant {
    Nobody,
    Ours(Identity),
    /// A link that dangles or a socket that nobody listens on.
    Dead(Identity),
    /// A link that leads to our own socket, but not in our words.
    IndirectLink(Identity),
    /// Somebody else listens there.
    Living(Identity, String),
    /// Neither a socket nor a link.
    NotASocket(String),
    /// The place itself is not there.
    NoDirectory,
    Unknown(io::Error),
}

/// Looks at what is at `path`; `is_ours` knows our own.
pub(super) fn look(path: &Path, is_ours: impl Fn(&Identity) -> bool) -> Occupant {
    let (identity, kind) = match Identity::and_kind_of(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return vacancy(path),
        Err(error) => return Occupant::Unknown(error),
    };
    if is_ours(&identity) {
        return Occupant::Ours(identity);
    }
    if !kind.is_symlink() && !kind.is_socket() {
        return Occupant::NotASocket(format!(
            "{} is {}, neither a socket nor a link; move it away",
            path.display(),
            describe(kind)
        ));
    }
    match probe(path) {
        ListenerProbe::Dead => Occupant::Dead(identity),
        ListenerProbe::Alive(stream) => Occupant::Living(identity, owner(path, stream.as_ref())),
        ListenerProbe::Unknown(error) => Occupant::Unknown(error),
    }
}

fn vacancy(path: &Path) -> Occupant {
    match path.parent().map(fs::metadata) {
        Some(Ok(_)) => Occupant::Nobody,
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Occupant::Unknown(error),
        Some(Err(_)) | None => Occupant::NoDirectory,
    }
}

/// How often a place is looked at again because somebody came between the look and the rename.
const LOOKS: usize = 3;

/// Something of ours may be put at `path`, over this file or over none; or the reason why not.
pub(super) fn clear(
    path: &Path,
    occupant: Occupant,
    on_live_owner: OnLiveOwner,
) -> Result<Option<Identity>, Obstacle> {
    match occupant {
        Occupant::Nobody => Ok(None),
        Occupant::Ours(seen) | Occupant::Dead(seen) | Occupant::IndirectLink(seen) => {
            Ok(Some(seen))
        }
        Occupant::Living(seen, _) if on_live_owner == OnLiveOwner::TakeOver => Ok(Some(seen)),
        Occupant::Living(_, owner) => Err(Obstacle::LiveOwner(owner)),
        Occupant::NotASocket(what) => Err(Obstacle::NotASocket(what)),
        Occupant::NoDirectory => Err(Obstacle::NoDirectory(
            path.parent().unwrap_or(path).to_owned(),
        )),
        Occupant::Unknown(error) => Err(failed("look at", path, &error)),
    }
}

/// Looks at a place and puts something there, and does so again when `act` gives nothing because
/// another file came to the place after the look.
pub(super) fn look_and_act<T>(
    attempt: &str,
    path: &Path,
    mut act: impl FnMut() -> Result<Option<T>, Obstacle>,
) -> Result<T, Obstacle> {
    for _ in 0..LOOKS {
        if let Some(done) = act()? {
            return Ok(done);
        }
    }
    let why = "another process keeps putting files there";
    Err(failed(attempt, path, &why))
}

/// None when another file came to the place after the look.
pub(super) fn unless_another_came<T>(
    attempt: &str,
    path: &Path,
    done: io::Result<T>,
) -> Result<Option<T>, Obstacle> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(failed(attempt, path, &error)),
    }
}

pub(super) fn cannot_stage(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem};
    matches!(
        error.kind(),
        CrossesDevices | PermissionDenied | ReadOnlyFilesystem
    )
}

/// What was put in its place just now, unless somebody was faster: another's is never taken for ours.
pub(super) fn put(
    attempt: &str,
    path: &Path,
    is_ours: impl Fn(&Identity) -> bool,
) -> Result<Identity, Obstacle> {
    match Identity::of(path) {
        Ok(found) if is_ours(&found) => Ok(found),
        Ok(_) => Err(Obstacle::RemovedAtOnce),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Obstacle::RemovedAtOnce),
        Err(error) => Err(failed(attempt, path, &error)),
    }
}

pub(super) fn failed(attempt: &str, path: &Path, why: &dyn Display) -> Obstacle {
    Obstacle::Failed(format!("cannot {attempt} {}: {why}", path.display()))
}

fn owner(path: &Path, stream: Option<&UnixStream>) -> String {
    match stream.and_then(listener) {
        Some(pid) => format!("pid {pid} serves {}", path.display()),
        None => format!("another process serves {}", path.display()),
    }
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
