//! Whatever systemd's socket says, it is an answer that stood in the bytes, or an error.

use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::os::fuzz::Fuzz;

const WORDS: &[&str] = &[
    "l\x02\0\x01",
    "l\x03\0\x01",
    "l\x04\0\x01",
    "B\x02\0\x01",
    "\x08\0\0\0",
    "\x05\x01u\0\x01\0\0\0",
    "\x01s\0",
    "\x04(uo)\0",
    "\x05\0\0\0/unit\0",
    "\x7f\x7f\x7f\x7f",
    "OK 0123456789abcdef\r\n",
    "REJECTED EXTERNAL\r\n",
];

#[test]
fn no_reply_is_read_beyond_its_end() {
    let runtime = runtime();
    Fuzz::new("bus", WORDS).short(|input| check(&runtime, input));
}

#[test]
#[ignore = "the long run"]
fn no_reply_is_read_beyond_its_end_for_long() {
    let runtime = runtime();
    Fuzz::new("bus", WORDS).long(|input| check(&runtime, input));
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

fn check(runtime: &Runtime, input: &[u8]) -> [String; 4] {
    runtime.block_on(async {
        let job = said(input).await.job("/unit").await;
        if let Ok((_, object)) = &job {
            stood_in(input, object);
        }
        let text = said(input).await.text("/job", "i", "JobType").await;
        let unit = said(input).await.unit_of(1).await;
        for word in [&text, &unit].into_iter().flatten() {
            stood_in(input, word);
        }
        let line = read_line(&mut said(input).await.stream).await;
        if let Ok(line) = &line {
            // Bytes that are no text become marks of three bytes each.
            assert!(line.len() <= 3 * 512);
        }
        [
            outcome(&job),
            outcome(&text),
            outcome(&unit),
            format!("{}", line.is_ok_and(|line| line.starts_with("OK "))),
        ]
    })
}

/// A systemd that says this, whatever it is asked, and closes.
async fn said(input: &[u8]) -> Bus {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let theirs = theirs.into_std().unwrap();
    theirs.set_nonblocking(false).unwrap();
    // An input has room in the socket's buffer.
    std::io::Write::write_all(&mut &theirs, input).unwrap();
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    // Kept open for what it is asked.
    tokio::spawn(async move {
        let mut theirs = UnixStream::from_std({
            theirs.set_nonblocking(true).unwrap();
            theirs
        })
        .unwrap();
        let mut question = Vec::new();
        drop(theirs.read_to_end(&mut question).await);
    });
    Bus {
        stream: ours,
        received: Vec::new(),
        serial: 0,
    }
}

#[track_caller]
fn stood_in(input: &[u8], word: &str) {
    let mut places = input.windows(word.len().max(1));
    assert!(
        word.is_empty() || places.any(|place| place == word.as_bytes()),
        "{word:?}"
    );
}

fn outcome<T>(answer: &Result<T, BusError>) -> String {
    match answer {
        Ok(_) => "answered".to_owned(),
        Err(BusError::Io(error)) => error.kind().to_string(),
        Err(error) => error.to_string(),
    }
}
