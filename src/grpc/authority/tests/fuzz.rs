//! Fuzzes the adapter: whatever a client sends, the server reads the same frames and decodes the same
//! headers, but for `:authority`.

use super::server::{adapt, compare};
use crate::os::fuzz::{Fuzz, hash};

const WORDS: &[&str] = &[
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\0\0\0\x04\0\0\0\0\0",
    "\0\0\x08\x06\0\0\0\0\0nonsense",
    "\0\0\x01\x01\x04\0\0\0\x01",
    "\0\0\x01\x01\0\0\0\0\x01",
    "\0\0\x01\x09\x04\0\0\0\x01",
    "\x01\x09/run/sock",
    "\x41\x01x",
    "\x40\x0a:authority\x02/r",
    "\x3f\x21",
    "\x3f\x7f\x7f\x7f",
];

fn fuzz() -> Fuzz {
    Fuzz::new("authority", WORDS)
}

#[test]
fn no_client_breaks_the_frames() {
    fuzz().short(check);
}

#[test]
#[ignore = "the long run"]
fn no_client_breaks_the_frames_for_long() {
    fuzz().long(check);
}

fn check(input: &[u8]) -> (usize, usize, usize, bool) {
    let output = adapt(input, |_| usize::MAX);
    let seed = hash(&input);
    let cut = adapt(input, move |n| 1 + ((seed >> (n % 48)) & 0x3f) as usize);
    assert_eq!(cut, output, "cutting changes the output");

    let blocks = compare(input, &output);
    let fields = blocks.lists.iter().flatten();
    let replaced = fields.filter(|(name, value)| name == ":authority" && value == "x");
    let (lists, replaced) = (blocks.lists.len(), replaced.count());
    let shorter = input.len() - output.len();
    (lists.min(6), replaced.min(4), shorter.min(40), blocks.ended)
}
