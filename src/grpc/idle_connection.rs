//! A connection that asks nothing: its end tells that the server went.
//!
//! A connection through hyper holds some 45 kB for as long as it stands. This one is an HTTP/2
//! client that opens no stream: it greets, acknowledges what a server may ping it with, and holds
//! a few hundred bytes.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::frame::{ACK, GOAWAY, HEAD_LEN, Head, MAX_PAYLOAD, PING, PREFACE, SETTINGS};

const PING_LEN: usize = 8;
/// Servers ping every few seconds at most. One that sends more than this keeps us busy on purpose.
const MOST_FRAMES: u32 = 100;
const WHILE: Duration = Duration::from_secs(1);

/// An open connection.
pub(crate) struct IdleConnection {
    stream: UnixStream,
}

impl IdleConnection {
    /// Greets whoever is at the other end. The caller sets the deadline.
    pub(crate) async fn over(mut stream: UnixStream) -> io::Result<IdleConnection> {
        let settings = frame(SETTINGS, 0, 0);
        stream.write_all(&[PREFACE, &settings].concat()).await?;
        Ok(IdleConnection { stream })
    }

    /// Resolves when the connection has ended, or the server says that it is about to.
    pub(crate) async fn ended(mut self) {
        if let Err(error) = self.hold().await {
            tracing::debug!(%error, "a connection that was held has ended");
        }
    }

    async fn hold(&mut self) -> io::Result<()> {
        let (mut begun, mut frames) = (Instant::now(), 0);
        loop {
            let mut bytes = [0; HEAD_LEN];
            self.stream.read_exact(&mut bytes).await?;
            if begun.elapsed() > WHILE {
                (begun, frames) = (Instant::now(), 0);
            }
            frames += 1;
            if frames > MOST_FRAMES {
                return Err(io::Error::other("the server sends frames without end"));
            }
            let head = Head::parse(bytes);
            match head.kind {
                GOAWAY => return Ok(()),
                PING if head.length == PING_LEN => self.answer_ping(head).await?,
                SETTINGS if !head.has(ACK) => {
                    self.skip(head.length).await?;
                    self.stream.write_all(&frame(SETTINGS, ACK, 0)).await?;
                }
                _ => self.skip(head.length).await?,
            }
        }
    }

    async fn answer_ping(&mut self, head: Head) -> io::Result<()> {
        let mut payload = [0; PING_LEN];
        self.stream.read_exact(&mut payload).await?;
        if head.has(ACK) {
            return Ok(());
        }
        let answer = [frame(PING, ACK, PING_LEN).as_slice(), &payload].concat();
        self.stream.write_all(&answer).await
    }

    async fn skip(&mut self, length: usize) -> io::Result<()> {
        if length > MAX_PAYLOAD {
            return Err(io::Error::other(
                "the server sends a frame that is too large",
            ));
        }
        let mut left = length;
        let mut bytes = [0; 64];
        while left > 0 {
            let some = left.min(bytes.len());
            left -= self.stream.read_exact(&mut bytes[..some]).await?;
        }
        Ok(())
    }
}

/// The head of a frame of the connection itself.
fn frame(kind: u8, flags: u8, length: usize) -> [u8; HEAD_LEN] {
    Head {
        length,
        kind,
        flags,
        stream: 0,
    }
    .to_bytes()
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    /// A lifeline, and the server's end of it after the greeting.
    async fn pair() -> (IdleConnection, UnixStream) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let stream = UnixStream::connect(&path).await.unwrap();
        let lifeline = IdleConnection::over(stream).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let mut greeting = [0; 33];
        server.read_exact(&mut greeting).await.unwrap();
        assert!(greeting.starts_with(PREFACE));
        (lifeline, server)
    }

    async fn ends(lifeline: IdleConnection) -> bool {
        timeout(SOON, lifeline.ended()).await.is_ok()
    }

    #[tokio::test]
    async fn acknowledges_settings_and_pings_and_passes_over_the_rest() {
        let (lifeline, mut server) = pair().await;
        let held = tokio::spawn(lifeline.ended());
        let window_update = [&[0, 0, 4, 8, 0, 0, 0, 0, 0][..], &[0, 1, 0, 0]].concat();
        server.write_all(&window_update).await.unwrap();
        let settings = [&frame(SETTINGS, 0, 6)[..], &[0, 3, 0, 0, 0, 100]].concat();
        server.write_all(&settings).await.unwrap();
        server.write_all(&frame(SETTINGS, ACK, 0)).await.unwrap();
        let ping = [&frame(PING, 0, 8)[..], b"12345678"].concat();
        server.write_all(&ping).await.unwrap();
        let mut answers = [0; 26];
        server.read_exact(&mut answers).await.unwrap();
        assert_eq!(answers[..9], frame(SETTINGS, ACK, 0));
        assert_eq!(answers[9..18], frame(PING, ACK, 8));
        assert_eq!(&answers[18..], b"12345678");
        assert!(!held.is_finished());
        drop(server);
        timeout(SOON, held).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_server_that_says_goodbye_has_ended() {
        let (lifeline, mut server) = pair().await;
        let goaway = [&frame(GOAWAY, 0, 8)[..], &[0; 8]].concat();
        server.write_all(&goaway).await.unwrap();
        assert!(ends(lifeline).await);
    }

    #[tokio::test]
    async fn a_server_that_floods_or_garbles_is_left() {
        let (lifeline, mut server) = pair().await;
        let held = tokio::spawn(lifeline.ended());
        let ping = [&frame(PING, ACK, 8)[..], &[0; 8]].concat();
        // Fails when we have left.
        while server.write_all(&ping).await.is_ok() {}
        timeout(SOON, held).await.unwrap().unwrap();

        let (lifeline, mut server) = pair().await;
        server.write_all(b"HTTP/1.1 400 Bad Request").await.unwrap();
        assert!(ends(lifeline).await);
    }
}
