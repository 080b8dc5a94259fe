//! A fault in a value names the file, the key and the value.

use super::*;

#[track_caller]
fn fault(text: &str, expected: &str) {
    assert_eq!(
        Bench::with(text).fault(),
        format!("DIR/config.toml: {expected}")
    );
}

#[test]
fn an_unknown_key_is_an_error_with_the_key_that_was_meant() {
    fault(
        "plugin_dir = '/p'",
        "plugin_dir = \"/p\": unknown key, did you mean plugins_dir?",
    );
    fault(
        "[kubelet]\nrot_dir = 1",
        "kubelet.rot_dir = 1: unknown key, did you mean kubelet.root_dir?",
    );
    fault(
        "[drivers.'a.b']\ncsi_sock = ''",
        "drivers.\"a.b\".csi_sock = \"\": unknown key, did you mean drivers.\"a.b\".csi_socket?",
    );
    fault("zzz = {a = 1}", "zzz = { a = 1 }: unknown key");
}

#[test]
fn a_key_below_the_wrong_table_is_told_where_it_belongs() {
    fault(
        "[log]\nrequest_timeout = '1s'",
        "log.request_timeout = \"1s\": unknown key, did you mean defaults.request_timeout?",
    );
}

#[test]
fn a_value_of_the_wrong_type_is_an_error() {
    fault("plugins_dir = 5", "plugins_dir = 5: must be a string");
    fault(
        "plugins_dir = 2020-01-02",
        "plugins_dir = 2020-01-02: must be a string",
    );
    fault(
        "discovery.enabled = 'yes'",
        "discovery.enabled = \"yes\": must be true or false",
    );
    fault(
        "discovery.exclude = 'a'",
        "discovery.exclude = \"a\": must be a list of strings",
    );
    fault(
        "discovery.exclude = ['a', 1]",
        "discovery.exclude = [\"a\", 1]: must be a list of strings",
    );
    fault("kubelet = 'x'", "kubelet = \"x\": must be a table");
    fault("kubelet = ['/x']", "kubelet = [\"/x\"]: must be a table");
    fault("drivers = true", "drivers = true: must be a table");
    fault(
        "drivers.a = ['/x']",
        "drivers.\"a\" = [\"/x\"]: must be a table",
    );
    fault("log.level = 2", "log.level = 2: must be a string");
}

#[test]
fn a_number_for_a_duration_gets_the_duration_that_was_meant() {
    let durations = "must be a duration such as \"5s\", \"2m\" or \"1h30m\"";
    for (number, reason) in [
        ("5", format!("{durations}: write \"5s\"")),
        ("1.5", durations.to_owned()),
        ("-1", durations.to_owned()),
        ("0", durations.to_owned()),
        ("true", "must be a string".to_owned()),
    ] {
        for key in ["defaults.request_timeout", "service.ready_timeout"] {
            fault(
                &format!("{key} = {number}"),
                &format!("{key} = {number}: {reason}"),
            );
        }
    }
    fault(
        "drivers.'a.b'.withdraw_after = 30",
        "drivers.\"a.b\".withdraw_after = 30: must be a duration such as \"30m\", or \"never\": \
         write \"30s\"",
    );
    let text = Bench::new()
        .variable("NSDR_DEFAULTS__RETRY_MAX", "7")
        .fault();
    assert!(text.ends_with("write \"7s\""), "{text}");
}

#[test]
fn an_id_that_lacks_its_quotes_is_shown_with_them() {
    let hint = "TOML splits an id without quotes at its dots";
    fault(
        "[drivers.a.b]",
        &format!("drivers.\"a\".b = {{}}: {hint}: write [drivers.\"a.b\"]"),
    );
    fault(
        "[drivers.local.csi.paas.cucloud]\nrequest_timeout = '1s'",
        &format!(
            "drivers.\"local\".csi = {{ paas = {{ cucloud = {{ request_timeout = \"1s\" }} }} }}: \
             {hint}: write [drivers.\"local.csi.paas.cucloud\"]"
        ),
    );
    fault(
        "[drivers.csi.nfs.a]\n[drivers.csi.nfs.b]",
        &format!(
            "drivers.\"csi\".nfs = {{ a = {{}}, b = {{}} }}: {hint}: \
             write [drivers.\"csi.nfs.a\"] and [drivers.\"csi.nfs.b\"]"
        ),
    );
    // A part of the id that is the name of a key.
    fault(
        "[drivers.a.name]",
        &format!("drivers.\"a\".name = {{}}: {hint}: write [drivers.\"a.name\"]"),
    );
    fault("drivers.a.b = 1", "drivers.\"a\".b = 1: unknown key");
}

