//! The link that the kubelet finds: a symbolic link to the registration socket, or a second name of it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::directory;
use super::identity::Identity;
use super::obstacle::Obstacle;
use super::occupant::{Occupant, place, placed, staged};
use super::replace::{Staged, remove};

const MAKE: &str = "make the link";

/// A link of ours that exists.
pub(crate) struct Published {
    pub(crate) identity: Identity,
    /// We made the link just now, rather than found it.
    pub(crate) made: bool,
}

impl Published {
    /// The link is symbolic, even where a hard link was wanted.
    pub(crate) fn is_symbolic(&self) -> bool {
        self.identity.target().is_some()
    }
}

/// A link's place.
pub(crate) struct LinkPlace<'a> {
    pub(crate) path: PathBuf,
    /// The target by which a symbolic link is ours.
    pub(crate) target: PathBuf,
    /// Our own socket, which is served before the link is made.
    pub(crate) socket: PathBuf,
    /// The directory in which a new link is made before it is renamed over an old one.
    pub(crate) stage: &'a Path,
    /// The link is a second name of the socket, which a kubelet takes for a socket of its own.
    pub(crate) hard: bool,
}

impl LinkPlace<'_> {
    fn look(&self) -> Result<Occupant, Obstacle> {
        match Occupant::at(&self.path, |found| self.is_ours(found))? {
            Occupant::LiveOwner(seen, _) if self.leads_to_our_socket() => {
                Ok(Occupant::Replaceable(seen))
            }
            occupant => Ok(occupant),
        }
    }

    fn leads_to_our_socket(&self) -> bool {
        let end = fs::metadata(&self.path).map(|found| Identity::from_parts(&found, None));
        end.is_ok_and(|end| end.is_at(&self.socket))
    }

    /// A link that we made, of either kind.
    pub(crate) fn is_ours(&self, identity: &Identity) -> bool {
        match identity.target() {
            Some(target) => *target == self.target,
            None => self.hard && identity.is_at(&self.socket),
        }
    }

    fn place<T>(
        &self,
        take_over: bool,
        put: impl Fn(&Occupant) -> io::Result<T>,
    ) -> Result<T, Obstacle> {
        place(MAKE, &self.path, take_over, || self.look(), put)
    }

    /// Makes sure that our link exists. A link of ours that exists is left alone.
    pub(crate) fn publish(&self, take_over: bool) -> Result<Published, Obstacle> {
        match self.place(take_over, |seen| self.publish_over(seen))? {
            Some(identity) => Ok(Published {
                identity,
                made: false,
            }),
            None => self.made(),
        }
    }

    /// The link of ours that exists; none when a link was made.
    fn publish_over(&self, seen: &Occupant) -> io::Result<Option<Identity>> {
        match seen {
            Occupant::Ours(identity) => return Ok(Some(identity.clone())),
            // This makes the whole link at once and never replaces a file.
            Occupant::Nothing => self.make(&self.path)?,
            seen => drop(self.rename_over(seen)?),
        }
        Ok(None)
    }

    /// Puts a fresh link over ours: a kubelet then looks again.
    pub(crate) fn announce(&self, take_over: bool) -> Result<Published, Obstacle> {
        self.place(take_over, |seen| self.announce_over(seen))?;
        self.made()
    }

    fn announce_over(&self, seen: &Occupant) -> io::Result<()> {
        match seen {
            // rename(2) of one name of a file over another name of it does nothing.
            Occupant::Ours(link) if link.target().is_none() => {
                remove(&self.path, link)?;
                // This fails when another process has put a file there since the look.
                self.make(&self.path)
            }
            seen => self.rename_over(seen).map(drop),
        }
    }

    /// Makes a hard link, or a symbolic link where the file system refuses a second name.
    fn make(&self, path: &Path) -> io::Result<()> {
        self.check_socket_is_elsewhere()?;
        if self.hard {
            match fs::hard_link(&self.socket, path) {
                Err(error) if is_refused(&error) => {}
                done => return done,
            }
        }
        symlink(&self.target, path)
    }

    /// A mount or a link can make one directory of two, and one place of the link's and the socket's.
    /// A link there would replace the socket and lead to itself.
    fn check_socket_is_elsewhere(&self) -> io::Result<()> {
        let [link, socket] = [&self.path, &self.socket].map(|path| directory::of(path));
        let is_same_name = self.path.file_name() == self.socket.file_name();
        if is_same_name && directory::is_same(link, socket) == Some(true) {
            return Err(io::Error::other(
                "the registration socket has the same path, because registry_dir has become the kubelet's own directory",
            ));
        }
        Ok(())
    }

    fn made(&self) -> Result<Published, Obstacle> {
        let identity = placed(MAKE, &self.path, |found| self.is_ours(found))?;
        Ok(Published {
            identity,
            made: true,
        })
    }

    fn rename_over(&self, seen: &Occupant) -> io::Result<Identity> {
        staged(self.stage, directory::of(&self.path), |stage| {
            let (link, ()) = Staged::make(stage, |path| self.make(path))?;
            link.put_over(&self.path, seen.identity())
        })
    }
}

/// The file system refuses a second name for the socket.
fn is_refused(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), PermissionDenied | TooManyLinks | Unsupported)
}

#[cfg(test)]
pub(super) mod tests;
