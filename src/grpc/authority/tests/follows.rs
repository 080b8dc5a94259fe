//! Input of an honest client arrives unchanged except for `:authority`, however it is split.

use proptest::prelude::*;

use super::client::{
    self, DATA, ENCODED, END_STREAM, Field, Indexing, PADDED, PING, RAW, RST_STREAM, SETTINGS,
    Sent, WINDOW_UPDATE, conversation, field, frame, get_info, request,
};
use super::server::{Seen, SeenField, expected, read};
use crate::grpc::authority::rewriter::Rewriter;

/// Feeds `bytes` in chunks of the given sizes, over and over.
fn rewrite(bytes: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut rewriter = Rewriter::new();
    let mut output = Vec::new();
    let mut rest = bytes;
    for size in sizes.iter().cycle() {
        let (mut chunk, after) = rest.split_at((*size).min(rest.len()));
        rest = after;
        while !chunk.is_empty() {
            let mut part = Vec::new();
            let taken = rewriter.feed(chunk, &mut part).expect("well-formed");
            assert!(taken > 0, "every call gets on");
            chunk = &chunk[taken..];
            output.extend(part);
        }
        if rest.is_empty() {
            break;
        }
    }
    output
}

fn fixed_conversation() -> Vec<Sent> {
    let other = |kind, flags, stream, payload: &[u8]| Sent::Other {
        kind,
        flags,
        stream,
        payload: payload.to_vec(),
    };
    vec![
        other(SETTINGS, 0, 0, &[]),
        Sent::Headers {
            stream: 1,
            end_stream: false,
            fields: get_info(RAW),
            padding: Some(7),
            priority: Some([0, 0, 0, 0, 15]),
            cuts: vec![300, 300, 700],
            resize: Some(1000),
        },
        other(DATA, END_STREAM | PADDED, 1, &[2, 0, 0, 0, 0, 0, 0, 0]),
        other(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 5]),
        request(3, get_info(RAW)),
        other(PING, 0, 0, b"12345678"),
        other(0xfa, 0xff, 0x8000_0003, b"unknown"),
        request(5, get_info(ENCODED)),
        request(5, vec![field("trailer", "x")]),
        other(RST_STREAM, 0, 5, &[0, 0, 0, 8]),
    ]
}

#[test]
fn a_conversation_arrives_whole_at_every_cut() {
    let sent = fixed_conversation();
    let bytes = conversation(&sent);
    let whole = rewrite(&bytes, &[bytes.len()]);
    assert_eq!(read(&whole), sent.iter().map(expected).collect::<Vec<_>>());
    for cut in 1..bytes.len() {
        let output = rewrite(&bytes, &[cut, bytes.len()]);
        assert_eq!(output, whole, "cut at {cut}");
    }
    assert_eq!(rewrite(&bytes, &[1]), whole, "byte by byte");
}

#[test]
fn a_block_without_an_authority_gets_none() {
    let fields = vec![field(":method", "POST"), field("te", "trailers")];
    let output = rewrite(&conversation(&[request(1, fields)]), &[100]);
    let [Seen::Headers { fields, .. }] = &read(&output)[..] else {
        panic!("one block: {output:?}");
    };
    let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, [":method", "te"]);
}

#[test]
fn a_host_header_stays_as_it_is() {
    let fields = vec![field(":authority", RAW), field("host", RAW)];
    let output = rewrite(&conversation(&[request(1, fields)]), &[100]);
    let [Seen::Headers { fields, .. }] = &read(&output)[..] else {
        panic!("one block: {output:?}");
    };
    assert_eq!(fields[0].value, "localhost");
    assert_eq!(fields[1].value, RAW);
}

