//! Command lines of node-driver-registrar, brought into the form that clap reads.
//!
//! Go takes a flag with one dash or two, its value behind `=` or in the next argument, and a
//! boolean without a value. klog's flags are taken out: two of them mean something here.

use std::ffi::OsString;

use crate::os::go_flags::split;

/// Flags of node-driver-registrar that have a value, and ours.
const VALUED: [&str; 14] = [
    "csi-address",
    "kubelet-registration-path",
    "plugin-registration-path",
    "kubelet-registry-dir",
    "http-endpoint",
    "health-port",
    "timeout",
    "connection-timeout",
    "mode",
    "config",
    "runtime-dir",
    "log-level",
    "v",
    "logging-format",
];

/// Booleans of node-driver-registrar.
const SWITCHES: [&str; 2] = ["enable-pprof", "version"];

/// klog's other flags and those of component-base's logging; they may also have `_` for `-`.
const IGNORED: [&str; 12] = [
    "stderrthreshold",
    "vmodule",
    "log-dir",
    "log-file",
    "log-file-max-size",
    "log-backtrace-at",
    "log-flush-frequency",
    "log-json-info-buffer-size",
    "log-text-info-buffer-size",
    "feature-gates",
    "kube-api-qps",
    "kube-api-burst",
];
const IGNORED_SWITCHES: [&str; 9] = [
    "logtostderr",
    "alsologtostderr",
    "skip-headers",
    "skip-log-headers",
    "add-dir-header",
    "one-output",
    "log-json-split-stream",
    "log-text-split-stream",
    "automaxprocs",
];

/// A command line for clap, and what of it has no effect.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Spelled {
    pub(crate) arguments: Vec<OsString>,
    pub(crate) ignored: Vec<String>,
}

/// Rewrites the command line of `run`, with or without that word. Any other is left as it is.
pub(crate) fn respell(arguments: impl IntoIterator<Item = OsString>) -> Spelled {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let Some((program, rest)) = arguments.split_first() else {
        return Spelled::default();
    };
    // What is not UTF-8 is none of these flags; clap has its own words for it.
    let Some(texts) = rest
        .iter()
        .map(|argument| argument.to_str())
        .collect::<Option<Vec<&str>>>()
    else {
        return untouched(arguments);
    };
    let mut spelled = Spelled {
        arguments: vec![program.clone()],
        ignored: Vec::new(),
    };
    let mut flags = Vec::new();
    let mut runs = false;
    let mut asked = None;
    let mut texts = texts.into_iter();
    while let Some(text) = texts.next() {
        let Some((name, value)) = split(text) else {
            if text == "run" && !runs {
                runs = true;
                continue;
            }
            // Another command, or a word too many: clap tells them apart.
            return untouched(arguments);
        };
        let plain = name.replace('_', "-");
        let plain = plain.as_str();
        if VALUED.contains(&plain) || IGNORED.contains(&plain) {
            let value = value.or_else(|| texts.next());
            match value {
                Some(value) if VALUED.contains(&plain) => flags.push(format!("--{plain}={value}")),
                Some(_) => spelled.ignored.push(format!("--{name}")),
                None => flags.push(format!("--{plain}")),
            }
        } else if IGNORED_SWITCHES.contains(&plain) {
            spelled.ignored.push(format!("--{name}"));
        } else if SWITCHES.contains(&plain) {
            match (plain, truth(value.unwrap_or("true"))) {
                (_, Some(false)) => {}
                ("version", Some(true)) => asked = Some("--version"),
                (_, Some(true)) => flags.push(format!("--{plain}")),
                // clap refuses it, with the flag and the value.
                (_, None) => flags.push(text.to_owned()),
            }
        } else if matches!(name, "help" | "h") && !runs {
            asked = asked.or(Some("--help"));
        } else if name == "V" && !runs {
            asked = asked.or(Some("--version"));
        } else {
            flags.push(text.to_owned());
        }
    }
    if let Some(asked) = asked {
        spelled.arguments.push(asked.into());
        return spelled;
    }
    spelled.arguments.push("run".into());
    spelled
        .arguments
        .extend(flags.into_iter().map(OsString::from));
    spelled
}

fn untouched(arguments: Vec<OsString>) -> Spelled {
    Spelled {
        arguments,
        ignored: Vec::new(),
    }
}

/// A boolean as Go's strconv.ParseBool has it.
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(line: &str) -> (String, String) {
        let words = line.split_whitespace().map(OsString::from);
        let spelled = respell(std::iter::once("program".into()).chain(words));
        let words = spelled.arguments[1..].iter();
        let words: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
        (words.join(" "), spelled.ignored.join(" "))
    }

    #[test]
    fn one_dash_or_two_and_the_value_where_it_pleases() {
        for line in [
            "--csi-address=/c.sock --timeout=1s",
            "-csi-address=/c.sock -timeout=1s",
            "--csi-address /c.sock -timeout 1s",
            "run --csi-address /c.sock --timeout=1s",
            "-csi-address /c.sock run --timeout=1s",
        ] {
            let expected = "run --csi-address=/c.sock --timeout=1s";
            assert_eq!(spelled(line), (expected.into(), String::new()), "{line}");
        }
    }

    #[test]
    fn booleans_have_a_value_or_none() {
        for (line, expected) in [
            ("--enable-pprof", "run --enable-pprof"),
            ("-enable-pprof=true", "run --enable-pprof"),
            ("--enable-pprof=1 --mode=x", "run --enable-pprof --mode=x"),
            ("--enable-pprof=false", "run"),
            ("--enable-pprof=maybe", "run --enable-pprof=maybe"),
            ("--version", "--version"),
            ("-version=true --csi-address=/x", "--version"),
            ("--version=false", "run"),
            ("--help", "--help"),
            ("run --help", "run --help"),
        ] {
            assert_eq!(spelled(line).0, expected, "{line}");
        }
    }

    #[test]
    fn klogs_flags_are_taken_out_but_for_two() {
        let line = "-v=5 --logtostderr --log_file=/x --stderrthreshold INFO --logging-format json \
                    --log-flush-frequency=5s --skip_headers=true";
        let (left, ignored) = spelled(line);
        assert_eq!(left, "run --v=5 --logging-format=json");
        assert_eq!(
            ignored,
            "--logtostderr --log_file --stderrthreshold --log-flush-frequency --skip_headers"
        );
    }

    #[test]
    fn other_commands_are_left_as_they_are() {
        for line in [
            "status --json",
            "wait --timeout 1s",
            "--config /x check",
            "x -v",
        ] {
            let (left, _) = spelled(line);
            let same = left == line || left == format!("run {line}");
            assert!(same, "{left}");
        }
        assert_eq!(spelled("").0, "run");
        assert_eq!(spelled("-V").0, "--version");
    }
}
