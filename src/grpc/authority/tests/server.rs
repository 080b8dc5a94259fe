//! The server's end: it compares what it reads with what the client sent, frame by frame, without the
//! code under test.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, ReadBuf};

use super::client::{CONTINUATION, END_HEADERS, HEADERS, PADDED, PREFACE, PRIORITY};
use super::hpack::{Decoder, Rule, Seen};
use crate::grpc::authority::{AuthorityReader, CHUNK};
use crate::grpc::frame::{HEAD_LEN, MAX_PAYLOAD};

/// A vector may have twice the capacity that it needs.
const MAX_BUFFERED: usize = 2 * (HEAD_LEN + MAX_PAYLOAD + CHUNK);

/// A client whose bytes arrive in pieces: the nth read gets so many of them.
struct Pieces<'a, F> {
    rest: &'a [u8],
    n: usize,
    length: F,
}

impl<F: Fn(usize) -> usize + Unpin> AsyncRead for Pieces<'_, F> {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let length = (this.length)(this.n).min(buf.remaining());
        let (piece, rest) = this.rest.split_at(length.min(this.rest.len()));
        buf.put_slice(piece);
        this.rest = rest;
        this.n += 1;
        Poll::Ready(Ok(()))
    }
}

/// All that the server reads of these bytes, if they arrive in pieces of these lengths.
pub(super) fn adapt(input: &[u8], length: impl Fn(usize) -> usize + Unpin) -> Vec<u8> {
    let mut reader = AuthorityReader::new(Pieces {
        rest: input,
        n: 0,
        length,
    });
    let mut context = Context::from_waker(Waker::noop());
    let mut output = Vec::new();
    loop {
        let mut some = [0; 10_000];
        let mut some = ReadBuf::new(&mut some);
        let read = Pin::new(&mut reader).poll_read(&mut context, &mut some);
        assert!(matches!(read, Poll::Ready(Ok(()))));
        assert!(reader.buffer.capacity() <= MAX_BUFFERED);
        output.extend_from_slice(some.filled());
        if some.filled().is_empty() {
            return output;
        }
    }
}

/// Kind, flags, stream and payload.
type Frame<'a> = (u8, u8, u32, &'a [u8]);

/// The first frame, with what follows it; none while it is not whole.
pub(super) fn split_frame(bytes: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<9>()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let (payload, rest) = rest.split_at_checked(length)?;
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some(((head[3], head[4], stream, payload), rest))
}

/// A HEADERS payload: what is in front of the block, the block, and the padding.
fn parts(flags: u8, payload: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let is_padded = flags & PADDED != 0;
    let padding = if is_padded { *payload.first()? } else { 0 };
    let front = usize::from(is_padded) + if flags & PRIORITY == 0 { 0 } else { 5 };
    let end = payload.len().checked_sub(usize::from(padding))?;
    let (rest, padding) = payload.split_at(end);
    let (front, block) = rest.split_at_checked(front)?;
    Some((front, block, padding))
}

/// The blocks that the server decodes.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    pub(super) lists: Vec<Vec<(String, String)>>,
    /// The decoder refused the last block, or a frame of it.
    pub(super) ended: bool,
}

/// Asserts that the server gets each frame as it was sent, but for `x` in `:authority`.
///
/// A connection ends at a block that cannot be decoded: after it only the frames are compared.
#[track_caller]
pub(super) fn compare(input: &[u8], output: &[u8]) -> Blocks {
    let mut blocks = Blocks::default();
    let (mut client, mut server) = (Decoder::new(), Decoder::new());
    // The block of HEADERS without END_HEADERS.
    let mut open: Option<(u32, Vec<u8>)> = None;
    let preface = PREFACE.len().min(input.len());
    assert_eq!(input[..preface], output[..preface], "the preface");
    let (mut sent, mut seen) = (&input[preface..], &output[preface..]);
    while let Some((frame, rest)) = split_frame(sent) {
        let (kind, flags, stream, payload) = frame;
        let (got, after) = split_frame(seen).expect("as many frames");
        (sent, seen) = (rest, after);
        assert_eq!((kind, flags, stream), (got.0, got.1, got.2), "a head");
        let is_whole = kind == HEADERS && flags & END_HEADERS != 0 && payload.len() <= 16_384;
        let both = parts(flags, payload).zip(parts(flags, got.3));
        if !is_whole || both.is_none() {
            assert_eq!(payload, got.3, "a payload");
        }
        if blocks.ended {
            continue;
        }
        let (rule, sent_block, seen_block) = match (kind, both, open.take()) {
            (HEADERS, Some(((front, block, padding), got)), None) => {
                assert_eq!((front, padding), (got.0, got.2), "around a block");
                if flags & END_HEADERS == 0 {
                    open = Some((stream, block.to_vec()));
                    continue;
                }
                let rule = if is_whole {
                    Rule::Patched
                } else {
                    Rule::AsItIs
                };
                (rule, block.to_vec(), got.1.to_vec())
            }
            (CONTINUATION, _, Some((of, mut block))) if of == stream => {
                block.extend(payload);
                if flags & END_HEADERS == 0 {
                    open = Some((of, block));
                    continue;
                }
                (Rule::AsItIs, block.clone(), block)
            }
            (HEADERS | CONTINUATION, ..) | (_, _, Some(_)) => {
                blocks.ended = true;
                continue;
            }
            _ => continue,
        };
        let Ok(wanted) = client.decode(&sent_block, rule) else {
            blocks.ended = true;
            continue;
        };
        let list = server.decode(&seen_block, Rule::AsItIs).expect("a block");
        assert_eq!(shown(&list), shown(&wanted), "a list");
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        let list = list
            .iter()
            .map(|field| (text(&field.name), text(&field.seen)));
        blocks.lists.push(list.collect());
    }
    assert_eq!(sent, seen, "a frame that is not whole");
    blocks
}

fn shown(list: &[Seen]) -> Vec<(bool, &[u8], &[u8])> {
    list.iter()
        .map(|field| (field.never_indexed, &*field.name, &*field.seen))
        .collect()
}
