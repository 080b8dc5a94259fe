//! Which layer wins, and what each value says about where it came from.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;

use super::*;
use crate::config::{
    Key, Listen, LogLevel, LogTarget, OnStop, Origin, Provenance, RootDir, Settings,
};

fn level(bench: &Bench) -> LogLevel {
    bench.load().settings.log.level
}

fn provenance(bench: &Bench, parts: &[&str]) -> String {
    let entries = bench.load().provenance();
    let entry = entries
        .into_iter()
        .find(|entry| entry.key == Key::of(parts))
        .unwrap();
    entry
        .provenance
        .to_string()
        .replace(bench.dir.path().to_str().unwrap(), "DIR")
}

#[test]
fn a_missing_default_file_gives_the_built_in_defaults() {
    assert_eq!(Bench::new().load().settings, Settings::default());
}

#[test]
fn a_missing_default_file_leaves_its_drop_ins_in_force() {
    let bench = Bench::new().file("config.d/10.toml", "log.level = 'debug'");
    assert_eq!(level(&bench), LogLevel::Debug);
}

#[test]
fn each_layer_wins_over_those_before_it() {
    let key = ["log", "level"];
    let bench = Bench::new();
    assert_eq!(level(&bench), LogLevel::Info);
    assert_eq!(provenance(&bench, &key), "built-in default");
    let bench = bench.file("config.toml", "[log]\nlevel = 'error'");
    assert_eq!(level(&bench), LogLevel::Error);
    assert_eq!(provenance(&bench, &key), "from DIR/config.toml");
    let bench = bench.file("config.d/50-log.toml", "[log]\nlevel = 'warn'");
    assert_eq!(level(&bench), LogLevel::Warn);
    assert_eq!(provenance(&bench, &key), "from DIR/config.d/50-log.toml");
    let bench = bench.variable("NSDR_LOG__LEVEL", "debug");
    assert_eq!(level(&bench), LogLevel::Debug);
    assert_eq!(
        provenance(&bench, &key),
        "from environment variable NSDR_LOG__LEVEL"
    );
    let bench = bench.flag("--log-level", &key, "trace");
    assert_eq!(level(&bench), LogLevel::Trace);
    assert_eq!(provenance(&bench, &key), "from flag --log-level");
}

#[test]
fn drop_ins_count_in_byte_order_of_their_names() {
    let bench = Bench::new()
        .file("config.d/9.toml", "log.level = 'warn'")
        .file("config.d/10.toml", "log.level = 'debug'")
        .file("config.d/Z.toml", "service.on_stop = 'keep'")
        .file("config.d/a.toml", "service.on_stop = 'withdraw'");
    let settings = bench.load().settings;
    assert_eq!(settings.log.level, LogLevel::Warn, "9 comes after 10");
    assert_eq!(
        settings.service.on_stop,
        OnStop::Withdraw,
        "a comes after Z"
    );
}

#[test]
fn only_visible_toml_files_are_drop_ins() {
    let bench = Bench::new()
        .file("config.d/.hidden.toml", "rubbish")
        .file("config.d/a.toml~", "rubbish")
        .file("config.d/b.toml.rpmsave", "rubbish")
        .file("config.d/dir.toml/inside.toml", "rubbish")
        .file("elsewhere", "log.level = 'debug'");
    symlink("/dev/null", bench.path("config.d/masked.toml")).unwrap();
    symlink(bench.path("elsewhere"), bench.path("config.d/link.toml")).unwrap();
    assert_eq!(level(&bench), LogLevel::Debug, "a link to a file counts");
    let loaded = bench.load();
    assert_eq!(loaded.files, [bench.path("config.d/link.toml")]);
    let dir = format!("{}/", bench.dir.path().display());
    let passed_over = loaded.passed_over.iter().map(|line| line.replace(&dir, ""));
    assert_eq!(
        passed_over.collect::<Vec<_>>(),
        [
            "config.toml: does not exist",
            "config.d/.hidden.toml: hidden, because its name starts with a dot",
            "config.d/a.toml~: not *.toml, but the backup of an editor",
            "config.d/b.toml.rpmsave: not *.toml",
            "config.d/dir.toml: a directory",
            "config.d/masked.toml: masked by a link to a device",
        ]
    );
}

