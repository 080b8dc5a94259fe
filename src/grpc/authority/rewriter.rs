//! The rewriter of a client's bytes: the same bytes with another `:authority`.
//!
//! It does no I/O. Its output depends on the bytes alone, never on how they were split.
//!
//! Whatever the client sends, a rewriter uses less than 256 KiB: a payload and a block (16 KiB
//! each, up to twice that with the spare capacity of a vector), the dynamic table (4 KiB as HPACK
//! counts, some 24 KiB in memory) and, while it recodes, three copies of a field (26 KiB each if
//! the field was Huffman-coded) and the new block. The most that a fuzzer and hand-made blocks
//! reached was 101 KiB. Between requests only the table remains.

use super::block::Block;
use super::malformed::Malformed;
use super::recoder::Recoder;
use crate::grpc::frame::{
    CONTINUATION, END_HEADERS, END_STREAM, HEAD_LEN, HEADERS, Head, MAX_PAYLOAD, PREFACE, PRIORITY,
};

/// The rewriter takes no more input while this much output waits. A dozen bytes of HPACK can
/// represent 16 KiB of header fields, so a limit on the input does not limit the output.
pub(super) const ENOUGH_OUTPUT: usize = 16_384;

pub(super) struct Rewriter {
    state: Reading,
    recoder: Recoder,
}

/// The part of the stream that the next byte belongs to.
enum Reading {
    Preface {
        matched: usize,
    },
    Head {
        bytes: [u8; HEAD_LEN],
        filled: usize,
        /// A header block that is not complete: a CONTINUATION must follow.
        open: Option<Block>,
    },
    /// The payload of a frame that passes untouched.
    Passing {
        left: usize,
    },
    /// The payload of a HEADERS frame, or of a CONTINUATION of `open`.
    Collecting {
        head: Head,
        payload: Vec<u8>,
        open: Option<Block>,
    },
    Failed(Malformed),
}

impl Rewriter {
    pub(super) fn new() -> Self {
        Self {
            state: Reading::Preface { matched: 0 },
            recoder: Recoder::new(),
        }
    }

    /// Reads `input`, appends the bytes for the server to `output`, and returns how many bytes it
    /// read: all of them, unless `output` reached [`ENOUGH_OUTPUT`].
    ///
    /// On an error `output` contains everything that came before the fault, and every later call
    /// returns the same error.
    pub(super) fn feed(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<usize, Malformed> {
        if let Reading::Failed(malformed) = self.state {
            return Err(malformed);
        }
        let mut rest = input;
        while !rest.is_empty() && output.len() < ENOUGH_OUTPUT {
            let state = std::mem::replace(&mut self.state, Reading::head(None));
            match self.step(state, &mut rest, output) {
                Ok(next) => self.state = next,
                Err(malformed) => {
                    self.state = Reading::Failed(malformed);
                    return Err(malformed);
                }
            }
        }
        Ok(input.len() - rest.len())
    }

    /// Takes at least one byte.
    fn step(
        &mut self,
        state: Reading,
        input: &mut &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Reading, Malformed> {
        match state {
            Reading::Preface { matched } => {
                let expected = &PREFACE[matched..];
                let bytes = take_up_to(input, expected.len());
                let same = expected.iter().zip(bytes).take_while(|(a, b)| a == b);
                let same = same.count();
                output.extend_from_slice(&bytes[..same]);
                if same < bytes.len() {
                    Err(Malformed::Preface)
                } else if same < expected.len() {
                    Ok(Reading::Preface {
                        matched: matched + same,
                    })
                } else {
                    Ok(Reading::head(None))
                }
            }
            Reading::Head {
                mut bytes,
                mut filled,
                open,
            } => {
                let more = take_up_to(input, HEAD_LEN - filled);
                bytes[filled..filled + more.len()].copy_from_slice(more);
                filled += more.len();
                if filled < HEAD_LEN {
                    return Ok(Reading::Head {
                        bytes,
                        filled,
                        open,
                    });
                }
                self.head_arrived(bytes, open, output)
            }
            Reading::Passing { left } => {
                let bytes = take_up_to(input, left);
                output.extend_from_slice(bytes);
                Ok(Reading::passing(left - bytes.len()))
            }
            Reading::Collecting {
                head,
                mut payload,
                open,
            } => {
                payload.extend_from_slice(take_up_to(input, head.length - payload.len()));
                self.collect(head, payload, open, output)
            }
            Reading::Failed(malformed) => Err(malformed),
        }
    }

    fn head_arrived(
        &mut self,
        bytes: [u8; HEAD_LEN],
        open: Option<Block>,
        output: &mut Vec<u8>,
    ) -> Result<Reading, Malformed> {
        let head = Head::parse(bytes);
        if head.length > MAX_PAYLOAD {
            return Err(Malformed::FrameTooLarge {
                length: head.length,
            });
        }
        match (head.kind, &open) {
            (HEADERS, None) if head.stream == 0 => Err(Malformed::HeadersOnStreamZero),
            (CONTINUATION, None) => Err(Malformed::StrayContinuation {
                stream: head.stream,
            }),
            (HEADERS, None) => self.collect(head, Vec::new(), open, output),
            (CONTINUATION, Some(block)) if block.stream == head.stream => {
                self.collect(head, Vec::new(), open, output)
            }
            (_, Some(block)) => Err(Malformed::InterruptedBlock {
                stream: block.stream,
            }),
            (_, None) => {
                output.extend_from_slice(&bytes);
                Ok(Reading::passing(head.length))
            }
        }
    }

    /// Waits for the rest of `payload`. When it is complete, continues with its block.
    fn collect(
        &mut self,
        head: Head,
        payload: Vec<u8>,
        open: Option<Block>,
        output: &mut Vec<u8>,
    ) -> Result<Reading, Malformed> {
        if payload.len() < head.length {
            return Ok(Reading::Collecting {
                head,
                payload,
                open,
            });
        }
        let block = match open {
            None => Block::open(head, payload)?,
            Some(mut block) => {
                block.extend(&payload)?;
                block
            }
        };
        if !head.has(END_HEADERS) {
            return Ok(Reading::head(Some(block)));
        }
        self.put_headers(&block, output)?;
        Ok(Reading::head(None))
    }

    fn put_headers(&mut self, block: &Block, output: &mut Vec<u8>) -> Result<(), Malformed> {
        let fields = self.recoder.recode(&block.fragments)?;
        let priority = block.priority.as_ref().map_or(&[][..], |fields| fields);
        let mut flags = END_HEADERS;
        if block.end_stream {
            flags |= END_STREAM;
        }
        if block.priority.is_some() {
            flags |= PRIORITY;
        }
        let head = Head {
            length: priority.len() + fields.len(),
            kind: HEADERS,
            flags,
            stream: block.stream,
        };
        output.extend_from_slice(&head.to_bytes());
        output.extend_from_slice(priority);
        output.extend_from_slice(&fields);
        Ok(())
    }

    /// The bytes of the client that are not passed on yet.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        let (payload, open) = match &self.state {
            Reading::Head { open, .. } => (0, open.as_ref()),
            Reading::Collecting { payload, open, .. } => (payload.capacity(), open.as_ref()),
            _ => (0, None),
        };
        payload + open.map_or(0, |block| block.fragments.capacity())
    }
}

impl Reading {
    fn head(open: Option<Block>) -> Self {
        Self::Head {
            bytes: [0; HEAD_LEN],
            filled: 0,
            open,
        }
    }

    fn passing(left: usize) -> Self {
        match left {
            0 => Self::head(None),
            left => Self::Passing { left },
        }
    }
}

fn take_up_to<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    taken
}
