//! The file that is installed.

use std::fs;
use std::path::Path;

use crate::contender::Contender;
use crate::outcome::Outcome;
use crate::rows::growth::MEGABYTE;

/// In ELF for 64 bits, little endian: where the section heads are, how long one is and how many.
const SECTIONS_AT: usize = 0x28;
const SECTION_SIZE: usize = 0x3a;
const SECTION_COUNT: usize = 0x3c;
/// The type that a table of symbols for linkers and debuggers has; `strip` takes it away.
const SYMBOL_TABLE: u32 = 2;

pub(crate) fn measure(contender: &Contender) -> Outcome {
    let file = fs::read(contender.program()).expect("the program can be read");
    match has_symbols(&file) {
        Some(false) => Outcome::of([file.len() as f64 / MEGABYTE]),
        Some(true) => Outcome::senseless("it is not stripped"),
        None => Outcome::Senseless(format!("{} is no ELF", name(contender.program()))),
    }
}

fn name(program: &Path) -> String {
    program
        .file_name()
        .unwrap_or_default()
        .display()
        .to_string()
}

/// None when it is not such a file.
fn has_symbols(file: &[u8]) -> Option<bool> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let start = usize::try_from(number(file, SECTIONS_AT, 8)?).ok()?;
    let size = usize::try_from(number(file, SECTION_SIZE, 2)?).ok()?;
    let count = usize::try_from(number(file, SECTION_COUNT, 2)?).ok()?;
    let mut kinds = (0..count).map(|section| number(file, start + section * size + 4, 4));
    Some(kinds.any(|kind| kind == Some(SYMBOL_TABLE.into())))
}

fn number(file: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let bytes = file.get(at..at + bytes)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    )
}
