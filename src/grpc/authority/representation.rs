//! A field representation at the start of a header block (RFC 7541, section 6).

use std::borrow::Cow;

use loona_hpack::decoder::{DecoderError, IntegerDecodingError, StringDecodingError};

use super::huffman;
use super::literal::put_string;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Field,
    /// A field that no table may store, because its sender treats it as a secret.
    NeverIndexed,
    SizeUpdate,
}

#[derive(Debug)]
pub(super) struct Representation<'a> {
    pub(super) kind: Kind,
    /// The leading integer: an index into the table, or the table's new size.
    lead: &'a [u8],
    name: Option<Text<'a>>,
    value: Option<Text<'a>>,
}

#[derive(Debug)]
struct Text<'a> {
    huffman: bool,
    octets: &'a [u8],
}

impl<'a> Representation<'a> {
    /// Removes the first representation from `block`.
    pub(super) fn take(block: &mut &'a [u8]) -> Result<Self, DecoderError> {
        let whole = *block;
        let (kind, prefix, literal) = match whole.first() {
            Some(0x80..) => (Kind::Field, 7, false),
            Some(0x40..) => (Kind::Field, 6, true),
            Some(0x20..) => (Kind::SizeUpdate, 5, false),
            Some(0x10..) => (Kind::NeverIndexed, 4, true),
            _ => (Kind::Field, 4, true),
        };
        let number = take_integer(block, prefix)?;
        let lead = &whole[..whole.len() - block.len()];
        let named_here = literal && number == 0;
        let name = named_here.then(|| Text::take(block)).transpose()?;
        let value = literal.then(|| Text::take(block)).transpose()?;
        Ok(Self {
            kind,
            lead,
            name,
            value,
        })
    }

    /// Appends the same representation with its strings in plain octets.
    pub(super) fn put_plain(&self, output: &mut Vec<u8>) -> Result<(), DecoderError> {
        output.extend_from_slice(self.lead);
        for text in [&self.name, &self.value].into_iter().flatten() {
            put_string(output, &text.plain()?);
        }
        Ok(())
    }
}

impl<'a> Text<'a> {
    fn take(block: &mut &'a [u8]) -> Result<Self, DecoderError> {
        let huffman = block.first().is_some_and(|first| first & 0x80 != 0);
        let length = take_integer(block, 7)?;
        let (octets, rest) =
            block
                .split_at_checked(length)
                .ok_or(DecoderError::StringDecodingError(
                    StringDecodingError::NotEnoughOctets,
                ))?;
        *block = rest;
        Ok(Self { huffman, octets })
    }

    fn plain(&self) -> Result<Cow<'a, [u8]>, DecoderError> {
        if self.huffman {
            huffman::decode(self.octets).map(Cow::Owned)
        } else {
            Ok(Cow::Borrowed(self.octets))
        }
    }
}

/// Removes an integer whose first octet has `prefix` bits of it (RFC 7541, section 5.1).
fn take_integer(block: &mut &[u8], prefix: u8) -> Result<usize, DecoderError> {
    // The limit of loona-hpack: 2^28 is far above every limit here, and fits a 32-bit usize.
    const MAX_CONTINUATION_OCTETS: usize = 4;
    let refused = DecoderError::IntegerDecodingError;

    let (first, mut rest) = block
        .split_first()
        .ok_or(refused(IntegerDecodingError::NotEnoughOctets))?;
    let mask = (1 << prefix) - 1;
    let mut number = usize::from(first & mask);
    if number == usize::from(mask) {
        let mut octets = 0;
        loop {
            let (octet, after) = rest
                .split_first()
                .ok_or(refused(IntegerDecodingError::NotEnoughOctets))?;
            rest = after;
            number += usize::from(octet & 0x7f) << (7 * octets);
            octets += 1;
            if octet & 0x80 == 0 {
                break;
            }
            if octets == MAX_CONTINUATION_OCTETS {
                return Err(refused(IntegerDecodingError::TooManyOctets));
            }
        }
    }
    *block = rest;
    Ok(number)
}
