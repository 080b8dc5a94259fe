//! An HTTP/2 adapter in front of the server: it replaces the client's `:authority` in place.
//!
//! grpc-go, and so the kubelet, dials a Unix socket with the socket's path as `:authority`, raw
//! (`/var/lib/kubelet/…`) or percent-encoded (`%2Fvar%2Flib%2F…`). RFC 3986 allows neither, so h2
//! answers each request with RST_STREAM PROTOCOL_ERROR, and no kubelet could register a driver.
//! [`AuthorityReader`] is between the socket and the server. In each HEADERS frame that contains a
//! whole header block, it writes the one octet `x` for the value of `:authority`. Everything else
//! passes byte for byte, also what the adapter does not understand: h2 judges it. The adapter does
//! not read the bytes that the server sends.
//!
//! This needs no HPACK decoder and no dynamic table. A client names entries of the table from the
//! newest on, and an entry with `x` is never larger than the client's own. So the server evicts no
//! entry before the client does: the client's table is always the newest part of the server's.
//!
//! A block that continues in CONTINUATION frames passes as it is, and so does a name that comes from
//! the dynamic table, and a frame above 16 KiB. h2 then refuses the request. No known client of a
//! Unix socket sends these. A `host` header passes too: h2 and hyper treat it like any other field.

mod headers;

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, Join, ReadBuf, join};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::frame::{END_HEADERS, HEAD_LEN, HEADERS, Head, MAX_PAYLOAD, PREFACE};

/// The bytes of a single read from the inner stream, into a buffer on the stack.
const CHUNK: usize = 4_096;

/// The requests of a client with an `:authority` that h2 accepts.
pub(crate) struct AuthorityReader<S> {
    inner: S,
    /// Read from the client and not yet by the server: at most a frame of [`MAX_PAYLOAD`] and a
    /// [`CHUNK`]. It owns no memory while the connection is idle.
    buffer: Vec<u8>,
    /// The first bytes of `buffer`, which the server may read. Behind them is a frame that is not
    /// whole yet.
    ready: usize,
    /// The bytes of the preface or of a frame that pass as they come.
    passing: usize,
}

/// A client's connection as the server sees it: reads go through the adapter, writes do not.
pub(crate) fn adapted(stream: UnixStream) -> Join<AuthorityReader<OwnedReadHalf>, OwnedWriteHalf> {
    let (reader, writer) = stream.into_split();
    join(AuthorityReader::new(reader), writer)
}

impl<S> AuthorityReader<S> {
    fn new(inner: S) -> Self {
        Self {
            inner,
            buffer: Vec::new(),
            ready: 0,
            passing: PREFACE.len(),
        }
    }

    /// Makes as much of the buffer ready as its frames allow.
    fn advance(&mut self) {
        loop {
            let passed = self.passing.min(self.buffer.len() - self.ready);
            self.ready += passed;
            self.passing -= passed;
            let Some(bytes) = self.buffer[self.ready..].first_chunk() else {
                return;
            };
            let head = Head::parse(*bytes);
            if head.kind != HEADERS || !head.has(END_HEADERS) || head.length > MAX_PAYLOAD {
                self.passing = HEAD_LEN + head.length;
                continue;
            }
            let payload = self.ready + HEAD_LEN..self.ready + HEAD_LEN + head.length;
            let Some(whole) = self.buffer.get(payload.clone()) else {
                return;
            };
            self.passing = HEAD_LEN + head.length;
            if let Some(patched) = headers::patched(head, whole) {
                let length = patched.len();
                let head = Head { length, ..head }.to_bytes();
                self.buffer.splice(payload, patched);
                self.buffer[self.ready..][..HEAD_LEN].copy_from_slice(&head);
                self.passing = HEAD_LEN + length;
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AuthorityReader<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // This ends: only a frame up to MAX_PAYLOAD has to be whole before the server may read it.
        while this.ready == 0 && buf.remaining() > 0 {
            let mut chunk = [MaybeUninit::uninit(); CHUNK];
            let mut chunk = ReadBuf::uninit(&mut chunk);
            let Poll::Ready(read) = Pin::new(&mut this.inner).poll_read(cx, &mut chunk) else {
                if this.buffer.is_empty() {
                    this.buffer = Vec::new();
                }
                return Poll::Pending;
            };
            read?;
            if chunk.filled().is_empty() {
                // The client has closed the connection: no frame becomes whole any more.
                this.ready = this.buffer.len();
                break;
            }
            this.buffer.extend_from_slice(chunk.filled());
            this.advance();
        }
        let given = this.ready.min(buf.remaining());
        buf.put_slice(&this.buffer[..given]);
        this.buffer.drain(..given);
        this.ready -= given;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
