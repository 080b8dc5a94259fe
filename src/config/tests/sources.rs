//! A fault names the file, variable or flag that it is in.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;

use super::*;

#[test]
fn a_file_that_is_not_toml_says_where() {
    let text = Bench::with("a = 1\n[log]\nlevel = = 'info'\n").fault();
    assert!(
        text.starts_with("DIR/config.toml: line 3, column 9: "),
        "{text}"
    );
    assert!(!text.contains('\n'), "{text}");
    let text = Bench::new().file("config.d/x.toml", "ä = 1").fault();
    assert!(
        text.starts_with("DIR/config.d/x.toml: line 1, column 1: "),
        "{text}"
    );
    let text = Bench::with("[log]\nlevel = 'info'\nlevel = 'warn'").fault();
    assert!(
        text.starts_with("DIR/config.toml: line 3, column 1: duplicate key"),
        "{text}"
    );
}

#[test]
fn a_file_that_is_not_utf_8_says_where() {
    let bench = Bench::new().file("config.toml", b"# ok\n# \xc3\xa4\xff".as_slice());
    assert_eq!(
        bench.fault(),
        "DIR/config.toml: line 2, column 4: not UTF-8"
    );
}

#[test]
fn a_named_file_that_is_missing_is_an_error() {
    let mut bench = Bench::new();
    bench.sources.config = Some(bench.path("mine.toml"));
    assert_eq!(
        bench.fault(),
        "DIR/mine.toml: cannot read the configuration: No such file or directory (os error 2)"
    );
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let bench = Bench::new();
    fs::create_dir(bench.path("config.toml")).unwrap();
    assert_eq!(
        bench.fault(),
        "DIR/config.toml: cannot read the configuration: Is a directory (os error 21)"
    );
    assert_eq!(
        Bench::new().file("config.d", "").fault(),
        "DIR/config.d: cannot read the configuration: Not a directory (os error 20)"
    );
    let bench = Bench::new().file("config.d/a.toml", "");
    symlink("nowhere", bench.path("config.d/b.toml")).unwrap();
    assert_eq!(
        bench.fault(),
        "DIR/config.d/b.toml: cannot read the configuration: No such file or directory (os error 2)"
    );
}

#[test]
fn a_file_without_end_is_an_error() {
    let mut bench = Bench::new();
    bench.sources.config = Some(PathBuf::from("/dev/zero"));
    assert_eq!(bench.fault(), "/dev/zero: larger than 1048576 bytes");
}

#[test]
fn a_fault_in_a_variable_names_the_variable() {
    assert_eq!(
        Bench::new().variable("NSDR_KUBELET__ROOT_DIR", "x").fault(),
        "environment variable NSDR_KUBELET__ROOT_DIR: kubelet.root_dir = \"x\": \
         must be an absolute path or \"auto\""
    );
    assert_eq!(
        Bench::new().variable("NSDR_LOG__LEVEL", "2").fault(),
        "environment variable NSDR_LOG__LEVEL: log.level = 2: must be a string"
    );
}

/// The only warning.
#[track_caller]
fn warning(name: &str, value: impl Into<OsString>) -> String {
    let loaded = Bench::new().variable(name, value).load();
    assert_eq!(loaded.settings, Bench::new().load().settings, "{name}");
    let [only] = &loaded.warnings[..] else {
        panic!("{name}: {:?}", loaded.warnings);
    };
    only.clone()
}

#[test]
fn an_unknown_variable_is_a_warning_with_the_one_that_was_meant() {
    assert_eq!(
        warning("NSDR_KUBELET_ROOT_DIR", "/k"),
        "environment variable NSDR_KUBELET_ROOT_DIR is ignored: it sets no key, \
         did you mean NSDR_KUBELET__ROOT_DIR?"
    );
    assert_eq!(
        warning("NSDR_log__level", "info"),
        "environment variable NSDR_log__level is ignored: it sets no key, \
         did you mean NSDR_LOG__LEVEL?"
    );
    assert_eq!(
        warning("NSDR_PORT", "tcp://10.96.14.2:9809"),
        "environment variable NSDR_PORT is ignored: it sets no key"
    );
    for name in [
        "NSDR_",
        "NSDR___",
        "NSDR_LOG",
        "NSDR_HTTP",
        "NSDR_LOG__",
        "NSDR_LOG__LEVEL__X",
        "NSDR_PORT_9809_TCP_ADDR",
    ] {
        let text = warning(name, "10.96.14.2");
        let place = format!("environment variable {name} is ignored: it sets no key");
        assert!(text.starts_with(&place), "{text}");
        assert!(!text.contains("10.96.14.2"), "shows the value: {text}");
    }
    let not_utf8 = OsString::from_vec(b"in\xffo".to_vec());
    assert!(warning("NSDR_PASSWORD", not_utf8).contains("NSDR_PASSWORD is ignored"));
}

#[test]
fn a_variable_for_a_driver_is_a_warning_that_says_why() {
    for name in ["NSDR_DRIVERS", "NSDR_DRIVERS__X__NAME"] {
        assert_eq!(
            warning(name, "n"),
            format!(
                "environment variable {name} is ignored: a driver cannot be set by the environment, \
                 because its id has dots and a variable's name has none; use a file in config.d"
            )
        );
    }
}

#[test]
fn a_variable_whose_name_is_not_utf_8_is_a_warning() {
    let name = OsString::from_vec(b"NSDR_LOG\xff".to_vec());
    let warnings = Bench::new().variable(name, "info").load().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("environment variable NSDR_LOG\u{fffd} is ignored: "),
        "{warnings:?}"
    );
}

#[test]
fn a_variable_that_is_not_utf_8_is_an_error() {
    let bytes = OsString::from_vec(b"in\xffo".to_vec());
    assert_eq!(
        Bench::new().variable("NSDR_LOG__LEVEL", bytes).fault(),
        "environment variable NSDR_LOG__LEVEL = \"in\u{fffd}o\": not UTF-8"
    );
}

#[test]
fn a_fault_in_a_flag_names_the_flag() {
    assert_eq!(
        Bench::new()
            .flag("--log-level", &["log", "level"], "loud")
            .fault(),
        "flag --log-level: log.level = \"loud\": \
         must be \"error\", \"warn\", \"info\", \"debug\" or \"trace\""
    );
}

#[test]
fn a_fault_is_told_of_the_file_it_is_in_even_when_a_later_one_overrides_it() {
    let bench = Bench::with("log.level = 'loud'").file("config.d/1.toml", "log.level = 'info'");
    assert!(
        bench
            .fault()
            .starts_with("DIR/config.toml: log.level = \"loud\"")
    );
}

#[test]
fn all_faults_are_told_at_once() {
    let bench = Bench::with("plugins_dir = 'p'\nnonsense = 1\n[drivers.'a.b']\nname = '-'")
        .file("config.d/1.toml", "= =")
        .file("config.d/2.toml", "log.level = 1")
        .variable("NSDR_HTTP__LISTEN", "x");
    let text = bench.fault();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "the configuration has 6 errors:");
    assert_eq!(bench.try_load().unwrap_err().0.len(), 6);
    assert_eq!(lines.len(), 7, "{text}");
}

#[test]
fn a_file_full_of_rubbish_is_told_in_few_lines() {
    let text: String = (0..5000).map(|n| format!("key{n} = {n}\n")).collect();
    assert_eq!(Bench::with(&text).try_load().unwrap_err().0.len(), 20);
}
