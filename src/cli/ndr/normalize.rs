//! Command lines of node-driver-registrar, brought into the form that clap reads.
//!
//! Go takes a flag with one dash or two, its value after `=` or in the next argument, and a boolean
//! without a value. klog's flags are left out, except the two that have a meaning here.

use std::ffi::OsString;

use clap::CommandFactory;

use crate::cli::args::Args;
use crate::os::go_flags::split;

/// The other flags of klog and of component-base's logging that have a value. They may be written
/// with `_` in place of `-`.
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
/// The same without a value.
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

/// The command that takes the same flags as `run`.
const IMPORT: &str = "import-ndr";

/// A command line for clap, and the flags that have no effect.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Normalized {
    pub(crate) arguments: Vec<OsString>,
    pub(crate) ignored: Vec<String>,
}

/// Rewrites the command line of `run`, with or without that word, and of `import-ndr`. Any other stays as it
/// is.
pub(crate) fn normalize(arguments: impl IntoIterator<Item = OsString>) -> Normalized {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    normalize_flags(&arguments).unwrap_or(Normalized {
        arguments,
        ignored: Vec::new(),
    })
}

/// None for a command line without these flags, or that is not UTF-8, which clap reports.
fn normalize_flags(arguments: &[OsString]) -> Option<Normalized> {
    let (program, rest) = arguments.split_first()?;
    let rest: Option<Vec<&str>> = rest.iter().map(|text| text.to_str()).collect();
    let command = Args::command();
    let mut ignored = Vec::new();
    let mut flags: Vec<OsString> = Vec::new();
    let mut named = None;
    let mut asked = None;
    let mut rest = rest?.into_iter();
    while let Some(text) = rest.next() {
        let Some((name, value)) = split(text) else {
            match (named, text) {
                (None, "run" | IMPORT) => named = Some(text),
                // The command itself refuses a word.
                (Some(IMPORT), _) => flags.push(text.into()),
                // Another command, or a word too many: clap tells them apart.
                _ => return None,
            }
            continue;
        };
        let plain = name.replace('_', "-");
        let Some(valued) = takes_value(&command, &plain) else {
            match name {
                "help" | "h" if named.is_none() => asked = asked.or(Some("--help")),
                "V" if named.is_none() => asked = asked.or(Some("--version")),
                _ => flags.push(text.into()),
            }
            continue;
        };
        let next = || if valued { rest.next() } else { None };
        match value.or_else(next) {
            // clap reports the missing value.
            None if valued => flags.push(format!("--{plain}").into()),
            _ if is_ignored(&plain) => ignored.push(format!("--{name}")),
            Some(value) if valued => flags.push(format!("--{plain}={value}").into()),
            value => match truth(value.unwrap_or("true")) {
                Some(false) => {}
                Some(true) if plain == "version" => asked = Some("--version"),
                Some(true) => flags.push(format!("--{plain}").into()),
                // clap refuses it, with the flag and the value.
                None => flags.push(text.into()),
            },
        }
    }
    let mut arguments = vec![program.clone()];
    match asked {
        Some(asked) => arguments.push(asked.into()),
        None => {
            arguments.push(named.unwrap_or("run").into());
            arguments.extend(flags);
        }
    }
    Some(Normalized { arguments, ignored })
}

/// Whether a flag takes a value; none for an unknown flag. clap knows the flags of `run` and ours, except
/// `--version`, which it adds only while it parses.
fn takes_value(command: &clap::Command, name: &str) -> Option<bool> {
    let run = command.find_subcommand("run").into_iter();
    let ours = command.get_arguments();
    let mut flags = ours.chain(run.flat_map(clap::Command::get_arguments));
    match flags.find(|flag| flag.get_long() == Some(name)) {
        Some(flag) => Some(flag.get_action().takes_values()),
        None if is_ignored(name) => Some(IGNORED.contains(&name)),
        None => (name == "version").then_some(false),
    }
}

fn is_ignored(name: &str) -> bool {
    IGNORED.contains(&name) || IGNORED_SWITCHES.contains(&name)
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

    fn normal(line: &str) -> (String, String) {
        let words = line.split_whitespace().map(OsString::from);
        let normal = normalize(std::iter::once("program".into()).chain(words));
        let words = normal.arguments[1..].iter();
        let words: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
        (words.join(" "), normal.ignored.join(" "))
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
            assert_eq!(normal(line), (expected.into(), String::new()), "{line}");
        }
    }

    #[test]
    fn the_flags_of_an_import_are_rewritten_and_its_words_stay() {
        for (line, expected) in [
            (
                "import-ndr -csi-address /c --v 5",
                "import-ndr --csi-address=/c --v=5",
            ),
            (
                "import-ndr ndr.service -v=5",
                "import-ndr ndr.service --v=5",
            ),
            ("import-ndr run", "import-ndr run"),
            ("import-ndr --help", "import-ndr --help"),
            ("import-ndr", "import-ndr"),
        ] {
            assert_eq!(normal(line), (expected.into(), String::new()), "{line}");
        }
        let (left, ignored) = normal("import-ndr --logtostderr --csi-address=/c");
        assert_eq!(
            (&*left, &*ignored),
            ("import-ndr --csi-address=/c", "--logtostderr")
        );
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
            assert_eq!(normal(line).0, expected, "{line}");
        }
    }

    #[test]
    fn klogs_flags_are_taken_out_but_for_two() {
        let line = "-v=5 --logtostderr --log_file=/x --stderrthreshold INFO --logging-format json \
                    --log-flush-frequency=5s --skip_headers=true";
        let (left, ignored) = normal(line);
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
            let (left, _) = normal(line);
            let same = left == line || left == format!("run {line}");
            assert!(same, "{left}");
        }
        assert_eq!(normal("").0, "run");
        assert_eq!(normal("-V").0, "--version");
    }
}