#[test]
fn huffman_code_and_static_table_are_understood() {
    // RFC 7541, appendix C.4: three requests on one connection.
    let blocks: [&[u8]; 3] = [
        b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
        b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf",
        b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
    ];
    let mut bytes = client::PREFACE.to_vec();
    for block in blocks {
        bytes.extend(frame(client::HEADERS, client::END_HEADERS, 1, block));
    }
    let list = |fields: &[(&str, &str)]| Seen::Headers {
        stream: 1,
        end_stream: false,
        priority: None,
        fields: fields
            .iter()
            .map(|(name, value)| SeenField {
                never_indexed: false,
                name: name.to_string(),
                value: value.to_string(),
            })
            .collect(),
    };
    assert_eq!(
        read(&rewrite(&bytes, &[11])),
        [
            list(&[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/"),
                (":authority", "localhost"),
            ]),
            list(&[
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/"),
                (":authority", "localhost"),
                ("cache-control", "no-cache"),
            ]),
            list(&[
                (":method", "GET"),
                (":scheme", "https"),
                (":path", "/index.html"),
                (":authority", "localhost"),
                ("custom-key", "custom-value"),
            ]),
        ]
    );
}

#[test]
fn the_largest_list_fits_one_frame() {
    // An empty `:authority` counts for 42, and the other field for 33 on top of its value.
    let fields = vec![
        field(":authority", ""),
        Field {
            indexing: Indexing::Without,
            name: "x".into(),
            value: "v".repeat(16_384 - 42 - 33),
        },
    ];
    let sent = Sent::Headers {
        stream: 1,
        end_stream: true,
        fields,
        padding: None,
        priority: Some([0, 0, 0, 0, 15]),
        cuts: Vec::new(),
        resize: None,
    };
    let output = rewrite(&conversation(std::slice::from_ref(&sent)), &[5_000]);
    assert_eq!(read(&output), [expected(&sent)]);
}

fn some_field() -> impl Strategy<Value = Field> {
    let indexing = prop_oneof![
        3 => Just(Indexing::Incremental),
        1 => Just(Indexing::Without),
        1 => Just(Indexing::Never),
    ];
    let name = prop_oneof![
        Just("te".to_string()),
        Just("user-agent".to_string()),
        "[a-z-]{1,12}",
    ];
    let value = prop_oneof![
        4 => Just("trailers".to_string()),
        4 => "[ -~]{0,40}",
        1 => "[ -~]{120,600}",
    ];
    (indexing, name, value).prop_map(|(indexing, name, value)| Field {
        indexing,
        name,
        value,
    })
}

fn some_block() -> impl Strategy<Value = Sent> {
    let authority = prop_oneof![
        Just(Some(RAW)),
        Just(Some(ENCODED)),
        Just(Some("localhost")),
        Just(None),
    ];
    (
        1..1u32 << 31,
        any::<bool>(),
        authority,
        prop::collection::vec(some_field(), 0..6),
        prop::option::of(any::<u8>()),
        prop::option::of(any::<[u8; 5]>()),
        prop::collection::vec(0..=1000usize, 0..4),
        prop::option::weighted(
            0.2,
            prop_oneof![Just(0), Just(100), Just(4096), 0..=4096usize],
        ),
    )
        .prop_map(
            |(stream, end_stream, authority, extra, padding, priority, cuts, resize)| {
                let mut fields = vec![field(":method", "POST"), field(":path", "/x")];
                fields.extend(authority.map(|authority| field(":authority", authority)));
                fields.extend(extra);
                Sent::Headers {
                    stream,
                    end_stream,
                    fields,
                    padding,
                    priority,
                    cuts,
                    resize,
                }
            },
        )
}

fn some_frame() -> impl Strategy<Value = Sent> {
    let kind = prop_oneof![
        Just(DATA),
        Just(SETTINGS),
        Just(PING),
        Just(WINDOW_UPDATE),
        Just(RST_STREAM),
        0x0a..=0xffu8,
    ];
    let payload = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..64),
        1 => (0..=16_384usize).prop_map(|length| vec![0x5a; length]),
    ];
    (kind, any::<u8>(), any::<u32>(), payload).prop_map(|(kind, flags, stream, payload)| {
        Sent::Other {
            kind,
            flags,
            stream,
            payload,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_conversation_changes_in_its_authority_alone(
        sent in prop::collection::vec(prop_oneof![some_block(), some_frame()], 0..12),
        sizes in prop::collection::vec(prop_oneof![1..12usize, 1..5_000usize], 1..20),
    ) {
        let output = rewrite(&conversation(&sent), &sizes);
        prop_assert_eq!(read(&output), sent.iter().map(expected).collect::<Vec<_>>());
    }
}
