//! The link that the kubelet finds: a symbolic link to the registration socket.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::directory;
use super::identity::Identity;
use super::obstacle::Obstacle;
use super::occupant::{Occupant, place, placed, staged};
use super::replace::Staged;

const MAKE: &str = "make the link";

/// A link of ours that exists.
pub(crate) struct Published {
    pub(crate) identity: Identity,
    /// We made the link just now, rather than found it.
    pub(crate) made: bool,
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

    /// A link that we made.
    pub(crate) fn is_ours(&self, identity: &Identity) -> bool {
        identity.target() == Some(&self.target)
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
        self.place(take_over, |seen| self.rename_over(seen))?;
        self.made()
    }

    fn make(&self, path: &Path) -> io::Result<()> {
        symlink(&self.target, path)
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

#[cfg(test)]
pub(super) mod tests;
