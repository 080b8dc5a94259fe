//! The payload of a HEADERS frame that contains a whole header block (RFC 7541, sections 5 and 6).

use crate::grpc::frame::{Head, PADDED, PRIORITY};

/// The place of `:authority` in the static table.
const AUTHORITY: usize = 1;

/// The stream dependency and weight in front of the block.
const PRIORITY_LEN: usize = 5;

/// `:authority` as a string, plain and in Huffman code.
const NAMES: [Text<'_>; 2] = [
    (false, b":authority"),
    (true, b"\xb8\x3b\x53\x39\xec\x32\x7d\x7f"),
];

/// Whether a string is in Huffman code, and its octets.
type Text<'a> = (bool, &'a [u8]);

/// The payload with `x` for each value of `:authority`, or none if it stays as it is: there is no
/// such value, or it cannot be parsed. It is never longer than before.
pub(super) fn patched(head: Head, payload: &[u8]) -> Option<Vec<u8>> {
    let (mut start, mut end) = (0, payload.len());
    if head.has(PADDED) {
        start += 1;
        end = end.checked_sub(usize::from(*payload.first()?))?;
    }
    if head.has(PRIORITY) {
        start += PRIORITY_LEN;
    }
    let mut rest = payload.get(start..end)?;

    let mut output = Vec::new();
    // The payload up to here is in the output.
    let mut copied = 0;
    while let Some(first) = rest.first() {
        let (prefix, is_literal) = match first {
            0x80.. => (7, false),
            0x40.. => (6, true),
            // A change of the table's size.
            0x20.. => (5, false),
            _ => (4, true),
        };
        let index = take_integer(&mut rest, prefix)?;
        if !is_literal {
            continue;
        }
        let is_authority = match index {
            0 => NAMES.contains(&take_text(&mut rest)?),
            index => index == AUTHORITY,
        };
        let value_start = end - rest.len();
        let (_, value) = take_text(&mut rest)?;
        // An empty value would make a larger entry of the server's table with `x`.
        if is_authority && !value.is_empty() {
            output.extend_from_slice(&payload[copied..value_start]);
            output.extend_from_slice(b"\x01x");
            copied = end - rest.len();
        }
    }
    if copied == 0 {
        return None;
    }
    output.extend_from_slice(&payload[copied..]);
    Some(output)
}

fn take_text<'a>(block: &mut &'a [u8]) -> Option<Text<'a>> {
    let is_huffman = block.first()? & 0x80 != 0;
    let length = take_integer(block, 7)?;
    let (octets, rest) = block.split_at_checked(length)?;
    *block = rest;
    Some((is_huffman, octets))
}

/// Removes an integer whose first octet has `prefix` bits of it. h2, too, reads at most four octets
/// more: 2^28 is far above each length here.
fn take_integer(block: &mut &[u8], prefix: u32) -> Option<usize> {
    let (first, rest) = block.split_first()?;
    *block = rest;
    let mask = (1 << prefix) - 1;
    let mut number = usize::from(first & mask);
    if first & mask < mask {
        return Some(number);
    }
    for shift in [0, 7, 14, 21] {
        let (octet, rest) = block.split_first()?;
        *block = rest;
        number += usize::from(octet & 0x7f) << shift;
        if octet & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
