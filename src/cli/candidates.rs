//! `complete-drivers`: the drivers that complete a command line. The scripts of the shells call it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, Command};
use tokio::time::timeout;

use super::exit::Exit;
use super::render::put;
use crate::api::control::Client;
use crate::disk::name::DriverName;
use crate::disk::runtime_dir::{control_socket, locate};
use crate::grpc::proto::control::Status;

/// How long a user waits for the completion at most, where a daemon hangs.
const PATIENCE: Duration = Duration::from_millis(500);

/// A command line that ends where a driver is expected.
#[derive(Debug, Default, PartialEq, Eq)]
struct Position {
    runtime_dir: Option<PathBuf>,
}

/// Prints the drivers that can be the last of these words, a line for each. Prints nothing where no
/// driver is expected, or no daemon answers: a completion has no place for an error.
pub(super) async fn complete_drivers(words: &[String]) -> Result<(), Exit> {
    let Some(position) = position(&super::command(), words) else {
        return Ok(());
    };
    let socket = control_socket(&locate(position.runtime_dir.as_deref()));
    let asked = async { Client::connect(&socket).await?.status().await };
    match timeout(PATIENCE, asked).await {
        Ok(Ok(status)) => put(&candidates(&status)).map(drop),
        Ok(Err(_)) | Err(_) => Ok(()),
    }
}

/// The ids of the drivers, and their names. An id is the name of any directory; a shell gets only those
/// that are plain words to it.
fn candidates(status: &Status) -> String {
    let drivers = status.drivers.iter();
    let words = drivers.flat_map(|driver| [Some(&driver.id), driver.name.as_ref()]);
    let plain = words
        .flatten()
        .filter(|word| DriverName::parse(word).is_ok());
    let words: BTreeSet<&String> = plain.collect();
    words.iter().map(|word| format!("{word}\n")).collect()
}

/// Whether the last word is a driver, by the arguments that the commands have.
fn position(program: &Command, words: &[String]) -> Option<Position> {
    let (last, before) = words.split_last()?;
    let mut position = Position::default();
    let mut command = None;
    let mut given = 0;
    let mut words = before.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        if let Some(option) = word.strip_prefix("--") {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            let known = find_option(program, command, name)?;
            if !known.get_action().takes_values() {
                continue;
            }
            // bash hands over `--option=value` as three words. Without a next word, the word at
            // the cursor is the value.
            let value = match value {
                Some(value) => value,
                None => {
                    words.next_if_eq(&"=");
                    words.next()?
                }
            };
            if name == "runtime-dir" {
                position.runtime_dir = Some(value.into());
            }
        } else if word.starts_with('-') {
            continue;
        } else if command.is_none() {
            command = Some(program.find_subcommand(word)?);
        } else {
            given += 1;
        }
    }
    let mut arguments = command?.get_positionals();
    let driver =
        arguments.find(|argument| matches!(argument.get_id().as_str(), "driver" | "drivers"))?;
    let takes_more = given == 0 || matches!(driver.get_action(), ArgAction::Append);
    (takes_more && !last.starts_with('-') && !last.contains(['/', '='])).then_some(position)
}

/// The option of the command, or the global option.
fn find_option<'a>(
    program: &'a Command,
    command: Option<&'a Command>,
    name: &str,
) -> Option<&'a Arg> {
    let own = command.into_iter().flat_map(Command::get_arguments);
    let mut all = own.chain(program.get_arguments());
    all.find(|argument| argument.get_long() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::proto::control::Driver;

    fn at(line: &str) -> Option<Position> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        position(&crate::cli::command(), &words)
    }

    #[test]
    fn a_driver_is_expected_where_a_command_takes_one() {
        for line in [
            "status ",
            "status lo",
            "status --json ",
            "status --json a b ",
            "wait --for ready ",
            "wait --for=ready a ",
            "wait --for = ready ",
            "--config /c wait --timeout 2m ",
            "inspect ",
            "inspect --json nf",
            "inspect --csidriver nf",
            "reannounce ",
            "withdraw ",
            "publish ",
        ] {
            assert_eq!(at(line), Some(Position::default()), "{line:?}");
        }
        for line in [
            "",
            "st",
            "check ",
            "status --",
            "status --jso",
            "wait --for ",
            "wait --for re",
            "wait --for=re",
            "wait --for = ",
            "wait --timeout ",
            "status --config ",
            "status --unknown ",
            "inspect /va",
            "inspect a ",
            "withdraw a ",
            "completions ",
            "nonsense ",
        ] {
            assert_eq!(at(line), None, "{line:?}");
        }
    }

    #[test]
    fn the_daemon_of_the_command_line_is_asked() {
        let position = Position {
            runtime_dir: Some("/r".into()),
        };
        for line in [
            "--runtime-dir /r status ",
            "status --runtime-dir=/r ",
            "status --runtime-dir = /r --json ",
        ] {
            assert_eq!(at(line).as_ref(), Some(&position), "{line:?}");
        }
    }

    #[test]
    fn only_plain_words_reach_a_shell() {
        let driver = |id: &str, name: Option<&str>| Driver {
            id: id.to_owned(),
            name: name.map(str::to_owned),
            ..Driver::default()
        };
        let status = Status {
            drivers: vec![
                driver("nfs", Some("nfs.csi.k8s.io")),
                driver("local.csi", Some("local.csi")),
                driver("$(reboot)", None),
                driver("a b", None),
                driver("a\nb", None),
                driver("-x", None),
            ],
            ..Status::default()
        };
        assert_eq!(candidates(&status), "local.csi\nnfs\nnfs.csi.k8s.io\n");
    }
}
