//! A connection that asks nothing: its end shows that the server has gone.
//!
//! A connection through hyper uses some 45 kB as long as it is open. This one is an HTTP/2 client
//! that opens no stream: it sends the preface, acknowledges SETTINGS and PING, and uses a few
//! hundred bytes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::frame::{ACK, GOAWAY, HEAD_LEN, Head, MAX_PAYLOAD, PING, PREFACE, SETTINGS};

const PING_LEN: usize = 8;
/// A server pings every few seconds at most. A server that sends more frames keeps us busy on
/// purpose.
const MOST_FRAMES: u32 = 100;
const WHILE: Duration = Duration::from_secs(1);

/// An open connection.
pub(crate) struct IdleConnection {
    /// Resolves when the connection has ended, or the server announces its end.
    pub(crate) ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// When it was opened.
    pub(crate) since: Instant,
}

impl IdleConnection {
    /// Starts HTTP/2 on the stream. The caller sets the deadline.
    pub(crate) async fn over(mut stream: UnixStream) -> io::Result<IdleConnection> {
        let settings = frame(SETTINGS, 0, 0);
        stream.write_all(&[PREFACE, &settings].concat()).await?;
        let ended = async {
            if let Err(error) = hold(stream).await {
                tracing::debug!(%error, "an idle connection has ended");
            }
        };
        Ok(IdleConnection {
            ended: Box::pin(ended),
            since: Instant::now(),
        })
    }
}

async fn hold(mut stream: UnixStream) -> io::Result<()> {
    let (mut begun, mut frames) = (Instant::now(), 0);
    loop {
        let mut bytes = [0; HEAD_LEN];
        stream.read_exact(&mut bytes).await?;
        if begun.elapsed() > WHILE {
            (begun, frames) = (Instant::now(), 0);
        }
        frames += 1;
        if frames > MOST_FRAMES {
            return Err(io::Error::other("the server sends frames without end"));
        }
        let head = Head::parse(bytes);
        if head.length > MAX_PAYLOAD {
            return Err(io::Error::other(
                "the server sends a frame that is too large",
            ));
        }
        match head.kind {
            GOAWAY => return Ok(()),
            PING if head.length == PING_LEN && !head.has(ACK) => {
                let mut payload = [0; PING_LEN];
                stream.read_exact(&mut payload).await?;
                let answer = [frame(PING, ACK, PING_LEN).as_slice(), &payload].concat();
                stream.write_all(&answer).await?;
            }
            SETTINGS if !head.has(ACK) => {
                skip(&mut stream, head.length).await?;
                stream.write_all(&frame(SETTINGS, ACK, 0)).await?;
            }
            _ => skip(&mut stream, head.length).await?,
        }
    }
}

async fn skip(stream: &mut UnixStream, mut left: usize) -> io::Result<()> {
    let mut bytes = [0; 64];
    while left > 0 {
        let some = left.min(bytes.len());
        left -= stream.read_exact(&mut bytes[..some]).await?;
    }
    Ok(())
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

    /// A connection, and the server's end of it after the greeting.
    async fn pair() -> (IdleConnection, UnixStream) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let stream = UnixStream::connect(&path).await.unwrap();
        let connection = IdleConnection::over(stream).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let mut greeting = [0; 33];
        server.read_exact(&mut greeting).await.unwrap();
        assert!(greeting.starts_with(PREFACE));
        (connection, server)
    }

    async fn ends(connection: IdleConnection) -> bool {
        timeout(SOON, connection.ended).await.is_ok()
    }

    #[tokio::test]
    async fn acknowledges_settings_and_pings_and_passes_over_the_rest() {
        let (connection, mut server) = pair().await;
        let held = tokio::spawn(connection.ended);
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
        let (connection, mut server) = pair().await;
        let goaway = [&frame(GOAWAY, 0, 8)[..], &[0; 8]].concat();
        server.write_all(&goaway).await.unwrap();
        assert!(ends(connection).await);
    }

    #[tokio::test]
    async fn a_server_that_floods_or_garbles_is_left() {
        let (connection, mut server) = pair().await;
        let held = tokio::spawn(connection.ended);
        let ping = [&frame(PING, ACK, 8)[..], &[0; 8]].concat();
        // Fails when we have left.
        while server.write_all(&ping).await.is_ok() {}
        timeout(SOON, held).await.unwrap().unwrap();

        let (connection, mut server) = pair().await;
        server.write_all(b"HTTP/1.1 400 Bad Request").await.unwrap();
        assert!(ends(connection).await);
    }
}
