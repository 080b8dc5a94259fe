//! A client that writes HTTP/2 by hand, with an HPACK encoder that uses its table.

use std::collections::VecDeque;

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const RAW: &str = "/var/lib/kubelet/plugins_registry/x-reg.sock";
pub(super) const ENCODED: &str = "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fx-reg.sock";

pub(super) const DATA: u8 = 0x0;
pub(super) const HEADERS: u8 = 0x1;
pub(super) const RST_STREAM: u8 = 0x3;
pub(super) const SETTINGS: u8 = 0x4;
pub(super) const PING: u8 = 0x6;
pub(super) const WINDOW_UPDATE: u8 = 0x8;
pub(super) const CONTINUATION: u8 = 0x9;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const PRIORITY: u8 = 0x20;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Indexing {
    Incremental,
    Without,
    Never,
}

#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) indexing: Indexing,
    pub(super) name: String,
    pub(super) value: String,
}

/// One frame, or one header block over several.
#[derive(Debug, Clone)]
pub(super) enum Sent {
    Headers {
        stream: u32,
        end_stream: bool,
        fields: Vec<Field>,
        padding: Option<u8>,
        priority: Option<[u8; 5]>,
        /// Where CONTINUATIONs start, each in thousandths of the block.
        cuts: Vec<usize>,
        resize: Option<usize>,
    },
    Other {
        kind: u8,
        flags: u8,
        stream: u32,
        payload: Vec<u8>,
    },
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

pub(super) fn field(name: &str, value: &str) -> Field {
    Field {
        indexing: Indexing::Incremental,
        name: name.into(),
        value: value.into(),
    }
}

/// What grpc-go sends for a call to GetInfo.
pub(super) fn get_info(authority: &str) -> Vec<Field> {
    vec![
        field(":method", "POST"),
        field(":scheme", "http"),
        field(":path", "/pluginregistration.Registration/GetInfo"),
        field(":authority", authority),
        field("content-type", "application/grpc"),
        field("user-agent", "grpc-go/1.33.3"),
        field("te", "trailers"),
    ]
}

pub(super) fn request(stream: u32, fields: Vec<Field>) -> Sent {
    Sent::Headers {
        stream,
        end_stream: true,
        fields,
        padding: None,
        priority: None,
        cuts: Vec::new(),
        resize: None,
    }
}

pub(super) fn conversation(sent: &[Sent]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    let mut bytes = PREFACE.to_vec();
    for sent in sent {
        bytes.extend(encoder.write(sent));
    }
    bytes
}

pub(super) struct Encoder {
    table: VecDeque<(String, String)>,
    max: usize,
}

impl Encoder {
    pub(super) fn new() -> Self {
        Self {
            table: VecDeque::new(),
            max: 4096,
        }
    }

    pub(super) fn write(&mut self, sent: &Sent) -> Vec<u8> {
        match sent {
            Sent::Other {
                kind,
                flags,
                stream,
                payload,
            } => frame(*kind, *flags, *stream, payload),
            Sent::Headers {
                stream,
                end_stream,
                fields,
                padding,
                priority,
                cuts,
                resize,
            } => {
                let mut block = Vec::new();
                if let Some(size) = resize {
                    self.resize(*size, &mut block);
                }
                for field in fields {
                    self.encode(field, &mut block);
                }
                let mut cuts: Vec<_> = cuts.iter().map(|cut| cut * block.len() / 1000).collect();
                cuts.sort_unstable();
                cuts.push(block.len());

                let mut flags = if *end_stream { END_STREAM } else { 0 };
                let mut payload = Vec::new();
                if let Some(padding) = padding {
                    flags |= PADDED;
                    payload.push(*padding);
                }
                if let Some(priority) = priority {
                    flags |= PRIORITY;
                    payload.extend(priority);
                }
                payload.extend(&block[..cuts[0]]);
                payload.resize(payload.len() + usize::from(padding.unwrap_or(0)), 0);
                if cuts.len() == 1 {
                    flags |= END_HEADERS;
                }
                let mut bytes = frame(HEADERS, flags, *stream, &payload);
                for (n, pair) in cuts.windows(2).enumerate() {
                    let last = n + 2 == cuts.len();
                    let flags = if last { END_HEADERS } else { 0 };
                    bytes.extend(frame(
                        CONTINUATION,
                        flags,
                        *stream,
                        &block[pair[0]..pair[1]],
                    ));
                }
                bytes
            }
        }
    }

    fn resize(&mut self, size: usize, block: &mut Vec<u8>) {
        put_integer(block, 0x20, 5, size);
        self.max = size;
        self.evict();
    }

    fn encode(&mut self, field: &Field, block: &mut Vec<u8>) {
        let entry = (field.name.clone(), field.value.clone());
        let known = self.table.iter().position(|known| *known == entry);
        let named = self.table.iter().position(|(name, _)| *name == field.name);
        let named = match (named, field.name.as_str()) {
            (Some(index), _) => 62 + index,
            (None, ":authority") => 1,
            (None, _) => 0,
        };
        match (field.indexing, known) {
            (Indexing::Incremental, Some(index)) => {
                put_integer(block, 0x80, 7, 62 + index);
                return;
            }
            (Indexing::Incremental, None) => put_integer(block, 0x40, 6, named),
            (Indexing::Without, _) => put_integer(block, 0x00, 4, named),
            (Indexing::Never, _) => put_integer(block, 0x10, 4, named),
        }
        if named == 0 {
            put_string(block, &field.name);
        }
        put_string(block, &field.value);
        if field.indexing == Indexing::Incremental {
            self.table.push_front(entry);
            self.evict();
        }
    }

    fn evict(&mut self) {
        let size = |(name, value): &(String, String)| name.len() + value.len() + 32;
        while self.table.iter().map(size).sum::<usize>() > self.max {
            self.table.pop_back();
        }
    }
}

pub(super) fn put_string(block: &mut Vec<u8>, text: &str) {
    put_integer(block, 0x00, 7, text.len());
    block.extend(text.as_bytes());
}

pub(super) fn put_integer(block: &mut Vec<u8>, lead: u8, prefix: u32, number: usize) {
    let mask = 2usize.pow(prefix) - 1;
    if number < mask {
        block.push(lead | number as u8);
        return;
    }
    block.push(lead | mask as u8);
    let mut rest = number - mask;
    while rest >= 128 {
        block.push((rest % 128) as u8 + 128);
        rest /= 128;
    }
    block.push(rest as u8);
}
