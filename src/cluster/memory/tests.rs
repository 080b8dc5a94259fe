use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use jiff::Timestamp;

use super::*;
use crate::os::fuzz::Fuzz;

fn now() -> Now {
    Now {
        time: Timestamp::now(),
        uptime: 5000,
    }
}

#[test]
fn what_was_announced_is_known_to_the_next_run_and_to_no_other_user() {
    let dir = tempfile::tempdir().unwrap();
    let mut memory = Memory::take(dir.path(), now()).unwrap();
    assert_eq!(memory.repairs, Repairs::default());
    memory.repairs.announced("a.csi", now());
    memory.save().unwrap();
    assert!(matches!(
        Memory::take(dir.path(), now()),
        Err(MemoryError::Held)
    ));
    let written = memory.repairs.clone();
    drop(memory);
    let memory = Memory::take(dir.path(), now()).unwrap();
    assert_eq!(memory.repairs, written);
    assert_eq!(memory.distrust, None);
    for file in ["repairs.json", "repairs.lock"] {
        let mode = fs::metadata(dir.path().join(file)).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o600, "{file}");
    }
}

/// Corrected anew by each run, it would delay for ever.
#[test]
fn an_announcement_in_the_future_is_corrected_once() {
    let boot = boot::id().unwrap();
    let far = u64::MAX;
    let text = format!(
        r#"{{"format": 1, "boot_id": "{boot}", "not_before": {far}, "drivers": {{"a.csi": {{"announced": {far}, "pause": {far}}}}}}}"#
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("repairs.json");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let corrected = Memory::take(dir.path(), now()).unwrap().repairs;
    let later = Now {
        uptime: now().uptime + 60,
        ..now()
    };
    assert_eq!(Memory::take(dir.path(), later).unwrap().repairs, corrected);
}

#[test]
fn a_file_that_is_not_trusted_delays_the_next_announcement() {
    let boot = boot::id().unwrap();
    let newer = format!(r#"{{"format": 2, "boot_id": "{boot}"}}"#);
    for (text, mode, why) in [
        ("{", 0o600, "torn"),
        ("", 0o600, "torn"),
        (newer.as_str(), 0o600, "newer"),
        ("{}", 0o622, "another user's"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("repairs.json");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let memory = Memory::take(dir.path(), now()).unwrap();
        let distrust = memory.distrust.as_deref().unwrap();
        assert!(distrust.contains(why), "{distrust}");
        assert_eq!(memory.repairs, Repairs::unknown(now()));
        drop(memory);
        // It is written down, so that the delay ends.
        let memory = Memory::take(dir.path(), now()).unwrap();
        assert_eq!(
            (memory.repairs, memory.distrust),
            (Repairs::unknown(now()), None)
        );
    }
}

#[test]
fn a_file_of_another_boot_says_nothing_of_this_one() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"{"format": 1, "boot_id": "other", "drivers": {"a.csi": {"announced": 1, "pause": 600}}}"#;
    fs::write(dir.path().join("repairs.json"), text).unwrap();
    let memory = Memory::take(dir.path(), now()).unwrap();
    assert_eq!(
        (memory.repairs, memory.distrust),
        (Repairs::default(), None)
    );
}

#[test]
fn a_link_in_the_place_of_a_file_is_not_followed() {
    for file in ["repairs.json", "repairs.lock"] {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, dir.path().join(file)).unwrap();
        if let Ok(memory) = Memory::take(dir.path(), now()) {
            memory.save().unwrap();
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{file}");
    }
}

#[test]
fn a_directory_that_cannot_be_written_to_repairs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let taken = Memory::take(&missing, now()).map(|_| ());
    assert!(matches!(taken, Err(MemoryError::Failed { .. })));
}

const WORDS: &[&str] = &[
    "\"format\":1,",
    "\"format\":2,",
    "\"boot_id\":\"\"",
    "\"not_before\":",
    "\"drivers\":{",
    "\"announced\":",
    "\"pause\":",
    "18446744073709551615",
    "-1",
    "1e999",
    "\\ud800",
];

/// Whatever the file holds, the next announcement of a driver waits two hours at most, and an unknown past delays.
fn check(dir: &Path, input: &[u8]) -> String {
    let path = dir.join("repairs.json");
    boot_file::remove_staged(&path).unwrap();
    let boot = boot::id().unwrap();
    let text = String::from_utf8_lossy(input).replace("@BOOT@", boot);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let mut memory = Memory::take(dir, now()).unwrap();
    let is_unknown = memory.repairs == Repairs::unknown(now());
    assert!(memory.distrust.is_none() || is_unknown);
    let later = Now {
        uptime: now().uptime + 7200,
        ..now()
    };
    let waits = memory.repairs.clone().corrected(later).waits(later);
    assert!(waits.iter().all(|wait| *wait == 0), "{waits:?}");
    memory.repairs.announced("a.csi", now());
    memory.save().unwrap();
    let why = memory.distrust.clone().unwrap_or_default();
    why.chars()
        .filter(|c| !c.is_ascii_digit())
        .take(60)
        .collect()
}

#[test]
fn no_memory_delays_a_repair_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    Fuzz::new("repairs", WORDS).short(|input| check(dir.path(), input));
}

#[test]
#[ignore = "the long run"]
fn no_memory_delays_a_repair_for_ever_for_long() {
    let dir = tempfile::tempdir().unwrap();
    Fuzz::new("repairs", WORDS).long(|input| check(dir.path(), input));
}

/// A link to a file that only root may write, in a directory that others may write to.
#[test]
fn a_lock_that_is_another_file_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("precious");
    fs::write(&file, "precious").unwrap();
    fs::hard_link(&file, dir.path().join("repairs.lock")).unwrap();
    let Err(MemoryError::Failed { path, .. }) = Memory::take(dir.path(), now()) else {
        panic!("it was taken");
    };
    assert_eq!(path, dir.path().join("repairs.lock"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}
