//! HPACK, written from RFC 7541 without the code under test: integers, the Huffman code, and a
//! decoder with its tables.

use std::collections::VecDeque;

/// What went wrong; the connection ends there.
#[derive(Debug, PartialEq)]
pub(super) struct Undecodable;

/// A header field: the value that its sender meant, and the one that the server has to see.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) never_indexed: bool,
    pub(super) name: Vec<u8>,
    value: Vec<u8>,
    pub(super) seen: Vec<u8>,
}

/// The decoding half of a connection.
pub(super) struct Decoder {
    /// The newest entry is the first.
    table: VecDeque<Seen>,
    max: usize,
}

/// Who reads a block, and what has to become of its authorities.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rule {
    /// In a frame that the adapter patches: `x` for the value of a literal with the name
    /// `:authority`, unless the name comes from the dynamic table.
    Patched,
    /// As it was sent.
    AsItIs,
}

/// SETTINGS_HEADER_TABLE_SIZE, as HTTP/2 begins with it.
const TABLE_SIZE: usize = 4_096;

impl Decoder {
    pub(super) fn new() -> Self {
        Self {
            table: VecDeque::new(),
            max: TABLE_SIZE,
        }
    }

    pub(super) fn decode(&mut self, block: &[u8], rule: Rule) -> Result<Vec<Seen>, Undecodable> {
        let mut rest = block;
        let mut fields = Vec::new();
        while let Some(first) = rest.first() {
            if first & 0xe0 == 0x20 {
                let size = take_integer(&mut rest, 5)?;
                if size > TABLE_SIZE || !fields.is_empty() {
                    return Err(Undecodable);
                }
                self.max = size;
                self.evict();
                continue;
            }
            if first & 0x80 != 0 {
                let index = take_integer(&mut rest, 7)?;
                let field = self.entry(index)?;
                fields.push(Seen {
                    never_indexed: false,
                    ..field
                });
                continue;
            }
            let is_incremental = first & 0x40 != 0;
            let prefix = if is_incremental { 6 } else { 4 };
            let never_indexed = first & 0xf0 == 0x10;
            let index = take_integer(&mut rest, prefix)?;
            let name = match index {
                0 => take_string(&mut rest)?,
                index => self.entry(index)?.name,
            };
            let value = take_string(&mut rest)?;
            let replaced = rule == Rule::Patched
                && name == b":authority"
                && index <= STATIC_LEN
                && !value.is_empty();
            let field = Seen {
                never_indexed,
                name,
                seen: if replaced { b"x".into() } else { value.clone() },
                value,
            };
            fields.push(field.clone());
            if is_incremental {
                self.table.push_front(field);
                self.evict();
            }
        }
        Ok(fields)
    }

    fn entry(&self, index: usize) -> Result<Seen, Undecodable> {
        if let Some(place) = index.checked_sub(STATIC_LEN + 1) {
            return self.table.get(place).cloned().ok_or(Undecodable);
        }
        let place = index.checked_sub(1).ok_or(Undecodable)?;
        let entry = STATIC.split(' ').nth(place).expect("61 entries");
        let (name, value) = entry.split_once('=').expect("a name and a value");
        let value = value.replace('+', " ");
        Ok(Seen {
            never_indexed: false,
            name: name.into(),
            value: value.clone().into(),
            seen: value.into(),
        })
    }

    fn evict(&mut self) {
        let size = |field: &Seen| field.name.len() + field.value.len() + 32;
        while self.table.iter().map(size).sum::<usize>() > self.max {
            self.table.pop_back();
        }
    }
}

fn take_integer(block: &mut &[u8], prefix: u32) -> Result<usize, Undecodable> {
    let mut next = || {
        let (first, rest) = block.split_first().ok_or(Undecodable)?;
        *block = rest;
        Ok(usize::from(*first))
    };
    let mask = 2usize.pow(prefix) - 1;
    let mut number = next()? & mask;
    if number < mask {
        return Ok(number);
    }
    // Four octets more, as h2 has it.
    for weight in [1, 1 << 7, 1 << 14, 1 << 21] {
        let octet = next()?;
        number += octet % 128 * weight;
        if octet < 128 {
            return Ok(number);
        }
    }
    Err(Undecodable)
}