#[test]
fn a_word_that_is_not_allowed_comes_with_those_that_are() {
    fault(
        "log.level = 'loud'",
        "log.level = \"loud\": must be \"error\", \"warn\", \"info\", \"debug\" or \"trace\"",
    );
    fault(
        "[drivers.'a.b']\non_live_owner = 'fight'",
        "drivers.\"a.b\".on_live_owner = \"fight\": must be \"wait\" or \"take-over\"",
    );
    fault(
        "service.ready_when = 'Started'",
        "service.ready_when = \"Started\": must be \"started\", \"serving\" or \"registered\"",
    );
}

#[test]
fn a_duration_that_cannot_be_meant_is_an_error() {
    let start = "must be a duration such as \"5s\", \"2m\" or \"1h30m\": ";
    let text = Bench::with("defaults.retry_max = '5'").fault();
    assert!(
        text.starts_with(&format!(
            "DIR/config.toml: defaults.retry_max = \"5\": {start}"
        )),
        "{text}"
    );
    let text = Bench::with("defaults.request_timeout = 'never'").fault();
    assert!(
        text.contains(&format!("defaults.request_timeout = \"never\": {start}")),
        "{text}"
    );
    let text = Bench::with("defaults.withdraw_after = 'soon'").fault();
    assert!(
        text.contains(
            "defaults.withdraw_after = \"soon\": must be a duration such as \"30m\", or \"never\""
        ),
        "{text}"
    );
    fault(
        "service.ready_timeout = '0s'",
        "service.ready_timeout = \"0s\": must be at least 1ms",
    );
    fault(
        "defaults.retry_max = '999us'",
        "defaults.retry_max = \"999us\": must be at least 1ms",
    );
    fault(
        "defaults.retry_max = '25h'",
        "defaults.retry_max = \"25h\": must be at most 24 hours",
    );
    fault(
        "defaults.withdraw_after = '0s'",
        "defaults.withdraw_after = \"0s\": must be at least 1ms",
    );
    Bench::with("defaults.withdraw_after = '25h'").load();
}

#[test]
fn a_path_that_is_not_plain_is_an_error() {
    fault(
        "plugins_dir = 'p'",
        "plugins_dir = \"p\": must be an absolute path",
    );
    fault(
        "registry_dir = ''",
        "registry_dir = \"\": must be an absolute path",
    );
    fault(
        "kubelet.root_dir = 'Auto'",
        "kubelet.root_dir = \"Auto\": must be an absolute path or \"auto\"",
    );
    fault(
        "registry_dir = '/a/../b'",
        "registry_dir = \"/a/../b\": must not contain `..`",
    );
    fault(
        "kubelet.sees_registry_as = \"/a\\u0000\"",
        "kubelet.sees_registry_as = \"/a\\u0000\": must not contain a NUL character",
    );
    fault(
        "[drivers.x]\ncsi_socket = 'csi.sock'",
        "drivers.\"x\".csi_socket = \"csi.sock\": must be an absolute path",
    );
    fault(
        "[drivers.x]\nendpoint = '/'",
        "drivers.\"x\".endpoint = \"/\": must name a socket, not the root directory",
    );
    fault(
        "http.listen = 'unix:x'",
        "http.listen = \"unix:x\": must be an absolute path",
    );
}

#[test]
fn a_socket_longer_than_the_kernel_takes_is_an_error() {
    let long = format!("/{}", "x".repeat(107));
    let reason = "has 108 bytes, and the path of a socket has at most 107";
    for key in ["csi_socket", "endpoint"] {
        fault(
            &format!("[drivers.'a.b']\n{key} = '{long}'"),
            &format!("drivers.\"a.b\".{key} = \"{long}\": {reason}"),
        );
    }
    fault(
        &format!("http.listen = 'unix:{long}'"),
        &format!("http.listen = \"unix:{long}\": {reason}"),
    );
    let id = "i".repeat(76);
    fault(
        &format!("[drivers.{id}]"),
        &format!(
            "drivers.\"{id}\".csi_socket = \"/vdata/storage/plugins/{id}/csi.sock\": \
             follows from plugins_dir and the id, and {reason}"
        ),
    );
}

#[test]
fn a_pinned_name_that_does_not_fit_the_registries_is_an_error() {
    let dir = format!("/{}", "d".repeat(89));
    let driver = "[drivers.x]\nname = 'seven77'";
    let message = |path: String, long| {
        format!(
            "drivers.\"x\".name = \"seven77\": the name \"seven77\" is too long: \
             {path} has {long} bytes, and the path of a socket has at most 107"
        )
    };
    Bench::with(&format!("registry_dir = '{dir}'\n{driver}")).load();
    fault(
        &format!("registry_dir = '{dir}d'\n{driver}"),
        &message(format!("{dir}d/seven77-reg.sock"), 108),
    );
    fault(
        &format!("kubelet.plugins_registry = '{dir}d'\n{driver}"),
        &message(format!("{dir}d/seven77-reg.sock"), 108),
    );
    fault(
        &format!("registry_dir = '{dir}'\nkubelet.plugins_registry = '{dir}'\n{driver}"),
        &message(format!("{dir}/.seven77-reg.sock"), 108),
    );
}

