//! The reading half of a connection as the server sees it: its bytes go through a rewriter.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, Join, ReadBuf, join};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::rewriter::Rewriter;

/// The bytes of a single read from the inner stream, into a buffer on the stack.
const CHUNK: usize = 4_096;

/// The requests of a client with an `:authority` that h2 accepts.
///
/// Both buffers are empty, and own no memory, while the connection is idle.
pub(crate) struct AuthorityReader<S> {
    inner: S,
    rewriter: Rewriter,
    /// Read from the client and not yet rewritten: at most [`CHUNK`].
    unread: Vec<u8>,
    /// Rewritten and not yet read by the server, from `given` on.
    output: Vec<u8>,
    given: usize,
}

/// A client's connection as the server sees it: reads go through the adapter, writes do not.
pub(crate) fn adapted(stream: UnixStream) -> Join<AuthorityReader<OwnedReadHalf>, OwnedWriteHalf> {
    let (reader, writer) = stream.into_split();
    join(AuthorityReader::new(reader), writer)
}

impl<S> AuthorityReader<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self {
            inner,
            rewriter: Rewriter::new(),
            unread: Vec::new(),
            output: Vec::new(),
            given: 0,
        }
    }

    /// Copies as much output as fits into `buf`.
    fn give(&mut self, buf: &mut ReadBuf<'_>) {
        let waiting = &self.output[self.given..];
        let given = waiting.len().min(buf.remaining());
        buf.put_slice(&waiting[..given]);
        self.given += given;
        if self.given == self.output.len() {
            self.output.clear();
            self.given = 0;
        }
    }

    #[cfg(test)]
    pub(super) fn buffered(&self) -> usize {
        self.unread.capacity() + self.output.capacity()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AuthorityReader<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // This ends: input without output belongs to a header block, and its size is limited.
        loop {
            if !this.output.is_empty() || buf.remaining() == 0 {
                this.give(buf);
                return Poll::Ready(Ok(()));
            }
            match this.rewriter.feed(&this.unread, &mut this.output) {
                Ok(taken) => drop(this.unread.drain(..taken)),
                // The server first reads what came before the fault; the rewriter repeats the
                // error.
                Err(_) if !this.output.is_empty() => {}
                Err(malformed) => {
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, malformed)));
                }
            }
            if !this.output.is_empty() {
                continue;
            }

            let mut chunk = [MaybeUninit::uninit(); CHUNK];
            let mut chunk = ReadBuf::uninit(&mut chunk);
            let Poll::Ready(read) = Pin::new(&mut this.inner).poll_read(cx, &mut chunk) else {
                this.unread = Vec::new();
                this.output = Vec::new();
                return Poll::Pending;
            };
            read?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.unread.extend_from_slice(chunk.filled());
        }
    }
}