#[test]
fn a_drop_in_adds_to_a_drivers_table_and_replaces_a_list() {
    let bench = Bench::with(
        "[drivers.'a.b.c']\nrequire_probe = true\nsupported_versions = ['1.0.0', '1.1.0']",
    )
    .file(
        "config.d/1.toml",
        "[drivers.'a.b.c']\nsupported_versions = ['1.2.0']",
    );
    let driver = bench.load().settings.driver("a.b.c");
    assert!(driver.require_probe);
    assert_eq!(driver.supported_versions, ["1.2.0"]);
    let place = |key| provenance(&bench, &["drivers", "a.b.c", key]);
    assert_eq!(place("require_probe"), "from DIR/config.toml");
    assert_eq!(place("supported_versions"), "from DIR/config.d/1.toml");
}

#[test]
fn a_named_file_replaces_the_default_one_and_its_drop_ins() {
    let mut bench = Bench::with("rubbish")
        .file("config.d/1.toml", "rubbish")
        .file("mine/my.toml", "log.level = 'warn'")
        .file("mine/config.d/1.toml", "log.target = 'json'");
    bench.sources.config = Some(bench.path("mine/my.toml"));
    let log = bench.load().settings.log;
    assert_eq!((log.level, log.target), (LogLevel::Warn, LogTarget::Json));
}

#[test]
fn without_a_default_file_no_file_is_read() {
    let mut bench = Bench::with("rubbish").file("config.d/1.toml", "rubbish");
    bench.sources.default_config = None;
    assert_eq!(bench.load().settings, Settings::default());
}

#[test]
fn variables_have_the_types_of_their_keys() {
    let bench = Bench::new()
        .variable("PATH", "/bin")
        .variable("NSDR_PLUGINS_DIR", "/p,[q]")
        .variable("NSDR_DEFAULTS__REQUIRE_PROBE", "true")
        .variable("NSDR_DEFAULTS__WITHDRAW_AFTER", "1h30m")
        .variable("NSDR_DISCOVERY__EXCLUDE", "[a.*, b]")
        .variable("NSDR_KUBELET__ROOT_DIR", "/k")
        .variable("NSDR_HTTP__LISTEN", "[::1]:80");
    let settings = bench.load().settings;
    assert_eq!(settings.plugins_dir, PathBuf::from("/p,[q]"));
    assert!(settings.defaults.require_probe);
    assert_eq!(settings.defaults.withdraw_after.unwrap().as_secs(), 5400);
    assert_eq!(settings.discovery.exclude, ["a.*", "b"]);
    assert_eq!(
        settings.kubelet.root_dir,
        RootDir::Path(PathBuf::from("/k"))
    );
    assert_eq!(
        settings.http.listen,
        Some(Listen::Tcp("[::1]:80".parse().unwrap()))
    );
}

#[test]
fn an_empty_variable_is_an_empty_string() {
    let bench = Bench::with("http.listen = '[::1]:80'").variable("NSDR_HTTP__LISTEN", "");
    assert_eq!(bench.load().settings.http.listen, None);
}

#[test]
fn a_file_from_another_system_is_read_all_the_same() {
    assert_eq!(
        level(&Bench::with("\u{feff}[log]\r\nlevel = 'warn'\r\n")),
        LogLevel::Warn
    );
}

#[test]
fn variables_of_others_may_hold_anything() {
    let bench = Bench::new().variable("OTHER", OsString::from_vec(vec![0xff]));
    assert_eq!(bench.load().settings, Settings::default());
}

#[test]
fn a_flag_may_set_a_driver_and_several_keys() {
    let bench = Bench::new()
        .flag(
            "--plugin-registration-path",
            &["registry_dir"],
            "/registration",
        )
        .flag(
            "--plugin-registration-path",
            &["kubelet", "plugins_registry"],
            "/registration",
        )
        .flag(
            "--csi-address",
            &["drivers", "a.b", "csi_socket"],
            "/run/csi/socket",
        );
    let settings = bench.load().settings;
    assert!(settings.layout().one_directory());
    assert_eq!(
        settings.drivers["a.b"].csi_socket,
        PathBuf::from("/run/csi/socket")
    );
    assert_eq!(
        provenance(&bench, &["registry_dir"]),
        "from flag --plugin-registration-path"
    );
}

