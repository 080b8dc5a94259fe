//! One place on disk: who is there, and putting something of ours there without harm to others.

#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use tokio::net::UnixListener;

use super::obstacle::Obstacle;
use crate::disk::directory;
use crate::disk::identity::Identity;
use crate::disk::socket::{ListenerProbe, MODE, Staged, knock, listener, staging};
use crate::disk::swap;

const MAKE: &str = "make the link";
const LISTEN: &str = "listen on";

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
pub(crate) fn look(path: &Path, is_ours: impl Fn(&Identity) -> bool) -> Occupant {
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
    match knock(path) {
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
fn clear(path: &Path, occupant: Occupant, take_over: bool) -> Result<Option<Identity>, Obstacle> {
    match occupant {
        Occupant::Nobody => Ok(None),
        Occupant::Ours(seen) | Occupant::Dead(seen) | Occupant::IndirectLink(seen) => {
            Ok(Some(seen))
        }
        Occupant::Living(seen, _) if take_over => Ok(Some(seen)),
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
fn look_and_act<T>(
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
fn unless_another_came<T>(
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
    fn clear(&self, occupant: Occupant, take_over: bool) -> Result<Option<Identity>, Obstacle> {
        if self.is_the_sockets() {
            return Err(Obstacle::Failed(format!(
                "{} and {} are one file: registry_dir has become the kubelet's own directory",
                self.path.display(),
                self.socket.display()
            )));
        }
        clear(&self.path, occupant, take_over)
    }

    /// A link that we made, of either kind.
    pub(crate) fn is_ours(&self, identity: &Identity) -> bool {
        match identity.target() {
            Some(target) => *target == self.target,
            None => self.hard && identity.is_at(&self.socket),
        }
    }

    /// Makes sure that our link is there: one that stands is left alone.
    pub(crate) fn publish(&self, take_over: bool) -> Result<Published, Obstacle> {
        look_and_act(MAKE, &self.path, || {
            self.publish_over(self.look(), take_over)
        })
    }

    fn publish_over(
        &self,
        occupant: Occupant,
        take_over: bool,
    ) -> Result<Option<Published>, Obstacle> {
        if let Occupant::Ours(identity) = occupant {
            return Ok(Some(Published {
                identity,
                made: false,
            }));
        }
        let made = match self.clear(occupant, take_over)? {
            // It makes the whole link at once and never replaces anything.
            None => self.make(&self.path),
            seen => self.rename_over(seen.as_ref()),
        };
        self.made(made)
    }

    /// Puts a fresh link over ours, which is what makes a kubelet look again.
    pub(crate) fn announce(&self, take_over: bool) -> Result<Published, Obstacle> {
        look_and_act(MAKE, &self.path, || {
            self.announce_over(self.look(), take_over)
        })
    }

    fn announce_over(
        &self,
        occupant: Occupant,
        take_over: bool,
    ) -> Result<Option<Published>, Obstacle> {
        // To rename one name of a file over another one does nothing at all.
        let is_hard = matches!(&occupant, Occupant::Ours(identity) if identity.target().is_none());
        let seen = self.clear(occupant, take_over)?;
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
        take_over: bool,
    ) -> Result<(UnixListener, Identity), Obstacle> {
        if !self.borrowed {
            directory::make(self.directory)
                .map_err(|error| failed("make", self.directory, &error))?;
        }
        look_and_act(LISTEN, &self.path, || {
            let occupant = look(&self.path, |identity| is_bound(ours, identity));
            self.listen_over(occupant, take_over)
        })
    }

    fn listen_over(
        &self,
        occupant: Occupant,
        take_over: bool,
    ) -> Result<Option<(UnixListener, Identity)>, Obstacle> {
        let seen = clear(&self.path, occupant, take_over)?;
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

/// What was put in its place just now, unless somebody was faster: another's is never taken for ours.
fn put(
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

fn failed(attempt: &str, path: &Path, why: &dyn Display) -> Obstacle {
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
