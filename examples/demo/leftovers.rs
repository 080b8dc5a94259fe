//! Removes the directory and the registrar's process of an interrupted demo.
//!
//! The release profile aborts on a panic, so destructors run neither then nor after Ctrl-C.

use std::fs;
use std::io;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::patience::Failure;

/// The registrar's process; 0 is none.
static REGISTRAR: AtomicU32 = AtomicU32::new(0);

/// Removes `root` also when the demo panics, or is ended by Ctrl-C or SIGTERM.
pub(crate) fn remove_at_any_end(root: &Path) -> Result<(), Failure> {
    let listener = Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(Failure::other)?;
    let directory = root.to_owned();
    thread::Builder::new()
        .name("leftovers".to_owned())
        .spawn(move || match wait_for_the_end(&listener) {
            Ok(code) => {
                clean(&directory);
                exit(code);
            }
            Err(error) => eprintln!("demo: cannot wait for signals: {error}"),
        })
        .map_err(Failure::other)?;
    let (directory, report): (PathBuf, _) = (root.to_owned(), panic::take_hook());
    panic::set_hook(Box::new(move |panicked| {
        report(panicked);
        clean(&directory);
        exit(1);
    }));
    Ok(())
}

/// Returns the exit code that a shell shows for the signal that came.
fn wait_for_the_end(listener: &Runtime) -> io::Result<i32> {
    listener.block_on(async {
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        tokio::select! {
            _ = interrupted.recv() => Ok(128 + SignalKind::interrupt().as_raw_value()),
            _ = terminated.recv() => Ok(128 + SignalKind::terminate().as_raw_value()),
        }
    })
}

/// The registrar runs as this process from now on, or no longer.
pub(crate) fn note_registrar(pid: Option<u32>) {
    REGISTRAR.store(pid.unwrap_or(0), Ordering::SeqCst);
}

fn clean(root: &Path) {
    // The registrar recreates a deleted directory, so it has to end first.
    if let Ok(pid @ 1..) = i32::try_from(REGISTRAR.load(Ordering::SeqCst)) {
        let pid = Pid::from_raw(pid);
        match kill(pid, Signal::SIGKILL).and_then(|()| waitpid(pid, None)) {
            Ok(_) | Err(Errno::ECHILD | Errno::ESRCH) => {}
            Err(error) => eprintln!("demo: cannot end the registrar, pid {pid}: {error}"),
        }
    }
    match fs::remove_dir_all(root) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => eprintln!("demo: cannot remove {}: {error}", root.display()),
    }
}
