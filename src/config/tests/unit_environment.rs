//! The files that the unit takes its variables from.

use std::os::unix::fs::symlink;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;
use crate::config::{LogLevel, LogTarget, UNIT_ENVIRONMENT};

/// With two such files, as far as they are given.
fn bench(first: Option<&str>, second: Option<&str>) -> Bench {
    let mut bench = Bench::new();
    for (name, text) in [("default", first), ("sysconfig", second)] {
        bench.sources.environment_files.push(bench.path(name));
        if let Some(text) = text {
            bench = bench.file(name, text);
        }
    }
    bench
}

/// Of the first file.
#[track_caller]
fn warns(bench: &Bench, why: &str) {
    let expected = format!(
        "{}: its variables are ignored: {why}",
        bench.path("default").display()
    );
    assert_eq!(bench.load().warnings, [expected]);
}

fn level(bench: &Bench) -> LogLevel {
    bench.load().settings.log.level
}

#[test]
fn are_those_of_the_shipped_unit_in_its_order() {
    let unit = include_str!("../../../systemd/node-storage-driver-registrar.service");
    let named = unit
        .lines()
        .filter_map(|line| line.strip_prefix("EnvironmentFile=-"));
    assert_eq!(named.collect::<Vec<_>>(), UNIT_ENVIRONMENT);
}

#[test]
fn are_listed_as_read_and_beside_a_named_file_as_passed_over() {
    let mut bench = bench(Some(""), None).file("mine.toml", "");
    assert_eq!(bench.load().files, [bench.path("default")]);
    bench.sources.config = Some(bench.path("mine.toml"));
    let loaded = bench.load();
    assert_eq!(loaded.files, [bench.path("mine.toml")]);
    let file = bench.path("default").display().to_string();
    assert_eq!(
        loaded.passed_over,
        [format!(
            "{file}: belongs to the unit, and does not count with --config"
        )]
    );
}

#[test]
fn win_over_files_in_their_order_and_lose_against_the_environment_and_flags() {
    assert_eq!(level(&bench(None, None)), LogLevel::Info);
    let set = |level: &str| format!("NSDR_LOG__LEVEL={level}\n");
    let both = bench(Some(&set("warn")), Some(&set("debug")));
    assert_eq!(level(&both), LogLevel::Debug);
    let both = both.file("config.toml", "log.level = 'error'");
    assert_eq!(level(&both), LogLevel::Debug);
    let both = both.variable("NSDR_LOG__LEVEL", "trace");
    assert_eq!(level(&both), LogLevel::Trace);
    let both = both.flag("--log-level", &["log", "level"], "info");
    assert_eq!(level(&both), LogLevel::Info);
}

#[test]
fn are_not_read_with_a_configuration_that_is_named() {
    let mut bench = bench(Some("NSDR_LOG__LEVEL=debug"), None).file("mine.toml", "");
    bench.sources.config = Some(bench.path("mine.toml"));
    assert_eq!(level(&bench), LogLevel::Info);
}

#[test]
fn are_named_where_a_value_or_a_fault_comes_from_them() {
    let well = bench(
        None,
        Some("NSDR_LOG__LEVEL=debug\nNSDR_PORT=tcp://10.0.0.1:80"),
    );
    let from = format!(
        "# from {} (NSDR_LOG__LEVEL)",
        well.path("sysconfig").display()
    );
    let said = well.load().explain();
    assert!(said.contains(&from), "{said}");
    for (text, fault) in [
        (
            "NSDR_LOG__LEVEL=loud",
            "DIR/default (NSDR_LOG__LEVEL): log.level = \"loud\": must be ",
        ),
        (
            "NSDR_LOG_LEVEL=info",
            "DIR/default (NSDR_LOG_LEVEL): log_level = \"info\": \
             unknown key, did you mean NSDR_LOG__LEVEL?",
        ),
        (
            "NSDR_DRIVERS__A=1",
            "DIR/default (NSDR_DRIVERS__A) = \"1\": a driver cannot be set by the environment",
        ),
    ] {
        let told = bench(Some(text), None).fault();
        assert!(told.starts_with(fault), "{told}");
    }
    // systemd then ignores the whole file, which no operator wants.
    let bench = bench(None, None).file("default", b"NSDR_LOG__LEVEL=\xff".as_slice());
    assert_eq!(bench.fault(), "DIR/default: line 1, column 17: not UTF-8");
}

#[test]
fn may_have_any_bytes_in_a_comment() {
    let bench = bench(None, None).file(
        "default",
        b"# caf\xe9\nNSDR_LOG__LEVEL=debug\nno assignment \xff\n".as_slice(),
    );
    let loaded = bench.load();
    assert_eq!(loaded.settings.log.level, LogLevel::Debug);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

/// As systemd does it.
#[test]
fn do_not_count_when_a_foreign_variable_is_not_utf8() {
    let bench = bench(None, Some("NSDR_LOG__TARGET=stderr")).file(
        "default",
        b"NSDR_LOG__LEVEL=debug\n\nCITY=K\xf6ln\n".as_slice(),
    );
    let loaded = bench.load();
    assert_eq!(loaded.settings.log.level, LogLevel::Info);
    assert_eq!(loaded.settings.log.target, LogTarget::Stderr);
    warns(
        &bench,
        "line 3, column 7: not UTF-8, so systemd ignores the file",
    );
}

#[test]
fn are_not_waited_for_where_they_are_no_regular_files() {
    let bench = bench(None, None);
    mkfifo(&bench.path("default"), Mode::S_IRUSR).unwrap();
    warns(&bench, "not a regular file");
}

#[test]
fn are_masked_by_a_link_to_dev_null() {
    let bench = bench(None, None);
    symlink("/dev/null", bench.path("default")).unwrap();
    assert!(bench.load().warnings.is_empty());
}
