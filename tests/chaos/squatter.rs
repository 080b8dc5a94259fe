//! A foreign file at one of the registrar's paths.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use bed::{identity, try_dead_socket};

use crate::disk::attempt;
use crate::fault::Squatter;
use crate::scene::Scene;

/// One of the registrar's paths with a foreign file.
pub(crate) struct Taken {
    path: PathBuf,
    identity: (u64, u64, i64, i64),
    by: Squatter,
    _listener: Option<UnixListener>,
}

impl Squatter {
    /// Takes the path, whatever is there. Returns whether it could.
    pub(crate) fn take(self, scene: &mut Scene, path: &Path) -> bool {
        scene.take_away(path, |path| fs::remove_file(path));
        let Some(listener) = attempt(self.settle(path)) else {
            return false;
        };
        scene.squatters.push(Taken {
            path: path.to_owned(),
            identity: identity(path).unwrap(),
            by: self,
            _listener: listener,
        });
        true
    }

    fn settle(self, path: &Path) -> io::Result<Option<UnixListener>> {
        match self {
            Squatter::Living => return UnixListener::bind(path).map(Some),
            Squatter::Dead => try_dead_socket(path)?,
            Squatter::Dangling => symlink("/nowhere/x-reg.sock", path)?,
            Squatter::File => drop(File::create_new(path)?),
            Squatter::Directory => fs::create_dir(path)?,
        }
        Ok(None)
    }

    /// The registrar may replace it.
    fn may_be_replaced(self) -> bool {
        matches!(self, Squatter::Dead | Squatter::Dangling)
    }
}

impl Taken {
    fn is_there(&self) -> bool {
        identity(&self.path) == Some(self.identity)
    }

    /// The file is gone. A file below a mount is hidden, and not gone.
    fn is_gone(&self) -> bool {
        let directory = self.path.parent().map(fs::metadata);
        let hidden = matches!(directory, Some(Ok(found)) if found.dev() != self.identity.0);
        !hidden && !self.is_there()
    }
}

impl Scene {
    /// A live socket, or a file that is neither a socket nor a link, stays until the test removes it.
    pub(crate) fn check_squatters(&self) {
        let touched = |taken: &&Taken| !taken.by.may_be_replaced() && taken.is_gone();
        let touched = self.squatters.iter().filter(touched);
        let touched: Vec<String> = touched
            .map(|taken| format!("{:?} at {}", taken.by, taken.path.display()))
            .collect();
        assert_eq!(touched, Vec::<String>::new(), "the registrar touched these");
    }

    /// The test itself removes the file at `path`, even a squatter. Returns whether it could.
    pub(crate) fn take_away(&mut self, path: &Path, remove: fn(&Path) -> io::Result<()>) -> bool {
        self.check_squatters();
        let removed = attempt(remove(path)).is_some();
        self.squatters
            .retain(|taken| !taken.path.starts_with(path) || !taken.is_gone());
        removed
    }

    /// Removes all squatters that are left.
    pub(crate) fn drive_out_squatters(&mut self) {
        self.check_squatters();
        for taken in self.squatters.drain(..).filter(Taken::is_there) {
            match taken.by {
                Squatter::Directory => fs::remove_dir(&taken.path).unwrap(),
                _ => fs::remove_file(&taken.path).unwrap(),
            }
        }
    }
}
