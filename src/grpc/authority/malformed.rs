//! Malformed input of a client, which closes its connection.

use loona_hpack::decoder::DecoderError;

/// Why the adapter cannot, or refuses to, follow the client. It cannot recover: after this it no
/// longer knows the borders between frames or the HPACK table.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("the connection does not start with the HTTP/2 client preface")]
    Preface,
    #[error("a frame of {length} bytes exceeds SETTINGS_MAX_FRAME_SIZE")]
    FrameTooLarge { length: usize },
    #[error("HEADERS on stream 0")]
    HeadersOnStreamZero,
    #[error("CONTINUATION on stream {stream} without HEADERS before it")]
    StrayContinuation { stream: u32 },
    #[error("the header block of stream {stream} is interrupted by another frame")]
    InterruptedBlock { stream: u32 },
    #[error("the HEADERS payload on stream {stream} is too short for its flags")]
    TruncatedPayload { stream: u32 },
    #[error("the padding of HEADERS on stream {stream} is longer than its payload")]
    PaddingTooLong { stream: u32 },
    #[error("the header block of stream {stream} is too large")]
    BlockTooLarge { stream: u32 },
    #[error("the header block of stream {stream} is cut into too many CONTINUATION frames")]
    TooManyContinuations { stream: u32 },
    #[error("a header list is too large once decoded")]
    ListTooLarge,
    #[error("a dynamic table size update follows a header field")]
    LateSizeUpdate,
    #[error("a header block cannot be decoded")]
    Undecodable(#[from] DecoderError),
}
