//! The memory of repairs: a file that other processes may have torn, replaced or invented.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::time::Duration;

use bed::scene::{NAME, SOON};
use bed::{eventually_every, is_root};
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::Stage;
use crate::security::victim::mode;

/// The memory counts in seconds.
const SECOND: Duration = Duration::from_secs(1);

fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    text.trim().to_owned()
}

fn uptime() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap();
    time.tv_sec().cast_unsigned()
}

/// A memory of this boot.
fn remembered(announced: u64, pause: u64) -> Value {
    json!({
        "format": 1, "boot_id": boot_id(), "not_before": null,
        "drivers": {NAME: {"announced": announced, "pause": pause}},
    })
}

fn lost() -> Stage {
    let stage = Stage::settled();
    stage.change(|state| state.unlist(NAME));
    stage
}

/// Writes the file as verify does, and runs verify, which must not announce.
#[track_caller]
fn bars(stage: &Stage, content: &[u8], why: &str) {
    let path = stage.memory();
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    stage.verify(&["--repair"]).ends_with(1).says(why);
    assert_eq!(stage.announcements(), 1);
}

#[test]
fn an_announcement_of_an_earlier_run_bars_the_next() {
    let stage = lost();
    for (announced, pause, hours, minutes) in [
        (uptime(), 600, 0, 9),
        (uptime(), 2400, 0, 39),
        // No clock of this boot has shown that, and no pause is so long: two hours at most.
        (u64::MAX, u64::MAX, 1, 59),
        (uptime() + 1_000_000, 600, 0, 9),
        // A pause that is too short.
        (uptime(), 0, 0, 9),
    ] {
        let memory = remembered(announced, pause).to_string();
        bars(&stage, memory.as_bytes(), "it was announced not long ago");
        // Time passes for the next run, whatever the file had.
        let span = match hours {
            0 => format!("in {minutes}m"),
            _ => format!("in {hours}h {minutes}m"),
        };
        eventually_every(SECOND, "time passes", SOON, || {
            stage.verify(&["--repair"]).words.contains(&span)
        });
    }
    assert_eq!(stage.announcements(), 1);
}

#[test]
fn a_memory_that_cannot_be_trusted_counts_as_an_announcement_and_is_replaced() {
    let stage = lost();
    let whole = remembered(1, 600).to_string();
    let mut newer = remembered(1, 600);
    newer["format"] = 2.into();
    for content in [
        &whole.as_bytes()[..whole.len() / 2],
        b"",
        b"\xff\xff\xff\xff",
        b"{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}",
        b"{\"format\": 1, \"drivers\": [1, 2]}",
        newer.to_string().as_bytes(),
        &vec![b' '; 20_000_000],
    ] {
        bars(&stage, content, "the memory of repairs does not count");
        // What replaced it counts.
        let verdict = stage.verify(&["--repair"]);
        verdict.ends_with(1).says("it was announced not long ago");
        assert!(
            !verdict.words.contains("does not count"),
            "{}",
            verdict.words
        );
        assert_eq!(mode(&stage.memory()), 0o600);
    }
    assert_eq!(stage.announcements(), 1);
}

#[test]
fn a_memory_that_another_user_could_write_does_not_count() {
    let stage = lost();
    // It would allow an announcement.
    let old = json!({"format": 1, "boot_id": boot_id(), "drivers": {}}).to_string();
    fs::write(stage.memory(), &old).unwrap();
    fs::set_permissions(stage.memory(), fs::Permissions::from_mode(0o666)).unwrap();
    stage
        .verify(&["--repair"])
        .ends_with(1)
        .says("the memory of repairs does not count");
    if is_root("give a file to another user") {
        fs::write(stage.memory(), &old).unwrap();
        chown(stage.memory(), Some(65534), Some(65534)).unwrap();
        stage
            .verify(&["--repair"])
            .ends_with(1)
            .says("the memory of repairs does not count");
    }
    // A link to a file of another owner is neither read nor written through.
    let elsewhere = stage.scene.node.root().join("elsewhere");
    fs::write(&elsewhere, "precious").unwrap();
    fs::remove_file(stage.memory()).unwrap();
    std::os::unix::fs::symlink(&elsewhere, stage.memory()).unwrap();
    stage.verify(&["--repair"]).ends_with(1);
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious");
    assert_eq!(stage.announcements(), 1);
}

#[test]
fn a_memory_of_another_boot_bars_nothing() {
    let stage = lost();
    let mut memory = remembered(uptime(), 7200);
    memory["boot_id"] = "9f0c1f2e-0000-4000-8000-000000000000".into();
    fs::write(stage.memory(), memory.to_string()).unwrap();
    fs::set_permissions(stage.memory(), fs::Permissions::from_mode(0o600)).unwrap();
    let verdict = stage.verify_mirrored(&["--repair"]);
    verdict.ends_with(0);
    assert_eq!(verdict.report["drivers"][0]["repaired"], true);
    assert_eq!(stage.announcements(), 2);
}

#[test]
fn nothing_is_announced_where_the_memory_cannot_be_written() {
    let stage = lost();
    fs::create_dir(stage.memory()).unwrap();
    stage.verify(&["--repair"]).ends_with(1);
    assert_eq!(stage.announcements(), 1);
}

#[test]
fn a_plain_verify_writes_no_file() {
    let stage = lost();
    stage.verify(&[]).ends_with(1);
    assert!(!stage.memory().exists());
    let lock = stage.scene.node.runtime_dir().join("repairs.lock");
    assert!(!lock.exists());
}
