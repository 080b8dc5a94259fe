//! The path of the socket as `:authority`, as grpc-go sends it: raw or percent-encoded. No client
//! that is built on the same HTTP/2 library as the registrar can be made to do so, hence the bytes.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use bed::Layout;

use crate::scene::{NAME, SOON, Scene};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
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

/// A header field that stands for itself: no table, no Huffman code.
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0];
    for text in [name, value] {
        // One byte has room for a length below 127.
        field.push(u8::try_from(text.len()).ok().filter(|n| *n < 127).unwrap());
        field.extend(text.bytes());
    }
    field
}

/// GetInfo with this authority, and all that is answered until the stream ends.
fn get_info(socket: &std::path::Path, authority: &str) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
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
    stream.write_all(&request.concat()).unwrap();
    let mut answer = Vec::new();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).unwrap();
        let (kind, flags, of_request) = (head[3], head[4], head[8] == 1);
        if of_request && kind == DATA {
            answer.extend(&payload);
        }
        let is_reset = of_request && !matches!(kind, DATA | HEADERS) && kind != 8;
        let has_ended = of_request && flags & END_STREAM != 0;
        if is_reset || has_ended {
            return answer;
        }
    }
}

#[test]
fn the_path_of_the_socket_is_taken_for_an_authority() {
    let scene = Scene::started(Layout::TwoDirectories, &[NAME], "");
    let _driver = scene.node.driver(NAME);
    scene.wait_published(NAME);
    let link = scene.node.link(NAME);
    let raw = link.display().to_string();
    let encoded = raw.replace('/', "%2F");
    for authority in ["localhost", &raw, &encoded] {
        let answer = get_info(&link, authority);
        let has_name = answer
            .windows(NAME.len())
            .any(|part| part == NAME.as_bytes());
        assert!(has_name, "{authority}: {answer:?}");
    }
}
