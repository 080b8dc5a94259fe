//! The server's end: a parser of the output, written without the code under test.

use super::client::{self, Indexing, Sent};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Seen {
    Headers {
        stream: u32,
        end_stream: bool,
        priority: Option<[u8; 5]>,
        fields: Vec<SeenField>,
    },
    Other {
        kind: u8,
        flags: u8,
        stream: u32,
        payload: Vec<u8>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeenField {
    pub(super) never_indexed: bool,
    pub(super) name: String,
    pub(super) value: String,
}

/// The frames that the server should see.
pub(super) fn expected(sent: &Sent) -> Seen {
    match sent.clone() {
        Sent::Other {
            kind,
            flags,
            stream,
            payload,
        } => Seen::Other {
            kind,
            flags,
            stream,
            payload,
        },
        Sent::Headers {
            stream,
            end_stream,
            fields,
            priority,
            ..
        } => Seen::Headers {
            stream,
            end_stream,
            priority,
            fields: fields
                .into_iter()
                .map(|field| SeenField {
                    never_indexed: field.indexing == Indexing::Never,
                    value: match field.name.as_str() {
                        ":authority" => "localhost".into(),
                        _ => field.value,
                    },
                    name: field.name,
                })
                .collect(),
        },
    }
}

/// Takes the preface and then frame after frame, to the last byte.
pub(super) fn read(bytes: &[u8]) -> Vec<Seen> {
    let mut rest = bytes.strip_prefix(client::PREFACE).expect("a preface");
    let mut seen = Vec::new();
    while let Some(((kind, stream, payload), after)) = split_frame(rest) {
        seen.push(see(kind, rest[4], stream, payload));
        rest = after;
    }
    assert!(rest.is_empty(), "{} bytes too many", rest.len());
    seen
}

/// Kind, stream and payload.
type Frame<'a> = (u8, u32, &'a [u8]);

/// The first frame, with what follows it; none while it is not whole.
pub(super) fn split_frame(bytes: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<9>()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    assert!(length <= 16_384, "a frame of {length} bytes");
    let (payload, rest) = rest.split_at_checked(length)?;
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some(((head[3], stream, payload), rest))
}

fn see(kind: u8, flags: u8, stream: u32, mut payload: &[u8]) -> Seen {
    if kind != client::HEADERS {
        return Seen::Other {
            kind,
            flags,
            stream,
            payload: payload.to_vec(),
        };
    }
    assert_eq!(flags & client::PADDED, 0, "padding is gone");
    assert_ne!(flags & client::END_HEADERS, 0, "one frame a block");
    let mut priority = None;
    if flags & client::PRIORITY != 0 {
        let (fields, rest) = payload.split_first_chunk().expect("priority fields");
        priority = Some(*fields);
        payload = rest;
    }
    let mut fields = Vec::new();
    while let Some((lead, rest)) = payload.split_first() {
        payload = rest;
        assert!(matches!(lead, 0x00 | 0x10), "a plain literal: {lead:#x}");
        fields.push(SeenField {
            never_indexed: *lead == 0x10,
            name: text(take_string(&mut payload)),
            value: text(take_string(&mut payload)),
        });
    }
    Seen::Headers {
        stream,
        end_stream: flags & client::END_STREAM != 0,
        priority,
        fields,
    }
}

/// Takes one string literal of HPACK off the front.
pub(super) fn take_string<'a>(payload: &mut &'a [u8]) -> &'a [u8] {
    let mut next = || {
        let (first, rest) = payload.split_first().expect("a length");
        *payload = rest;
        usize::from(*first)
    };
    let mut length = next();
    assert!(length < 128, "no Huffman code");
    if length == 127 {
        let mut weight = 1;
        loop {
            let octet = next();
            length += (octet % 128) * weight;
            weight *= 128;
            if octet < 128 {
                break;
            }
        }
    }
    let (text, rest) = payload.split_at(length);
    *payload = rest;
    text
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}
