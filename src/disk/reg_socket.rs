//! The registration socket.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use tokio::net::UnixListener;

use super::obstacle::Obstacle;
use super::occupant::{
    Occupant, cannot_stage, clear, failed, look, look_and_act, put, unless_another_came,
};
use crate::config::OnLiveOwner;
use crate::disk::directory;
use crate::disk::identity::Identity;
use crate::disk::socket::{MODE, Staged};

const LISTEN: &str = "listen on";

/// A registration socket's place.
pub(crate) struct SocketPlace<'a> {
    pub(crate) path: PathBuf,
    /// The directory that it is in, made with its parents when it is missing.
    pub(crate) directory: &'a Path,
    pub(crate) stage: &'a Path,
    /// The directory is the kubelet's own, which is never made by us.
    pub(crate) borrowed: bool,
}

impl SocketPlace<'_> {
    /// Ours is the one that we listen on, with the owner and the mode that we gave it.
    pub(crate) fn look(&self, ours: Option<&Identity>) -> Occupant {
        let is_unchanged = || {
            let found = fs::symlink_metadata(&self.path);
            found.is_ok_and(|found| {
                found.mode() & 0o7777 == MODE && found.uid() == geteuid().as_raw()
            })
        };
        look(&self.path, |identity| {
            is_bound(ours, identity) && is_unchanged()
        })
    }

    /// Listens at the place, over a socket that nobody listens on or that is `ours`: the one we
    /// still listen on, which somebody may have changed.
    pub(crate) fn listen(
        &self,
        ours: Option<&Identity>,
        on_live_owner: OnLiveOwner,
    ) -> Result<(UnixListener, Identity), Obstacle> {
        if !self.borrowed {
            directory::make(self.directory)
                .map_err(|error| failed("make", self.directory, &error))?;
        }
        look_and_act(LISTEN, &self.path, || {
            let occupant = look(&self.path, |identity| is_bound(ours, identity));
            self.listen_over(occupant, on_live_owner)
        })
    }

    fn listen_over(
        &self,
        occupant: Occupant,
        on_live_owner: OnLiveOwner,
    ) -> Result<Option<(UnixListener, Identity)>, Obstacle> {
        let seen = clear(&self.path, occupant, on_live_owner)?;
        let listen_from = |stage| Staged::bind(stage)?.put_over(&self.path, seen.as_ref());
        let listening = match listen_from(self.stage) {
            Err(error) if cannot_stage(&error) => listen_from(self.directory),
            done => done,
        };
        let Some((listener, bound)) = unless_another_came(LISTEN, &self.path, listening)? else {
            return Ok(None);
        };
        let found = put(LISTEN, &self.path, |found| bound.is_same_inode(found))?;
        Ok(Some((listener, found)))
    }
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
            directory,
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
            let seen = place.look(None);
            come(&place.path);
            let listening = place.listen_over(seen, OnLiveOwner::Wait);
            assert!(listening.unwrap().is_none());
            is_theirs(&place.path);
            assert!(place.listen(None, OnLiveOwner::Wait).is_err());
            is_theirs(&place.path);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }
}
