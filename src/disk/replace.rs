//! Puts a file in the place of exactly the file that was seen there.
//!
//! Between a look at a place and a rename, another process may put a file there, and rename(2) replaces
//! any file. renameat2(2) can refuse that, and can exchange two files: then the replaced file is at hand,
//! and goes back if it is not the file that was seen.
//!
//! A kubelet reacts to an exchange as to a rename over its link. Go's fsnotify reports a Create for both,
//! and after an exchange also a Rename, which kubelets ignore.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::directory::if_found;
use super::identity::Identity;

/// Temporary names of ours start so.
pub(super) const STAGED: &str = ".nr";

/// A file of ours under a temporary name. Removed with this value, unless it was put in its place.
pub(super) struct Staged {
    path: PathBuf,
    file: Identity,
}

impl Staged {
    /// Makes a file in `directory`. Its temporary name is as short as the shortest name that it can get
    /// (`x-reg.sock`), because the length of a socket's path is limited.
    pub(super) fn make<T>(
        directory: &Path,
        make: impl FnOnce(&Path) -> io::Result<T>,
    ) -> io::Result<(Staged, T)> {
        let random = RandomState::new().hash_one(0) & 0x0fff_ffff;
        let path = directory.join(format!("{STAGED}{random:07x}"));
        let made = make(&path)?;
        let file = Identity::of(&path)?;
        Ok((Staged { path, file }, made))
    }

    /// Moves the file to `place`, over any file.
    pub(super) fn put(self, place: &Path) -> io::Result<Identity> {
        fs::rename(&self.path, place)?;
        Ok(self.file.clone())
    }

    /// Moves the file to `place`, over the file that was `seen` there, or over none.
    ///
    /// # Errors
    /// `AlreadyExists` when another file is at `place`, which stays there. Otherwise those of rename.
    pub(super) fn put_over(self, place: &Path, seen: Option<&Identity>) -> io::Result<Identity> {
        replace(&self.path, place, seen)?;
        Ok(self.file.clone())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        discard(&self.path, &self.file);
    }
}

