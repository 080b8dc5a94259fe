//! Whatever state.json holds, it is trusted only when it is ours and of this boot, and what is
//! trusted can be written down again.

use std::fs::{self, File};

use super::*;
use crate::config::Settings;
use crate::disk::layout::Layout;
use crate::os::fuzz::Fuzz;

/// In a kept input, the boot that it is read in.
const THIS_BOOT: &str = "@BOOT@";

const WORDS: &[&str] = &[
    THIS_BOOT,
    "\"format\":1,",
    "\"format\":2,",
    "\"boot_id\":\"\"",
    "\"start_sockets\":{},",
    "\"drivers\":{\"../x\":",
    "\"name\":\"../../etc/x\"",
    "\"name\":null",
    "\"registration\":null",
    "\"origin\":\"table\"",
    "\"csi_socket\":\"/etc/passwd\"",
    "\"target\":\"/etc/passwd\"",
    "\"max_volumes\":-1",
    "\"shown\":{\"phase\":\"registered\",\"since\":\"\",\"cluster\":{\"word\":",
    "\"cluster_checked\":\"2026-03-02T10:00:00Z\",",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "1e999",
    "\\ud800",
];

#[test]
fn no_state_is_trusted_that_is_not_ours() {
    let scene = Scene::new();
    Fuzz::new("state", WORDS).short(|input| scene.check(input));
}

#[test]
#[ignore = "the long run"]
fn no_state_is_trusted_that_is_not_ours_for_long() {
    let scene = Scene::new();
    Fuzz::new("state", WORDS).long(|input| scene.check(input));
}

/// Where a file says that it is from.
#[derive(Deserialize)]
struct Whence {
    format: u32,
    boot_id: Option<String>,
}

struct Scene {
    dir: tempfile::TempDir,
    boot: String,
    layout: Layout,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        // With the mode that ours has, whatever the umask.
        boot_file::create(&dir.path().join("state.json")).unwrap();
        Scene {
            dir,
            boot: boot::id().unwrap().to_owned(),
            layout: Settings::default().layout(),
        }
    }

    fn check(&self, input: &[u8]) -> String {
        let path = self.dir.path().join("state.json");
        let text = replaced(input, THIS_BOOT.as_bytes(), self.boot.as_bytes());
        fs::write(&path, &text).unwrap();
        let state: SavedState = match boot_file::read(&path) {
            Ok(state) => state.unwrap(),
            Err(why) => {
                assert_eq!(SavedState::load(&path), None);
                let why = why.to_string();
                return why
                    .chars()
                    .filter(|c| !c.is_ascii_digit())
                    .take(60)
                    .collect();
            }
        };
        let origin: Whence = serde_json::from_slice(&text).unwrap();
        // Nothing in memory is of another boot, whether it says so or not.
        let boot = origin.boot_id.filter(|boot| !boot.is_empty());
        let is_here = boot_file::is_in_memory(&File::open(&path).unwrap());
        assert!(
            boot.as_ref().map_or(is_here, |boot| *boot == self.boot),
            "of another boot"
        );
        assert!(origin.format <= FORMAT, "of a newer program");
        for written in state.drivers.values() {
            self.check_record(&written.record);
        }
        let copy = self.dir.path().join("copy.json");
        state.save(&copy).unwrap();
        assert_eq!(SavedState::load(&copy).as_ref(), Some(&state));
        format!("{}", state.drivers.len().min(3))
    }

    /// A name out of the file never leads out of the directory.
    fn check_record(&self, record: &Record) {
        let answers = record.registration.iter();
        let names = answers.map(|registered| &registered.answer.name);
        for name in names.chain(&record.name) {
            let socket = self.layout.socket(name);
            assert_eq!(socket.parent(), Some(self.layout.registry_dir()));
            let link = self.layout.link(name);
            assert_eq!(link.parent(), Some(self.layout.plugins_registry()));
        }
    }
}

fn replaced(input: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = rest.windows(from.len()).position(|found| found == from) {
        text.extend(&rest[..at]);
        text.extend(to);
        rest = &rest[at + from.len()..];
    }
    text.extend(rest);
    text
}
