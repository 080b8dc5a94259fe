//! The registration socket at its place, and the other sockets that we serve.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use tokio::net::UnixListener;

use super::directory;
use super::identity::Identity;
use super::obstacle::Obstacle;
use super::occupant::{Occupant, failed, place, placed, staged};
use super::replace::Staged;
use super::socket::{MODE, listen};

const LISTEN: &str = "listen on";

/// A socket's place.
pub(crate) struct SocketPlace<'a> {
    pub(crate) path: PathBuf,
    /// The directory in which the socket is bound before it is renamed to `path`.
    pub(crate) stage: &'a Path,
    /// The directory is not ours to make, such as the kubelet's own. Otherwise it is made with its
    /// parents when it is missing.
    pub(crate) borrowed: bool,
}

impl SocketPlace<'_> {
    /// The socket that we listen on, if it is at its place with the owner and the mode that we gave it.
    pub(crate) fn intact(&self, ours: Option<&Identity>) -> Option<Identity> {
        let found = fs::symlink_metadata(&self.path).ok()?;
        let is_unchanged = found.mode() & 0o7777 == MODE && found.uid() == geteuid().as_raw();
        let found = Identity::from_parts(&found, None);
        (is_unchanged && is_bound(ours, &found)).then_some(found)
    }

    /// Listens at the place. Replaces a socket without a listener, and `ours`: the socket that we still
    /// listen on, whose mode or owner another process may have changed.
    pub(crate) fn listen(
        &self,
        ours: Option<&Identity>,
        take_over: bool,
    ) -> Result<(UnixListener, Identity), Obstacle> {
        if !self.borrowed {
            let directory = directory::of(&self.path);
            directory::make(directory).map_err(|error| failed("make", directory, &error))?;
        }
        let look = || Occupant::at(&self.path, |found| is_bound(ours, found));
        let listening = place(LISTEN, &self.path, take_over, look, |seen| {
            self.listen_over(seen)
        });
        let (listener, bound) = listening?;
        let found = placed(LISTEN, &self.path, |found| bound.is_same_inode(found))?;
        Ok((listener, found))
    }

    fn listen_over(&self, seen: &Occupant) -> io::Result<(UnixListener, Identity)> {
        staged(self.stage, directory::of(&self.path), |stage| {
            let (socket, listener) = Staged::make(stage, listen)?;
            Ok((listener, socket.put_over(&self.path, seen.identity())?))
        })
    }
}

/// Listens at `path`, in a directory that is ours alone: replaces any file, a live socket included.
pub(crate) fn listen_over_any(path: &Path) -> Result<(UnixListener, Identity), Obstacle> {
    let staged = Staged::make(directory::of(path), listen);
    let placed = staged.and_then(|(socket, listener)| Ok((listener, socket.put(path)?)));
    placed.map_err(|error| failed(LISTEN, path, &error))
}

/// The file is the socket that we listen on: no other file gets its inode as long as we do.
fn is_bound(ours: Option<&Identity>, found: &Identity) -> bool {
    ours.is_some_and(|ours| ours.is_same_inode(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::link::tests::{come, is_theirs};

    fn socket_place(directory: &Path) -> SocketPlace<'_> {
        SocketPlace {
            path: directory.join("a-reg.sock"),
            stage: directory,
            borrowed: false,
        }
    }

    #[tokio::test]
    async fn a_socket_takes_the_place_of_what_was_looked_at_and_of_nothing_else() {
        for is_dead in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let place = socket_place(dir.path());
            if is_dead {
                bed::dead_socket(&place.path);
            }
            let seen = Occupant::at(&place.path, |_| false).unwrap();
            come(&place.path);
            let refused = place.listen_over(&seen).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
            is_theirs(&place.path);
            assert!(place.listen(None, false).is_err());
            is_theirs(&place.path);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }
}