fn replace(staged: &Path, place: &Path, seen: Option<&Identity>) -> io::Result<()> {
    let Some(seen) = seen else {
        return match renamed(staged, place, RenameFlags::NOREPLACE) {
            Err(errno) if is_unknown(errno) => replace_after_a_look(staged, place, None),
            done => Ok(done?),
        };
    };
    let ours = Identity::of(staged)?;
    match renamed(staged, place, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        // The file that was seen has gone since.
        Err(Errno::NOENT) => return replace(staged, place, None),
        Err(errno) if is_unknown(errno) => return replace_after_a_look(staged, place, Some(seen)),
        Err(errno) => return Err(errno.into()),
    }
    if Identity::of(staged)?.is_renamed(seen) {
        discard(staged, seen);
        return Ok(());
    }
    renamed(staged, place, RenameFlags::EXCHANGE)?;
    if !Identity::of(staged)?.is_renamed(&ours) {
        // Another process replaced the file a second time, between our two exchanges. Its file is not
        // ours to delete.
        tracing::warn!(
            path = %place.display(), left = %staged.display(),
            "another process has replaced the file twice; one of its files is left under another name"
        );
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes `file` from `path`, unless another file is there.
fn discard(path: &Path, file: &Identity) {
    if let Err(error) = if_found(remove_if(path, |found| found.is_renamed(file))) {
        tracing::warn!(%error, path = %path.display(), "cannot remove a temporary file");
    }
}

/// Removes `path` if it is still the same file, although its mode or owner may have changed. Says
/// whether it removed the file.
pub(crate) fn remove(path: &Path, identity: &Identity) -> io::Result<bool> {
    remove_if(path, |found| found.is_same_object(identity))
}

fn remove_if(path: &Path, is_meant: impl FnOnce(&Identity) -> bool) -> io::Result<bool> {
    match if_found(Identity::of(path))?.filter(is_meant) {
        Some(_) => fs::remove_file(path).map(|()| true),
        None => Ok(false),
    }
}

fn renamed(from: &Path, to: &Path, flags: RenameFlags) -> Result<(), Errno> {
    renameat_with(CWD, from, CWD, to, flags)
}

/// The file system does not know the flags (NFS, FUSE and ZFS before 2.2 return EINVAL), the kernel does
/// not know the call, or a sandbox or a policy forbids it. Where no rename is permitted, the plain rename
/// fails too.
fn is_unknown(errno: Errno) -> bool {
    use Errno as E;
    matches!(
        errno,
        E::INVAL | E::NOSYS | E::OPNOTSUPP | E::PERM | E::ACCESS
    )
}

/// Second best: a look right before the rename. A file that comes in the microseconds between the two is
/// replaced.
fn replace_after_a_look(staged: &Path, place: &Path, seen: Option<&Identity>) -> io::Result<()> {
    match (if_found(Identity::of(place))?, seen) {
        (Some(found), Some(seen)) if found.is_same_object(seen) => {}
        (Some(_), _) => return Err(io::ErrorKind::AlreadyExists.into()),
        (None, _) => {}
    }
    fs::rename(staged, place)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// A link of ours under a temporary name, and the place that it is for.
    struct Scene {
        dir: TempDir,
        staged: PathBuf,
        place: PathBuf,
    }

    impl Scene {
        fn new() -> Scene {
            let dir = tempfile::tempdir().unwrap();
            let (staged, place) = (dir.path().join("staged"), dir.path().join("place"));
            symlink("/ours", &staged).unwrap();
            Scene { dir, staged, place }
        }

        /// Somebody puts a link in the place, over what is there.
        fn link(&self, target: &str) -> Identity {
            let beside = self.dir.path().join("beside");
            symlink(target, &beside).unwrap();
            fs::rename(&beside, &self.place).unwrap();
            Identity::of(&self.place).unwrap()
        }

        #[track_caller]
        fn holds(&self, target: &str) {
            assert_eq!(fs::read_link(&self.place).unwrap(), Path::new(target));
        }

        #[track_caller]
        fn is_refused(&self, done: io::Result<()>) {
            assert_eq!(done.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read_link(&self.staged).unwrap(), Path::new("/ours"));
        }
    }

    type Put = fn(&Path, &Path, Option<&Identity>) -> io::Result<()>;
    /// With the help of the kernel, and without.
    const WAYS: [Put; 2] = [replace, replace_after_a_look];

    #[test]
    fn the_file_that_was_seen_is_replaced_and_nothing_is_left() {
        for put in WAYS {
            let scene = Scene::new();
            let seen = scene.link("/dead");
            put(&scene.staged, &scene.place, Some(&seen)).unwrap();
            scene.holds("/ours");
            assert_eq!(fs::read_dir(scene.dir.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_free_place_is_taken_and_so_is_one_that_has_become_free() {
        for put in WAYS {
            let scene = Scene::new();
            put(&scene.staged, &scene.place, None).unwrap();
            scene.holds("/ours");

            let scene = Scene::new();
            let seen = scene.link("/dead");
            fs::remove_file(&scene.place).unwrap();
            put(&scene.staged, &scene.place, Some(&seen)).unwrap();
            scene.holds("/ours");
        }
    }

    #[test]
    fn what_came_after_the_look_is_not_replaced() {
        for put in WAYS {
            let scene = Scene::new();
            scene.link("/theirs");
            scene.is_refused(put(&scene.staged, &scene.place, None));
            scene.holds("/theirs");

            let scene = Scene::new();
            let seen = scene.link("/dead");
            scene.link("/theirs");
            scene.is_refused(put(&scene.staged, &scene.place, Some(&seen)));
            scene.holds("/theirs");

            let scene = Scene::new();
            let seen = scene.link("/dead");
            fs::remove_file(&scene.place).unwrap();
            fs::create_dir(&scene.place).unwrap();
            scene.is_refused(put(&scene.staged, &scene.place, Some(&seen)));
            assert!(scene.place.is_dir());
        }
    }

    #[test]
    fn only_the_file_that_is_meant_is_discarded() {
        let scene = Scene::new();
        let ours = Identity::of(&scene.staged).unwrap();
        scene.link("/theirs");
        discard(&scene.place, &ours);
        scene.holds("/theirs");
        fs::rename(&scene.staged, &scene.place).unwrap();
        discard(&scene.place, &ours);
        assert!(!scene.place.is_symlink());
    }

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
