//! docs/performance.md: writes the results between their marks.

use std::fs;
use std::io;
use std::path::Path;

use crate::results::Results;
use crate::rows::growth;
use crate::table::Table;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/performance.md");

/// Puts the results between their marks.
pub(crate) fn write(results: &Results) -> io::Result<()> {
    let mut text = fs::read_to_string(PAGE)?;
    let machine = format!("{}.\n", results.machine.words());
    for (name, measured) in [
        ("machine", machine),
        ("figures", Table::of(&results.lines).markdown()),
        ("growth", growth::markdown(&results.growth)),
    ] {
        text = replace(&text, name, &measured)
            .ok_or_else(|| io::Error::other(format!("{PAGE} has no marks for {name}")))?;
    }
    fs::write(Path::new(PAGE), text)
}

fn replace(text: &str, name: &str, measured: &str) -> Option<String> {
    let begin = format!("<!-- measured: {name} -->\n");
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once("<!-- end -->")?;
    Some(format!("{before}{begin}{measured}<!-- end -->{after}"))
}
