//! Whatever a file or a variable contains, it is settings that can be written down again, or an
//! error that names the place.

use std::os::unix::ffi::OsStringExt;

use super::*;
use crate::os::fuzz::Fuzz;

const KEYS: &[&str] = &[
    "plugins_dir = ",
    "registry_dir = ",
    "[kubelet]\n",
    "root_dir = \"auto\"\n",
    "sees_registry_as = ",
    "[defaults]\n",
    "request_timeout = \"5s\"\n",
    "node_info_timeout = \"2m\"\n",
    "withdraw_after = \"never\"\n",
    "on_live_owner = ",
    "[drivers.\"a.b\"]\n",
    "csi_socket = ",
    "name = ",
    "supported_versions = [\"1.0.0\"]\n",
    "[discovery]\n",
    "exclude = [\"*\"]\n",
    "[http]\n",
    "listen = \"unix:/x\"\n",
    "listen = \"127.0.0.1:1\"\n",
    "[service]\n",
    "\"/a/../b\"",
    "\"\"\"",
    "'''",
    "1e400",
    "0xffff",
    "1979-05-27T07:32:00Z",
    "\\u001b[2J",
    "\u{202e}",
];

const VARIABLES: &[&str] = &[
    "NSDR_",
    "\nNSDR_KUBELET__ROOT_DIR=",
    "\nNSDR_HTTP__LISTEN=",
    "\nNSDR_DISCOVERY__EXCLUDE=[a, b]",
    "\nNSDR_DEFAULTS__RETRY_MAX=",
    "\nNSDR_DRIVERS__A__NAME=",
    "\nNSDR_LOG__LEVEL=",
    "__",
    "[[",
    "{a=",
    "'",
    "5s",
];

#[test]
fn no_file_is_half_right() {
    let bench = Bench::new();
    Fuzz::new("config", KEYS).short(|input| of_file(&bench, input));
}

#[test]
#[ignore = "the long run"]
fn no_file_is_half_right_for_long() {
    let bench = Bench::new();
    Fuzz::new("config", KEYS).long(|input| of_file(&bench, input));
}

#[test]
fn no_variable_is_half_right() {
    let mut bench = Bench::new();
    Fuzz::new("environment", VARIABLES).short(|input| of_variables(&mut bench, input));
}

#[test]
#[ignore = "the long run"]
fn no_variable_is_half_right_for_long() {
    let mut bench = Bench::new();
    Fuzz::new("environment", VARIABLES).long(|input| of_variables(&mut bench, input));
}

fn of_file(bench: &Bench, input: &[u8]) -> String {
    fs::write(bench.path("config.toml"), input).unwrap();
    check(bench, bench.path("config.toml").to_str().unwrap())
}

/// A variable on each line.
fn of_variables(bench: &mut Bench, input: &[u8]) -> String {
    let variable = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b'=')?;
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((text(&line[..at]), text(&line[at + 1..])))
    };
    bench.sources.environment = input.split(|b| *b == b'\n').filter_map(variable).collect();
    check(bench, "NSDR_")
}

/// The outcome: what was wrong, without the values that differ from one input to the next.
fn check(bench: &Bench, place: &str) -> String {
    match bench.try_load() {
        Ok(loaded) => {
            let words = loaded.warnings.concat();
            assert!(
                !words.contains(char::is_control),
                "garbles a terminal: {words:?}"
            );
            let explained = loaded.explain();
            let again = Sources {
                config: Some(bench.path("again.toml")),
                environment: Vec::new(),
                ..bench.sources.clone()
            };
            fs::write(bench.path("again.toml"), &explained).unwrap();
            let again = load(&again);
            let again = again.unwrap_or_else(|error| panic!("{error}\n{explained}"));
            assert_eq!(again.settings, loaded.settings, "{explained}");
            assert!(loaded.settings.kubelet.plugins_registry.is_absolute());
            for (id, driver) in &loaded.settings.drivers {
                assert!(!id.contains('/') && id != ".." && driver.csi_socket.is_absolute());
            }
            format!("{}", loaded.settings.drivers.len().min(3))
        }
        Err(error) => {
            let words = error.to_string();
            assert!(words.contains(place), "names no place: {words}");
            let garbles = |c: char| c.is_control() && c != '\n';
            assert!(!words.contains(garbles), "garbles a terminal: {words:?}");
            let outside = words.split('"').step_by(2);
            let outside = outside
                .flat_map(|text| text.chars())
                .filter(|c| c.is_ascii_lowercase());
            outside.take(120).collect()
        }
    }
}
