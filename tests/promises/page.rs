//! The page: it has every promised name, or leads to the page that has it.

use std::fs;
use std::path::Path;

use crate::list::{SUBJECTS, promised};

const PAGE: &str = "docs/stability.md";

fn read(page: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap()
}

/// A promised line is on the page: its name, in the row that has it where the page is a table of several.
fn is_on(text: &str, subject: &str, rest: &str) -> bool {
    let word = |index: usize| rest.split([' ', ',', ':']).nth(index).unwrap();
    let quoted = |name: &str| {
        let ends = ["`", "=", " ", "{"];
        ends.iter()
            .any(|end| text.contains(&format!("`{name}{end}")))
    };
    let in_row_of = |row: &str, name: &str| {
        let start = format!("| `{row}");
        let mut rows = text.lines().filter(|line| line.starts_with(&start));
        rows.any(|line| line.replace("\\|", "|").contains(name))
    };
    match subject {
        "variable" => text.contains("`NSDR_`"),
        "exit" | "message" | "field" => text.contains(word(0)),
        "command" if rest.starts_with("--") => in_row_of("--config", word(0)),
        "command" if rest.contains(' ') => {
            let last = rest.rsplit_once(" allows ").map_or("", |(_, word)| word);
            in_row_of(word(0), word(1)) && in_row_of(word(0), last)
        }
        "package" | "unit" => {
            let name = if subject == "unit" { word(1) } else { word(0) };
            text.contains(name.split('=').next().unwrap())
        }
        "registry" => quoted(rest.split(' ').nth(3).unwrap()),
        "state.json" | "control.sock" => quoted(subject),
        "notify" => text.contains(rest),
        "http" => quoted(word(0)),
        "key" => {
            let word = rest.rsplit_once(" allows ");
            let is_listed = word.is_none_or(|(_, word)| text.contains(&format!("`\"{word}\"`")));
            quoted(rest.split(" = ").next().unwrap().split(' ').next().unwrap()) && is_listed
        }
        "metric" => quoted(rest.split(['{', ' ']).next().unwrap()),
        _ if subject.starts_with("json:") => {
            let path = rest.rsplit_once(": ").unwrap().0;
            let name = path.rsplit('.').next().unwrap();
            // An element has no name, and the keys of a map are the driver's.
            name == "KEY" || quoted(name.trim_end_matches("[]"))
        }
        _ => quoted(word(0)),
    }
}

#[test]
fn every_promised_name_is_on_the_page_or_on_the_page_that_it_leads_to() {
    let page = read(PAGE);
    for (subject, place) in SUBJECTS {
        let link = format!("]({}", place.strip_prefix("docs/").unwrap());
        let leads_there = place == PAGE || page.contains(&link);
        assert!(leads_there, "{PAGE} does not lead to {place}");
        let text = read(place);
        for (of, rest) in promised() {
            let is_there = of != subject || is_on(&text, subject, &rest);
            assert!(is_there, "{place} does not have: {of} {rest}");
        }
    }
}
