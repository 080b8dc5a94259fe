//! A call to a registration socket, byte by byte: with an `:authority` that a client with the
//! registrar's own HTTP/2 library cannot send, and at almost no cost.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(20);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A literal header field: no table, no Huffman code.
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0];
    for text in [name, value] {
        // A length below 127 fits in one byte.
        field.push(u8::try_from(text.len()).ok().filter(|n| *n < 127).unwrap());
        field.extend(text.bytes());
    }
    field
}

/// Calls GetInfo with this authority, and returns the bytes of the answer until the stream ends; none
/// when it is refused.
pub fn get_info(socket: &Path, authority: &str) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/pluginregistration.Registration/GetInfo"),
        (":authority", authority),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let block: Vec<u8> = fields
        .iter()
        .flat_map(|(name, value)| field(name, value))
        .collect();
    let request = [
        PREFACE.to_vec(),
        frame(SETTINGS, 0, 0, &[]),
        frame(HEADERS, END_HEADERS, 1, &block),
        // A message of no bytes.
        frame(DATA, END_STREAM, 1, &[0; 5]),
    ];
    stream.write_all(&request.concat())?;
    let mut answer = Vec::new();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload)?;
        let (kind, flags, of_request) = (head[3], head[4], head[8] == 1);
        if of_request && kind == DATA {
            answer.extend(&payload);
        }
        let is_reset = of_request && !matches!(kind, DATA | HEADERS) && kind != WINDOW_UPDATE;
        let has_ended = of_request && flags & END_STREAM != 0;
        if is_reset || has_ended {
            return Ok(answer);
        }
    }
}