#[test]
fn a_registry_too_deep_for_any_name_is_an_error() {
    let dir = format!("/{}", "d".repeat(96));
    fault(
        &format!("registry_dir = '{dir}'"),
        &format!(
            "registry_dir = \"{dir}\": leaves no room for a driver's name: \
             {dir}/x-reg.sock has 108 bytes, and the path of a socket has at most 107"
        ),
    );
    fault(
        &format!("kubelet.root_dir = '{dir}'"),
        &format!(
            "kubelet.root_dir = \"{dir}\": leaves no room for a driver's name: \
             {dir}/plugins_registry/x-reg.sock has 125 bytes, and the path of a socket has at most 107"
        ),
    );
}

#[test]
fn two_drivers_with_one_socket_are_an_error() {
    let bench = Bench::with("[drivers.'a.b']").file(
        "config.d/2.toml",
        "[drivers.other]\ncsi_socket = '/vdata/storage//plugins/a.b/csi.sock'",
    );
    assert_eq!(
        bench.fault(),
        "DIR/config.d/2.toml: drivers.\"other\".csi_socket = \
         \"/vdata/storage/plugins/a.b/csi.sock\": drivers.\"a.b\" has the same csi_socket in DIR/config.toml"
    );
}

#[test]
fn two_drivers_with_one_name_are_an_error() {
    fault(
        "[drivers.a]\nname = 'n'\n[drivers.b]\nname = 'n'",
        "drivers.\"b\".name = \"n\": drivers.\"a\" has the same name in DIR/config.toml",
    );
}

#[test]
fn a_pinned_name_keeps_to_the_rules_of_csi() {
    fault(
        "[drivers.x]\nname = '../x'",
        "drivers.\"x\".name = \"../x\": \
         the name \"../x\" may hold only letters, digits, '-' and '.', and must start and end with a letter or digit",
    );
    fault(
        "[drivers.x]\nname = ''",
        "drivers.\"x\".name = \"\": the name is empty",
    );
}

#[test]
fn an_id_must_do_as_the_name_of_a_directory() {
    fault(
        "[drivers.'']",
        "drivers.\"\" = {}: a driver's id must not be empty",
    );
    let separator =
        "a driver's id must not contain `/` or a NUL character, because it names a directory";
    fault(
        "[drivers.'a/b']",
        &format!("drivers.\"a/b\" = {{}}: {separator}"),
    );
    fault(
        "[drivers.\"a\\u0000\"]",
        &format!("drivers.\"a\\u0000\" = {{}}: {separator}"),
    );
    let dots = "a driver's id must not be `.` or `..`, because it names a directory";
    fault("[drivers.'..']", &format!("drivers.\"..\" = {{}}: {dots}"));
    fault("[drivers.'.']", &format!("drivers.\".\" = {{}}: {dots}"));
}

#[test]
fn lists_must_have_something_to_say() {
    let key = "drivers.\"x\".supported_versions";
    fault(
        "[drivers.x]\nsupported_versions = []",
        &format!("{key} = []: must have at least one version"),
    );
    fault(
        "[drivers.x]\nsupported_versions = ['']",
        &format!("{key} = [\"\"]: must not have an empty entry"),
    );
    fault(
        "discovery.exclude = ['']",
        "discovery.exclude = [\"\"]: must not have an empty entry",
    );
    fault(
        "discovery.exclude = ['a/*']",
        "discovery.exclude = [\"a/*\"]: \"a/*\" contains `/` or NUL, which no driver id has",
    );
    fault(
        "discovery.exclude = ['[ab']",
        "discovery.exclude = [\"[ab\"]: \"[ab\" is not a pattern: invalid range pattern",
    );
    fault(
        "discovery.exclude = ['ok', 'a**b']",
        "discovery.exclude = [\"ok\", \"a**b\"]: \"a**b\" is not a pattern: \
         recursive wildcards must form a single path component",
    );
}

#[test]
fn an_address_without_a_host_or_port_is_an_error() {
    for text in [":9809", "localhost:80", "127.0.0.1", "9809"] {
        fault(
            &format!("http.listen = '{text}'"),
            &format!(
                "http.listen = \"{text}\": must be an address with a port such as \
                 \"127.0.0.1:9809\", \"unix:/path\", or empty"
            ),
        );
    }
}