#[test]
fn a_drivers_values_say_how_they_came_about() {
    let bench = Bench::with("[defaults]\nretry_max = '2s'\n[drivers.'a.b']\nrequire_probe = true")
        .variable("NSDR_DEFAULTS__ON_LIVE_OWNER", "take-over");
    let place = |key| provenance(&bench, &["drivers", "a.b", key]);
    assert_eq!(place("csi_socket"), "derived from plugins_dir and the id");
    assert_eq!(place("endpoint"), "derived from csi_socket");
    assert_eq!(place("name"), "learned from the driver");
    assert_eq!(place("supported_versions"), "built-in default");
    assert_eq!(place("request_timeout"), "built-in default");
    assert_eq!(place("retry_max"), "from [defaults], DIR/config.toml");
    assert_eq!(place("require_probe"), "from DIR/config.toml");
    let variable = "environment variable NSDR_DEFAULTS__ON_LIVE_OWNER";
    assert_eq!(
        place("on_live_owner"),
        format!("from [defaults], {variable}")
    );
    assert_eq!(
        provenance(&bench, &["kubelet", "plugins_registry"]),
        "derived from kubelet.root_dir"
    );
    assert_eq!(
        provenance(&bench, &["kubelet", "sees_registry_as"]),
        "derived from registry_dir"
    );
}

#[test]
fn explains_itself_in_lines_of_toml() {
    let bench =
        Bench::with("[drivers.\"local.csi\"]\nname = 'local.csi'\n[http]\nlisten = '[::1]:1'");
    let text = bench
        .load()
        .explain()
        .replace(bench.dir.path().to_str().unwrap(), "DIR");
    let find = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
    assert_eq!(
        find("plugins_dir")
            .split("  #")
            .map(str::trim)
            .collect::<Vec<_>>(),
        [
            "plugins_dir = \"/vdata/storage/plugins\"",
            "built-in default"
        ]
    );
    assert_eq!(
        find("drivers.\"local.csi\".name")
            .split("  #")
            .map(str::trim)
            .collect::<Vec<_>>(),
        [
            "drivers.\"local.csi\".name = \"local.csi\"",
            "from DIR/config.toml"
        ]
    );
}

#[test]
fn what_it_explains_loads_as_the_same_settings() {
    let bench = Bench::with(
        "plugins_dir = '/a \"b\" #c'
        [defaults]\nretry_max = '90s'\nwithdraw_after = '1h30m'
        [drivers.'a.b']\nname = 'x'\non_live_owner = 'take-over'
        [drivers.'q\"#']\nsupported_versions = ['1.0.0', '1.1.0']
        [http]\nlisten = 'unix:/run/http.sock'\n[kubelet]\nroot_dir = 'auto'",
    );
    let loaded = bench.load();
    let again = Bench::with(&loaded.explain()).load();
    assert_eq!(again.settings, loaded.settings);
}

#[test]
fn the_root_that_was_found_says_so() {
    let bench = Bench::with("kubelet.root_dir = 'auto'");
    let mut loaded = bench.load();
    assert!(loaded.needs_kubelet_root());
    loaded
        .resolve_kubelet_root(PathBuf::from("/var/lib/k0s/kubelet"), "it runs".to_owned())
        .unwrap();
    assert!(!loaded.needs_kubelet_root());
    let entries = loaded.provenance();
    let found = entries
        .iter()
        .find(|e| e.key == Key::of(&["kubelet", "root_dir"]))
        .unwrap();
    assert_eq!(found.value.as_deref(), Some("\"/var/lib/k0s/kubelet\""));
    let file = Origin::File(bench.path("config.toml"));
    assert_eq!(
        found.provenance,
        Provenance::Found(file, "it runs".to_owned())
    );
}
