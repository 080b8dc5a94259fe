//! An HTTP client that can misbehave: it sends bytes exactly as a test writes them.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bed::eventually;
use bed::scene::SOON;

/// An answer as the daemon sent it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Asks once, waiting for the daemon to listen.
#[track_caller]
pub(crate) fn get(socket: &Path, path: &str) -> Answer {
    ask(
        socket,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    )
}

/// Sends this request, and reads until the daemon closes the connection.
#[track_caller]
pub(crate) fn ask(socket: &Path, request: &str) -> Answer {
    let mut stream = eventually("http is served", SOON, || UnixStream::connect(socket));
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    read(&mut stream).unwrap()
}

/// Reads an answer to its end.
pub(crate) fn read(stream: &mut (impl Read + ?Sized)) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    Ok(Answer {
        code,
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    })
}

/// Waits until the path answers with this code, and returns the body.
#[track_caller]
pub(crate) fn wait_code(socket: &Path, path: &str, code: u16) -> String {
    let what = format!("{path} answers {code}");
    eventually(&what, SOON, || {
        let answer = get(socket, path);
        if answer.code == code {
            Ok(answer.body)
        } else {
            Err(format!("{answer:?}"))
        }
    })
}

/// Long enough for a deadline of the daemon to pass.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
