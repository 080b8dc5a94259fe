//! Endless changes in a node's directories, made by separate threads.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::node::Node;

/// The change that the storm repeats on its own file in each directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// It changes the mode: the cheapest change, hence the most events in a second.
    Modes,
    /// It creates and deletes the file.
    Comings,
    /// It renames the file and renames it back.
    Renames,
}

impl Weather {
    /// Each of them.
    pub const ALL: [Weather; 3] = [Weather::Modes, Weather::Comings, Weather::Renames];
}

/// A storm that lasts until this is dropped, and leaves no file.
pub struct Storm {
    ended: Arc<AtomicBool>,
    changes: Arc<AtomicU64>,
    threads: Vec<thread::JoinHandle<io::Result<()>>>,
}

impl Storm {
    /// Begins in the directories of these drivers, the registry and the kubelet's directory, with this
    /// many threads.
    pub fn begin<N: AsRef<str>>(
        weather: Weather,
        threads: usize,
        node: &Node,
        drivers: &[N],
    ) -> Storm {
        let drivers = drivers.iter().map(AsRef::as_ref);
        let directories: BTreeSet<PathBuf> = drivers
            .map(|driver| node.plugins_dir().join(driver))
            .chain([node.registry_dir(), node.plugins_registry()])
            .collect();
        let (ended, changes) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let begin = |number: usize| {
            let file = |directory: &PathBuf| directory.join(format!("storm-{number}"));
            let files: Vec<PathBuf> = directories.iter().map(file).collect();
            let (ended, changes) = (Arc::clone(&ended), Arc::clone(&changes));
            thread::spawn(move || {
                make(&files)?;
                while !ended.load(Ordering::Relaxed) {
                    blow(weather, &files)?;
                    changes.fetch_add(2 * files.len() as u64, Ordering::Relaxed);
                }
                files.iter().try_for_each(fs::remove_file)
            })
        };
        Storm {
            threads: (0..threads).map(begin).collect(),
            ended,
            changes,
        }
    }

    /// How many changes it has made so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}

fn make(files: &[PathBuf]) -> io::Result<()> {
    let mut each = files.iter();
    each.try_for_each(|file| File::create(file).map(drop))
}

/// Changes each file and changes it back. The files take turns: the kernel merges two equal events in a
/// row.
fn blow(weather: Weather, files: &[PathBuf]) -> io::Result<()> {
    let mut each = files.iter();
    match weather {
        Weather::Modes => {
            each.try_for_each(|file| set_mode(file, 0o600))?;
            files.iter().try_for_each(|file| set_mode(file, 0o644))
        }
        Weather::Comings => {
            each.try_for_each(fs::remove_file)?;
            make(files)
        }
        Weather::Renames => {
            let moved = |file: &PathBuf| file.with_extension("moved");
            each.try_for_each(|file| fs::rename(file, moved(file)))?;
            let mut back = files.iter();
            back.try_for_each(|file| fs::rename(moved(file), file))
        }
    }
}

fn set_mode(file: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(file, Permissions::from_mode(mode))
}

impl Drop for Storm {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            if !thread::panicking() {
                ended.unwrap().unwrap();
            }
        }
    }
}
