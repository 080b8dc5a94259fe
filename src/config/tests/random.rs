//! Whatever a file or a variable contains, the answer is settings or an error.

use std::os::unix::ffi::OsStringExt;

use proptest::prelude::*;

use super::*;

/// Lines that are nearly right, so that more than the parser is reached.
fn line() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        Just("plugins_dir".to_owned()),
        Just("kubelet.root_dir".to_owned()),
        Just("defaults.withdraw_after".to_owned()),
        Just("http.listen".to_owned()),
        Just("discovery.exclude".to_owned()),
        "drivers\\.'[a./\\-]{0,3}'(\\.(name|csi_socket|retry_max))?",
        "___figment_value_(id|value)",
        "[a-z.'\"]{0,8}",
    ];
    let value = prop_oneof![
        "'[^'\n]{0,120}'",
        "\"/[a-z/.\\\\u0]{0,20}\"",
        "-?[0-9]{1,25}(\\.[0-9]+)?",
        "'[0-9]{1,22}(ns|ms|s|h|y)'",
        "\\[{1,90}",
        "\\{ [a-z] = \\[1, 'x'\\] \\}",
        "1979-05-27T07:32:00Z|true|nan|-inf|unix:",
    ];
    (key, value).prop_map(|(key, value)| format!("{key} = {value}"))
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        if let Err(error) = Bench::new().file("config.toml", &bytes).try_load() {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn nearly_right_files_never_panic(lines in proptest::collection::vec(line(), 0..6)) {
        match Bench::with(&lines.join("\n")).try_load() {
            Ok(loaded) => prop_assert!(!loaded.explain().is_empty()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn arbitrary_variables_never_panic(
        key in "(KUBELET__ROOT_DIR|[A-Z_.]{0,12})",
        value: Vec<u8>,
    ) {
        let name = format!("NSDR_{key}");
        let bench = Bench::new().variable(&name, OsString::from_vec(value));
        match bench.try_load() {
            Ok(loaded) => prop_assert!(!loaded.explain().is_empty()),
            Err(error) => prop_assert!(error.to_string().contains(&name)),
        }
    }
}