fn take_string(block: &mut &[u8]) -> Result<Vec<u8>, Undecodable> {
    let is_huffman = block.first().ok_or(Undecodable)? & 0x80 != 0;
    let length = take_integer(block, 7)?;
    let (octets, rest) = block.split_at_checked(length).ok_or(Undecodable)?;
    *block = rest;
    if is_huffman {
        from_huffman(octets)
    } else {
        Ok(octets.to_vec())
    }
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

pub(super) fn put_string(block: &mut Vec<u8>, is_huffman: bool, text: &[u8]) {
    if is_huffman {
        let octets = to_huffman(text);
        put_integer(block, 0x80, 7, octets.len());
        block.extend(octets);
    } else {
        put_integer(block, 0x00, 7, text.len());
        block.extend(text);
    }
}

/// The octets with a code of each length. The code is canonical: a code is its predecessor plus one,
/// with zeros behind it where it is longer. EOS, 30 ones, is the last.
const CODE: &[(u32, &[u8])] = &[
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b"!\"()?"),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\x00$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
    (19, b"\\\xc3\xd0"),
    (20, b"\x80\x82\x83\xa2\xb8\xc2\xe0\xe2"),
    (21, b"\x99\xa1\xa7\xac\xb0\xb1\xb3\xd1\xd8\xd9\xe3\xe5\xe6"),
    (
        22,
        b"\x81\x84\x85\x86\x88\x92\x9a\x9c\xa0\xa3\xa4\xa9\xaa\xad\xb2\xb5\xb9\xba\xbb\xbd\xbe\xc4\
          \xc6\xe4\xe8\xe9",
    ),
    (
        23,
        b"\x01\x87\x89\x8a\x8b\x8c\x8d\x8f\x93\x95\x96\x97\x98\x9b\x9d\x9e\xa5\xa6\xa8\xae\xaf\xb4\
          \xb6\xb7\xbc\xbf\xc5\xe7\xef",
    ),
    (24, b"\t\x8e\x90\x91\x94\x9f\xab\xce\xd7\xe1\xec\xed"),
    (25, b"\xc7\xcf\xea\xeb"),
    (
        26,
        b"\xc0\xc1\xc8\xc9\xca\xcd\xd2\xd5\xda\xdb\xee\xf0\xf2\xf3\xff",
    ),
    (
        27,
        b"\xcb\xcc\xd3\xd4\xd6\xdd\xde\xdf\xf1\xf4\xf5\xf6\xf7\xf8\xfa\xfb\xfc\xfd\xfe",
    ),
    (
        28,
        b"\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x17\x18\x19\x1a\x1b\
          \x1c\x1d\x1e\x1f\x7f\xdc\xf9",
    ),
    (30, b"\n\r\x16"),
];

/// Length, first code and octets, for each length.
fn codes() -> impl Iterator<Item = (u32, u32, &'static [u8])> {
    let mut next = (0, 0);
    CODE.iter().map(move |(length, octets)| {
        let first = next.0 << (length - next.1);
        next = (first + octets.len() as u32, *length);
        (*length, first, *octets)
    })
}

fn to_huffman(text: &[u8]) -> Vec<u8> {
    let mut bits = Vec::new();
    for octet in text {
        let (length, code) = codes()
            .find_map(|(length, first, octets)| {
                let place = octets.iter().position(|one| one == octet)?;
                Some((length, first + place as u32))
            })
            .expect("each octet has a code");
        bits.extend((0..length).rev().map(|bit| code >> bit & 1));
    }
    bits.resize(bits.len().next_multiple_of(8), 1);
    let octet = |bits: &[u32]| bits.iter().fold(0, |octet, bit| octet << 1 | *bit as u8);
    bits.chunks(8).map(octet).collect()
}

fn from_huffman(octets: &[u8]) -> Result<Vec<u8>, Undecodable> {
    let mut text = Vec::new();
    let codes: Vec<_> = codes().collect();
    let (mut length, mut code) = (0, 0);
    for bit in octets
        .iter()
        .flat_map(|octet| (0..8).rev().map(move |bit| u32::from(octet >> bit & 1)))
    {
        (length, code) = (length + 1, code << 1 | bit);
        let same = codes.iter().find(|(of, ..)| *of == length);
        let place = same.and_then(|(_, first, octets)| {
            let place = code.checked_sub(*first)?;
            octets.get(place as usize)
        });
        if let Some(octet) = place {
            text.push(*octet);
            (length, code) = (0, 0);
        } else if length == 30 {
            return Err(Undecodable);
        }
    }
    // The rest is padding: less than an octet, and the beginning of EOS.
    if length > 7 || code != (1 << length) - 1 {
        return Err(Undecodable);
    }
    Ok(text)
}

const STATIC_LEN: usize = 61;

/// RFC 7541, appendix A. `+` is a space.
const STATIC: &str = "\
    :authority= :method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https \
    :status=200 :status=204 :status=206 :status=304 :status=400 :status=404 :status=500 \
    accept-charset= accept-encoding=gzip,+deflate accept-language= accept-ranges= accept= \
    access-control-allow-origin= age= allow= authorization= cache-control= content-disposition= \
    content-encoding= content-language= content-length= content-location= content-range= \
    content-type= cookie= date= etag= expect= expires= from= host= if-match= if-modified-since= \
    if-none-match= if-range= if-unmodified-since= last-modified= link= location= max-forwards= \
    proxy-authenticate= proxy-authorization= range= referer= refresh= retry-after= server= \
    set-cookie= strict-transport-security= transfer-encoding= user-agent= vary= via= \
    www-authenticate=";

#[test]
fn the_decoder_reads_the_examples_of_the_rfc() {
    // Appendix C.4: three requests on one connection, with Huffman code.
    let blocks: [&[u8]; 3] = [
        b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
        b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf",
        b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
    ];
    let mut decoder = Decoder::new();
    let lists = blocks.map(|block| {
        let fields = decoder.decode(block, Rule::AsItIs).unwrap();
        let text = |field: &Seen| [&field.name[..], b"=", &field.seen].concat();
        let list = fields.iter().map(text).collect::<Vec<_>>().join(&b' ');
        String::from_utf8(list).unwrap()
    });
    assert_eq!(
        lists,
        [
            ":method=GET :scheme=http :path=/ :authority=www.example.com",
            ":method=GET :scheme=http :path=/ :authority=www.example.com cache-control=no-cache",
            ":method=GET :scheme=https :path=/index.html :authority=www.example.com custom-key=custom-value",
        ]
    );
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(from_huffman(&to_huffman(&all)), Ok(all));
    assert_eq!(to_huffman(b"www.example.com"), blocks[0][5..]);
}
