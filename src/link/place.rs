//! One place on disk: who is there, and putting something of ours there without harm to others.

use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use tokio::net::UnixListener;

use super::obstacle::Obstacle;
use crate::config::OnLiveOwner;
use crate::directory;
use crate::identity::Identity;
use crate::socket::{Knock, MODE, Staged, knock, listener, staging};

/// Who is at a place.
#[derive(Debug)]
pub(crate) enum Occupant {
    Nobody,
    Ours(Identity),
    /// A link that dangles or a socket that nobody listens on.
    Dead,
    /// A link that leads to our own socket, but not in our words.
    Detour,
    /// Somebody else listens there.
    Living(String),
    /// Neither a socket nor a link.
    Alien(String),
    /// The place itself is not there.
    NoDirectory,
    Unknown(io::Error),
}

/// Looks at what is at `path`; `is_ours` knows our own.
pub(crate) fn look(path: &Path, is_ours: impl Fn(&Identity) -> bool) -> Occupant {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return vacancy(path),
        Err(error) => return Occupant::Unknown(error),
    };
    let identity = match Identity::of(path) {
        Ok(identity) => identity,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return vacancy(path),
        Err(error) => return Occupant::Unknown(error),
    };
    if is_ours(&identity) {
        return Occupant::Ours(identity);
    }
    if !kind.is_symlink() && !kind.is_socket() {
        return Occupant::Alien(format!(
            "{} is {}, neither a socket nor a link; move it away",
            path.display(),
            describe(kind)
        ));
    }
    match knock(path) {
        Knock::Dead => Occupant::Dead,
        Knock::Alive(stream) => Occupant::Living(owner(path, stream.as_ref())),
        Knock::Unknown(error) => Occupant::Unknown(error),
    }
}

fn vacancy(path: &Path) -> Occupant {
    match path.parent().map(fs::metadata) {
        Some(Ok(_)) => Occupant::Nobody,
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Occupant::Unknown(error),
        Some(Err(_)) | None => Occupant::NoDirectory,
    }
}

/// Something of ours may be put at `path`, or the reason why not.
fn clear(path: &Path, occupant: Occupant, on_live_owner: OnLiveOwner) -> Result<(), Obstacle> {
    match occupant {
        Occupant::Nobody | Occupant::Ours(_) | Occupant::Dead | Occupant::Detour => Ok(()),
        Occupant::Living(_) if on_live_owner == OnLiveOwner::TakeOver => Ok(()),
        Occupant::Living(owner) => Err(Obstacle::LiveOwner(owner)),
        Occupant::Alien(what) => Err(Obstacle::Alien(what)),
        Occupant::NoDirectory => Err(Obstacle::NoDirectory(
            path.parent().unwrap_or(path).to_owned(),
        )),
        Occupant::Unknown(error) => Err(failed("look at", path, &error)),
    }
}

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
            Occupant::Living(_) if self.leads_to_our_socket() => Occupant::Detour,
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

    /// A link may be put at the path, or the reason why not.
    fn clear(&self, occupant: Occupant, on_live_owner: OnLiveOwner) -> Result<(), Obstacle> {
        if self.is_the_sockets() {
            return Err(Obstacle::Failed(format!(
                "{} and {} are one file: registry_dir has become the kubelet's own directory",
                self.path.display(),
                self.socket.display()
            )));
        }
        clear(&self.path, occupant, on_live_owner)
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
        let made = match self.look() {
            Occupant::Ours(identity) => {
                return Ok(Published {
                    identity,
                    made: false,
                });
            }
            occupant => {
                let is_free = matches!(occupant, Occupant::Nobody);
                self.clear(occupant, on_live_owner)?;
                if is_free {
                    // It makes the whole link at once and never replaces anything.
                    self.make(&self.path)
                } else {
                    self.rename_over()
                }
            }
        };
        self.made(made)
    }

    /// Puts a fresh link over ours, which is what makes a kubelet look again.
    pub(crate) fn announce(&self, on_live_owner: OnLiveOwner) -> Result<Published, Obstacle> {
        let occupant = self.look();
        // To rename one name of a file over another one does nothing at all.
        let is_hard = matches!(&occupant, Occupant::Ours(identity) if identity.target().is_none());
        self.clear(occupant, on_live_owner)?;
        self.made(if is_hard {
            fs::remove_file(&self.path).and_then(|()| self.make(&self.path))
        } else {
            self.rename_over()
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

    fn made(&self, made: io::Result<()>) -> Result<Published, Obstacle> {
        made.map_err(|error| failed("make the link", &self.path, &error))?;
        Ok(Published {
            identity: put("make the link", &self.path)?,
            made: true,
        })
    }

    fn rename_over(&self) -> io::Result<()> {
        match self.rename_from(self.stage) {
            // Another mount, or a directory that is not ours to write. The kubelet then has a
            // line in its log about a name that is gone, and the link is right all the same.
            Err(error) if cannot_stage(&error) => {
                self.rename_from(self.path.parent().unwrap_or(self.stage))
            }
            done => done,
        }
    }

    fn rename_from(&self, directory: &Path) -> io::Result<()> {
        let staged = staging(directory);
        self.make(&staged)?;
        fs::rename(&staged, &self.path).inspect_err(|_| {
            if let Err(error) = fs::remove_file(&staged) {
                tracing::warn!(%error, path = %staged.display(), "cannot remove a temporary link");
            }
        })
    }
}

/// A second name is refused here, whoever asks for it.
fn is_refused(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), PermissionDenied | TooManyLinks | Unsupported)
}

fn cannot_stage(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem};
    matches!(
        error.kind(),
        CrossesDevices | PermissionDenied | ReadOnlyFilesystem
    )
}

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
        let occupant = look(&self.path, |identity| is_bound(ours, identity));
        clear(&self.path, occupant, on_live_owner)?;
        let listening = match self.listen_from(self.stage) {
            Err(error) if cannot_stage(&error) => self.listen_from(self.directory),
            done => done,
        };
        let listener = listening.map_err(|error| failed("listen on", &self.path, &error))?;
        Ok((listener, put("listen on", &self.path)?))
    }

    fn listen_from(&self, stage: &Path) -> io::Result<UnixListener> {
        Staged::bind(stage)?.put(&self.path)
    }
}

/// The file is the socket that we listen on: no other file gets its inode as long as we do.
fn is_bound(ours: Option<&Identity>, found: &Identity) -> bool {
    ours.is_some_and(|ours| ours.is_same_inode(found))
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

/// What was put in its place just now, unless somebody was faster.
fn put(attempt: &str, path: &Path) -> Result<Identity, Obstacle> {
    Identity::of(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Obstacle::Snatched,
        _ => failed(attempt, path, &error),
    })
}

fn failed(attempt: &str, path: &Path, error: &io::Error) -> Obstacle {
    Obstacle::Failed(format!("cannot {attempt} {}: {error}", path.display()))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever came to the path since we looked is another's, also between two steps of ours.
    #[test]
    fn removes_a_file_only_while_it_is_the_one_that_was_meant() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link");
        symlink("/ours", &path).unwrap();
        let ours = Identity::of(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!remove(&path, &ours).unwrap(), "nothing is there");
        symlink("/ours", &path).unwrap();
        assert!(!remove(&path, &ours).unwrap(), "another link is there");
        let theirs = Identity::of(&path).unwrap();
        assert!(remove(&path, &theirs).unwrap());
        assert!(!path.is_symlink());
    }
}
