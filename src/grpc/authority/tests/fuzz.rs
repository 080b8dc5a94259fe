//! Fuzzes the adapter: the server sees complete frames, `localhost` for every `:authority`, and all
//! other bytes as the client sent them.

use super::client::{CONTINUATION, END_HEADERS, HEADERS, PADDED, PREFACE, PRIORITY};
use super::server::take_string;
use crate::grpc::authority::block::MAX_BLOCK;
use crate::grpc::authority::malformed::Malformed;
use crate::grpc::authority::rewriter::{ENOUGH_OUTPUT, Rewriter};
use crate::grpc::frame::MAX_PAYLOAD;
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

fn check(input: &[u8]) -> (usize, usize, String) {
    let (output, fault) = feed(input, |_| usize::MAX);
    let seed = hash(&input);
    let cut = feed(input, |n| 1 + ((seed >> (n % 48)) & 0x3f) as usize);
    assert_eq!(cut, (output.clone(), fault), "cutting changes the output");

    let seen = Frames::of(&output);
    let sent = Frames::of(input);
    assert_eq!(seen.rest_of_preface, 0, "only a part of the preface");
    match fault {
        // An incomplete last frame passes as far as it came, unless it belongs to a header block.
        None => assert_eq!(seen.others, sent.others, "a frame has changed"),
        Some(_) => assert!(sent.others.starts_with(&seen.others), "a frame has changed"),
    }
    for block in &seen.blocks {
        check_block(block);
    }
    let fault = fault.map_or(String::new(), |fault| kind(&fault));
    (seen.blocks.len().min(4), seen.frames.min(4), fault)
}

/// Everything that comes out, with the fault if one was found. `piece` says how long the nth cut is.
fn feed(input: &[u8], piece: impl Fn(usize) -> usize) -> (Vec<u8>, Option<Malformed>) {
    let mut rewriter = Rewriter::new();
    let (mut all, mut rest, mut n) = (Vec::new(), input, 0);
    while !rest.is_empty() {
        let (mut next, after) = rest.split_at(piece(n).min(rest.len()));
        (rest, n) = (after, n + 1);
        while !next.is_empty() {
            let mut output = Vec::new();
            let fed = rewriter.feed(next, &mut output);
            // The output of a call: up to the limit, and a frame or piece beyond it.
            assert!(output.len() < ENOUGH_OUTPUT + MAX_PAYLOAD + next.len() + 100);
            // A vector may have twice the capacity that it needs.
            assert!(rewriter.held() <= 2 * (MAX_PAYLOAD + MAX_BLOCK));
            all.extend(output);
            match fed {
                Ok(taken) => next = &next[taken..],
                Err(fault) => {
                    assert_eq!(rewriter.feed(b"x", &mut Vec::new()), Err(fault));
                    return (all, Some(fault));
                }
            }
        }
    }
    (all, None)
}

/// A connection, parsed without the code under test.
#[derive(Default)]
struct Frames<'a> {
    /// Bytes where the preface should be that are not its beginning.
    rest_of_preface: usize,
    frames: usize,
    /// HEADERS: flags and payload.
    blocks: Vec<(u8, &'a [u8])>,
    /// Every byte of other frames, heads included; the last may be cut short.
    others: Vec<u8>,
}

impl Frames<'_> {
    fn of(bytes: &[u8]) -> Frames<'_> {
        let mut frames = Frames::default();
        let Some(mut rest) = bytes.strip_prefix(PREFACE) else {
            if !PREFACE.starts_with(bytes) {
                frames.rest_of_preface = bytes.len();
            }
            return frames;
        };
        while let Some(head) = rest.first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let end = rest.len().min(9 + length);
            let is_header = matches!(head[3], HEADERS | CONTINUATION);
            if is_header && end == 9 + length {
                frames.blocks.push((head[4], &rest[9..]));
                let last = frames.blocks.last_mut().expect("pushed just now");
                last.1 = &rest[9..end];
            } else if !is_header {
                frames.others.extend(&rest[..end]);
            }
            frames.frames += 1;
            rest = &rest[end..];
        }
        frames
    }
}

/// A single frame for each block, plain literals only, and no other authority.
fn check_block(&(flags, payload): &(u8, &[u8])) {
    assert!(payload.len() <= MAX_PAYLOAD);
    assert_eq!(flags & PADDED, 0, "padding is gone");
    assert_ne!(flags & END_HEADERS, 0, "one frame a block");
    let skipped = if flags & PRIORITY == 0 { 0 } else { 5 };
    let mut rest = &payload[skipped..];
    while let [lead, after @ ..] = rest {
        assert!(matches!(lead, 0x00 | 0x10), "a plain literal: {lead:#x}");
        rest = after;
        let name = take_string(&mut rest);
        let value = take_string(&mut rest);
        assert!(name != b":authority" || value == b"localhost");
    }
}

/// The name of a fault, without the details of the input.
fn kind(fault: &Malformed) -> String {
    let whole = format!("{fault:?}");
    let name = whole.split(['{', ' ']).next();
    name.unwrap_or_default().to_owned()
}
