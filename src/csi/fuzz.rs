//! Fuzzes the answers of a driver: each is an answer within the rules, or a reason that can be
//! shown.

use std::collections::BTreeMap;

use prost::Message;

use super::rules;
use crate::config::Settings;
use crate::disk::socket::SUN_PATH_MAX;
use crate::driver::answer::{Answer, AnswerChange, LONGEST_NODE_ID};
use crate::grpc::proto::csi::{GetPluginInfoResponse, NodeGetInfoResponse};
use crate::os::fuzz::Fuzz;
use crate::os::text::garbles;

/// In an input, between the bytes of GetPluginInfo's answer and those of NodeGetInfo's.
const BORDER: &[u8] = b"|--|";
/// Words in an error, a name of 512 characters included, each escaped as `\u{10ffff}`.
const LONGEST_WORDS: usize = 16 * 1024;

const WORDS: &[&str] = &[
    "|--|",
    "\x0a\x03a.b",
    "\x12\x031.0",
    "\x0a\x02n1",
    "\x10\x08",
    "\x1a\x0c\x0a\x0a\x0a\x04zone\x12\x02z1",
    "../",
    "/",
    "\0",
    "\n",
    "\x1b[2J",
    "\u{202e}",
    "\u{200f}",
    "<script>",
    "\"} 1\n",
    "%s%n",
];

#[test]
fn no_answer_breaks_the_rules() {
    Fuzz::new("answers", WORDS).short(check);
}

#[test]
#[ignore = "the long run"]
fn no_answer_breaks_the_rules_for_long() {
    Fuzz::new("answers", WORDS).long(check);
}

fn check(input: &[u8]) -> String {
    let at = input
        .windows(BORDER.len())
        .position(|found| found == BORDER);
    let at = at.unwrap_or(input.len());
    let node = input.get(at + BORDER.len()..).unwrap_or_default();
    let (Ok(info), Ok(node)) = (
        GetPluginInfoResponse::decode(&input[..at]),
        NodeGetInfoResponse::decode(node),
    ) else {
        return "undecodable".to_owned();
    };
    let known = Answer::check(
        GetPluginInfoResponse {
            name: "a.b".to_owned(),
            ..GetPluginInfoResponse::default()
        },
        NodeGetInfoResponse {
            node_id: "n1".to_owned(),
            ..node.clone()
        },
        None,
    );
    let said = info.name.clone();
    match Answer::check(info, node, None) {
        Ok(answer) => {
            check_answer(&answer, &said);
            if let Ok(known) = known {
                check_change(&known.change_to(&answer));
            }
            let fields = answer.topology.len().min(3);
            format!("{fields} {}", answer.max_volumes > 0)
        }
        Err(error) => {
            let words = error.to_string();
            is_fit_to_show(&words);
            words
                .chars()
                .filter(char::is_ascii_lowercase)
                .take(60)
                .collect()
        }
    }
}

fn check_answer(answer: &Answer, said: &str) {
    let name = answer.name.as_str();
    assert_eq!(name, said, "the name was changed");
    assert!((1..=63).contains(&name.len()), "{name}");
    let mut bytes = name.bytes();
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    assert!(bytes.all(is_inside), "{name}");
    assert!(!name.starts_with(['.', '-']) && !name.ends_with(['.', '-']));
    let layout = Settings::default().layout();
    let socket = layout.socket(&answer.name);
    assert_eq!(socket.parent(), Some(layout.registry_dir()));
    if layout.check(&answer.name).is_ok() {
        assert!(socket.as_os_str().len() <= SUN_PATH_MAX);
    }

    assert!((1..=LONGEST_NODE_ID).contains(&answer.node_id.len()));
    assert!(answer.max_volumes >= 0);
    is_fit_to_show(&answer.vendor_version);
    assert_eq!(answer.change_to(answer), AnswerChange::None);
    let written = serde_json::to_string(answer).unwrap();
    assert_eq!(&serde_json::from_str::<Answer>(&written).unwrap(), answer);
    check_rules(&answer.topology);
}

fn check_rules(topology: &BTreeMap<String, String>) {
    for broken in rules::topology(topology) {
        is_fit_to_show(&broken.what);
    }
}

fn check_change(change: &AnswerChange) {
    if let AnswerChange::Announce(words) | AnswerChange::Collision(words) = change {
        is_fit_to_show(words);
    }
}

#[track_caller]
fn is_fit_to_show(words: &str) {
    assert!(!words.contains(garbles), "garbles a line: {words:?}");
    assert!(words.len() <= LONGEST_WORDS, "{} bytes", words.len());
}
