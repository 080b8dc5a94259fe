//! A client that writes HTTP/2 by hand, with an HPACK encoder that uses its table.

use std::collections::VecDeque;

use super::hpack::{put_integer, put_string};

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const RAW: &str = "/var/lib/kubelet/plugins_registry/x-reg.sock";
pub(super) const ENCODED: &str = "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fx-reg.sock";

pub(super) const DATA: u8 = 0x0;
pub(super) const HEADERS: u8 = 0x1;
pub(super) const RST_STREAM: u8 = 0x3;
pub(super) const SETTINGS: u8 = 0x4;
pub(super) const PING: u8 = 0x6;
pub(super) const GOAWAY: u8 = 0x7;
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

/// How a literal gives its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Naming {
    /// By an index: of `:authority` in the static table, of any other name in the dynamic table.
    Index,
    Plain,
    Huffman,
}

#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) indexing: Indexing,
    pub(super) naming: Naming,
    pub(super) huffman_value: bool,
    pub(super) name: String,
    pub(super) value: String,
}

/// A header block, over one frame or several.
#[derive(Debug, Clone, Default)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) end_stream: bool,
    pub(super) fields: Vec<Field>,
    pub(super) padding: Option<u8>,
    pub(super) priority: Option<[u8; 5]>,
    /// Where CONTINUATIONs start, each in thousandths of the block.
    pub(super) cuts: Vec<usize>,
    pub(super) resize: Option<usize>,
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
        naming: Naming::Index,
        huffman_value: false,
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

pub(super) fn request(stream: u32, fields: Vec<Field>) -> Block {
    Block {
        stream,
        end_stream: true,
        fields,
        ..Block::default()
    }
}

/// The preface, SETTINGS, and these requests.
pub(super) fn conversation(requests: &[Block]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    for request in requests {
        bytes.extend(encoder.write(request));
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

    pub(super) fn write(&mut self, sent: &Block) -> Vec<u8> {
        let mut block = Vec::new();
        if let Some(size) = sent.resize {
            self.resize(size, &mut block);
        }
        for field in &sent.fields {
            self.encode(field, &mut block);
        }
        let cut = |cut: &usize| cut * block.len() / 1000;
        let mut cuts: Vec<_> = sent.cuts.iter().map(cut).collect();
        cuts.sort_unstable();
        cuts.push(block.len());

        let mut flags = if sent.end_stream { END_STREAM } else { 0 };
        let mut payload = Vec::new();
        if let Some(padding) = sent.padding {
            flags |= PADDED;
            payload.push(padding);
        }
        if let Some(priority) = sent.priority {
            flags |= PRIORITY;
            payload.extend(priority);
        }
        payload.extend(&block[..cuts[0]]);
        payload.resize(payload.len() + usize::from(sent.padding.unwrap_or(0)), 0);
        if cuts.len() == 1 {
            flags |= END_HEADERS;
        }
        let mut bytes = frame(HEADERS, flags, sent.stream, &payload);
        for (n, pair) in cuts.windows(2).enumerate() {
            let is_last = n + 2 == cuts.len();
            let flags = if is_last { END_HEADERS } else { 0 };
            let part = &block[pair[0]..pair[1]];
            bytes.extend(frame(CONTINUATION, flags, sent.stream, part));
        }
        bytes
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
        let named = match (field.naming, field.name.as_str(), named) {
            (Naming::Index, ":authority", _) => 1,
            (Naming::Index, _, Some(index)) => 62 + index,
            _ => 0,
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
            let is_huffman = field.naming == Naming::Huffman;
            put_string(block, is_huffman, field.name.as_bytes());
        }
        put_string(block, field.huffman_value, field.value.as_bytes());
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
