//! The link that the kubelet finds.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::obstacle::Obstacle;
use super::occupant::{self, Occupant, cannot_stage, look, look_and_act, put, unless_another_came};
use crate::config::OnLiveOwner;
use crate::disk::directory;
use crate::disk::identity::Identity;
use crate::disk::socket::staging;
use crate::disk::swap;

const MAKE: &str = "make the link";

/// A link of ours that stands.
pub(crate) struct Published {
    pub(crate) identity: Identity,
    /// It was made just now, rather than found.
    pub(crate) made: bool,
}

impl Published {
    /// It is a symbolic link, whatever was wanted.
    pub(crate) fn is_symbolic(&self) -> bool {
        self.identity.target().is_some()
    }
}

/// A link's place.
pub(crate) struct LinkPlace<'a> {
    pub(crate) path: PathBuf,
    /// What the link must hold to be ours.
    pub(crate) target: PathBuf,
    /// Our own, which is served before the link is made.
    pub(crate) socket: PathBuf,
    /// Where a new link is made before it is renamed over an old one.
    pub(crate) stage: &'a Path,
    /// The link is one more name of the socket, which a kubelet takes for a socket of its own.
    pub(crate) hard: bool,
}

impl LinkPlace<'_> {
    pub(crate) fn look(&self) -> Occupant {
        match look(&self.path, |identity| self.is_ours(identity)) {
            Occupant::Living(seen, _) if self.leads_to_our_socket() => Occupant::IndirectLink(seen),
            occupant => occupant,
        }
    }

    fn leads_to_our_socket(&self) -> bool {
        let end = fs::metadata(&self.path).map(|found| Identity::from_parts(&found, None));
        end.is_ok_and(|end| end.is_at(&self.socket))
    }

    /// The link's place is the socket's own: a mount or a link has made one directory of two. A link
    /// there would take the socket's place and lead to itself.
    fn is_the_sockets(&self) -> bool {
        self.path.file_name() == self.socket.file_name()
            && directory::is_same(directory::of(&self.path), directory::of(&self.socket))
                == Some(true)
    }

    /// A link may be put at the path, over this file or over none; or the reason why not.
    fn clear(
        &self,
        occupant: Occupant,
        on_live_owner: OnLiveOwner,
    ) -> Result<Option<Identity>, Obstacle> {
        if self.is_the_sockets() {
            return Err(Obstacle::Failed(format!(
                "{} and {} are one file: registry_dir has become the kubelet's own directory",
                self.path.display(),
                self.socket.display()
            )));
        }
        occupant::clear(&self.path, occupant, on_live_owner)
    }

    /// A link that we made, of either kind.
    pub(crate) fn is_ours(&self, identity: &Identity) -> bool {
        match identity.target() {
            Some(target) => *target == self.target,
            None => self.hard && identity.is_at(&self.socket),
        }
    }

    /// Makes sure that our link is there: one that stands is left alone.
    pub(crate) fn publish(&self, on_live_owner: OnLiveOwner) -> Result<Published, Obstacle> {
        look_and_act(MAKE, &self.path, || {
            self.publish_over(self.look(), on_live_owner)
        })
    }

    fn publish_over(
        &self,
        occupant: Occupant,
        on_live_owner: OnLiveOwner,
    ) -> Result<Option<Published>, Obstacle> {
        if let Occupant::Ours(identity) = occupant {
            return Ok(Some(Published {
                identity,
                made: false,
            }));
        }
        let made = match self.clear(occupant, on_live_owner)? {
            // It makes the whole link at once and never replaces anything.
            None => self.make(&self.path),
            seen => self.rename_over(seen.as_ref()),
        };
        self.made(made)
    }

    /// Puts a fresh link over ours, which is what makes a kubelet look again.
    pub(crate) fn announce(&self, on_live_owner: OnLiveOwner) -> Result<Published, Obstacle> {
        look_and_act(MAKE, &self.path, || {
            self.announce_over(self.look(), on_live_owner)
        })
    }

    fn announce_over(
        &self,
        occupant: Occupant,
        on_live_owner: OnLiveOwner,
    ) -> Result<Option<Published>, Obstacle> {
        // To rename one name of a file over another one does nothing at all.
        let is_hard = matches!(&occupant, Occupant::Ours(identity) if identity.target().is_none());
        let seen = self.clear(occupant, on_live_owner)?;
        self.made(match seen {
            // Where it is another's by now, there is no room for a new one.
            Some(ours) if is_hard => remove(&self.path, &ours).and_then(|_| self.make(&self.path)),
            seen => self.rename_over(seen.as_ref()),
        })
    }

    /// Where the file system does not let the socket have a second name, it is a symbolic link.
    fn make(&self, path: &Path) -> io::Result<()> {
        if self.hard {
            match fs::hard_link(&self.socket, path) {
                Err(error) if is_refused(&error) => {}
                done => return done,
            }
        }
        symlink(&self.target, path)
    }

    fn made(&self, made: io::Result<()>) -> Result<Option<Published>, Obstacle> {
        if unless_another_came(MAKE, &self.path, made)?.is_none() {
            return Ok(None);
        }
        let identity = put(MAKE, &self.path, |found| self.is_ours(found))?;
        Ok(Some(Published {
            identity,
            made: true,
        }))
    }

    fn rename_over(&self, seen: Option<&Identity>) -> io::Result<()> {
        match self.rename_from(self.stage, seen) {
            // Another mount, or a directory that is not ours to write. The kubelet then has lines
            // in its log about names that are gone, and the link is right all the same.
            Err(error) if cannot_stage(&error) => {
                self.rename_from(self.path.parent().unwrap_or(self.stage), seen)
            }
            done => done,
        }
    }

    fn rename_from(&self, directory: &Path, seen: Option<&Identity>) -> io::Result<()> {
        let staged = staging(directory);
        self.make(&staged)?;
        let ours = Identity::of(&staged)?;
        swap::put(&staged, &self.path, seen).inspect_err(|_| swap::discard(&staged, &ours))
    }
}

/// A second name is refused here, whoever asks for it.
fn is_refused(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), PermissionDenied | TooManyLinks | Unsupported)
}

/// Removes `path` if it is still the file that it was, though somebody may have touched it. Tells
/// whether it did.
pub(crate) fn remove(path: &Path, identity: &Identity) -> io::Result<bool> {
    match Identity::of(path) {
        Ok(found) if found.is_same_object(identity) => fs::remove_file(path).map(|()| true),
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
pub(super) mod tests;
