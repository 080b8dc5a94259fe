//! An incoming header block: the payloads of a HEADERS frame and its CONTINUATIONs.

use super::malformed::Malformed;
use crate::grpc::frame::{END_STREAM, Head, PADDED, PRIORITY};

/// The most bytes of HPACK in a block, over all of its frames.
pub(super) const MAX_BLOCK: usize = 16_384;

/// The most CONTINUATION frames in a block. With a limit on bytes alone a client could send empty
/// frames forever (CVE-2024-27316 and similar); an honest client needs none for a block this small.
pub(super) const MAX_CONTINUATIONS: usize = 32;

/// The stream dependency and weight of a HEADERS frame. No server acts on them, but h2 refuses a
/// stream that depends on itself, and the adapter must not hide that.
type Priority = [u8; 5];

#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) end_stream: bool,
    pub(super) priority: Option<Priority>,
    pub(super) fragments: Vec<u8>,
    continuations: usize,
}

impl Block {
    /// Starts a block from a whole HEADERS frame.
    pub(super) fn open(head: Head, mut payload: Vec<u8>) -> Result<Self, Malformed> {
        let stream = head.stream;
        let truncated = Malformed::TruncatedPayload { stream };
        let mut rest = payload.as_slice();

        let mut padding = 0;
        if head.has(PADDED) {
            let (length, after) = rest.split_first().ok_or(truncated)?;
            padding = usize::from(*length);
            rest = after;
        }
        let mut priority = None;
        if head.has(PRIORITY) {
            let (fields, after) = rest.split_first_chunk().ok_or(truncated)?;
            priority = Some(*fields);
            rest = after;
        }
        let fragment = rest
            .len()
            .checked_sub(padding)
            .ok_or(Malformed::PaddingTooLong { stream })?;

        let start = payload.len() - rest.len();
        payload.truncate(start + fragment);
        payload.drain(..start);
        Ok(Self {
            stream,
            end_stream: head.has(END_STREAM),
            priority,
            fragments: payload,
            continuations: 0,
        })
    }

    /// Adds the payload of a whole CONTINUATION frame.
    pub(super) fn extend(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let stream = self.stream;
        if self.continuations == MAX_CONTINUATIONS {
            return Err(Malformed::TooManyContinuations { stream });
        }
        if self.fragments.len() + payload.len() > MAX_BLOCK {
            return Err(Malformed::BlockTooLarge { stream });
        }
        self.continuations += 1;
        self.fragments.extend_from_slice(payload);
        Ok(())
    }
}
