//! A test that cannot run on this machine reports it; in CI it fails.

use std::fs::OpenOptions;
use std::io::Write;
use std::thread;

use nix::unistd::Uid;

/// The file from which `tests/run` reads the skipped tests: libtest hides the output of a test that
/// passes.
const TOLD_IN: &str = "SKIPPED_TESTS";

/// Reports that the test needs this. With CI=true the machine must have it.
///
/// # Panics
/// In CI, and where the report cannot be written.
#[track_caller]
pub fn skipped(needs: &str) {
    let in_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!in_ci, "this needs {needs}, and CI skips nothing");
    let test = thread::current();
    let line = format!("{}: needs {needs}\n", test.name().unwrap_or("a test"));
    eprint!("SKIPPED {line}");
    if let Some(path) = std::env::var_os(TOLD_IN) {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap();
    }
}

/// Whether this process is root's; [`skipped`] with the purpose otherwise.
#[track_caller]
pub fn is_root(purpose: &str) -> bool {
    let root = Uid::effective().is_root();
    if !root {
        skipped(&format!("root, to {purpose}"));
    }
    root
}

/// Whether a program is installed; [`skipped`] otherwise.
#[track_caller]
pub fn has_program(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|directory| directory.join(program).exists());
    if !found {
        skipped(program);
    }
    found
}
