//! What the server reads: the client's bytes with another `:authority`, however they are cut.

use proptest::prelude::*;

use super::client::{
    Block, CONTINUATION, DATA, ENCODED, END_HEADERS, END_STREAM, Encoder, Field, HEADERS, Indexing,
    Naming, PADDED, PING, PREFACE, PRIORITY, RAW, RST_STREAM, WINDOW_UPDATE, conversation, field,
    frame, get_info, request,
};
use super::hpack::put_string;
use super::server::{adapt, compare};
use crate::grpc::authority::AuthorityReader;

fn adapt_whole(input: &[u8]) -> Vec<u8> {
    adapt(input, |_| usize::MAX)
}

/// These frames after a preface, as the server reads them, without the preface.
fn frames(bytes: &[u8]) -> Vec<u8> {
    adapt_whole(&[PREFACE, bytes].concat()).split_off(PREFACE.len())
}

fn block(fields: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, fields)
}

#[test]
fn each_form_of_an_authority_becomes_x() {
    const HUFFMAN: &[u8] = b"\x88\xb8\x3b\x53\x39\xec\x32\x7d\x7f";
    let long = [b"\x41\x7f\x00".as_slice(), &[b'v'; 127]].concat();
    let very_long = [b"\x41\x7f\x81\x7c".as_slice(), &[b'v'; 16_000]].concat();
    let forms: [(&[u8], &[u8]); 15] = [
        // By its place in the static table: into the dynamic table, not into it, never into it.
        (b"\x41\x02/r", b"\x41\x01x"),
        (b"\x01\x02/r", b"\x01\x01x"),
        (b"\x11\x02/r", b"\x11\x01x"),
        // With its name.
        (b"\x40\x0a:authority\x02/r", b"\x40\x0a:authority\x01x"),
        (b"\x00\x0a:authority\x02/r", b"\x00\x0a:authority\x01x"),
        (b"\x10\x0a:authority\x02/r", b"\x10\x0a:authority\x01x"),
        (
            &[b"\x40", HUFFMAN, b"\x02/r"].concat(),
            &[b"\x40", HUFFMAN, b"\x01x"].concat(),
        ),
        (
            &[b"\x10", HUFFMAN, b"\x81\x07"].concat(),
            &[b"\x10", HUFFMAN, b"\x01x"].concat(),
        ),
        // Values of one octet, in Huffman code, and of several octets of length.
        (b"\x41\x01y", b"\x41\x01x"),
        (
            b"\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
            b"\x41\x01x",
        ),
        (&long, b"\x41\x01x"),
        (&very_long, b"\x41\x01x"),
        // Between other fields, behind changes of the table's size, and twice.
        (b"\x82\x41\x02/r\x86", b"\x82\x41\x01x\x86"),
        (b"\x20\x3f\xe1\x1f\x41\x02/r", b"\x20\x3f\xe1\x1f\x41\x01x"),
        (b"\x41\x02/r\x82\x01\x03/rs", b"\x41\x01x\x82\x01\x01x"),
    ];
    for (sent, seen) in forms {
        assert_eq!(frames(&block(sent)), block(seen), "{sent:x?}");
        let bytes = [PREFACE, &block(sent)].concat();
        let blocks = compare(&bytes, &adapt_whole(&bytes));
        assert!(!blocks.ended, "{sent:x?}: cannot be decoded");
    }
}

#[test]
fn every_other_field_stays_as_it_is() {
    let blocks: [&[u8]; 9] = [
        b"",
        b"\x82\x86\x84",
        // The empty authority, from the static table and as a literal.
        b"\x81",
        b"\x41\x00\x41\x80\x00\x0a:authority\x00",
        // `host`, by its place and with its name.
        b"\x66\x02/r\x40\x04host\x02/r",
        // A name from the dynamic table.
        b"\x40\x0a:authority\x00\x7e\x02/r\x0f\x2f\x02/r",
        // Names that only begin alike.
        b"\x00\x0b:authority2\x02/r",
        b"\x00\x09:authorit\x02/r",
        // The plain octets of the Huffman code.
        b"\x00\x08\xb8\x3b\x53\x39\xec\x32\x7d\x7f\x02/r",
    ];
    for fields in blocks {
        assert_eq!(frames(&block(fields)), block(fields), "{fields:x?}");
    }
}

#[test]
fn padding_and_priority_stay_around_the_block() {
    let (sent, seen) = (b"\x82\x41\x02/r", b"\x82\x41\x01x");
    let padded = |block: &[u8]| [b"\x03", block, &[0, 1, 2]].concat();
    let flags = END_HEADERS | END_STREAM | PADDED;
    assert_eq!(
        frames(&frame(HEADERS, flags, 1, &padded(sent))),
        frame(HEADERS, flags, 1, &padded(seen))
    );
    let priority = |block: &[u8]| [b"\0\0\0\x01\x0f", block].concat();
    let flags = END_HEADERS | PRIORITY;
    assert_eq!(
        frames(&frame(HEADERS, flags, 3, &priority(sent))),
        frame(HEADERS, flags, 3, &priority(seen))
    );
    let both = |block: &[u8]| [b"\x02\0\0\0\x01\x0f", block, &[7, 7]].concat();
    let flags = END_HEADERS | PADDED | PRIORITY;
    // The reserved bit of the stream, too.
    assert_eq!(
        frames(&frame(HEADERS, flags, 1 << 31 | 3, &both(sent))),
        frame(HEADERS, flags, 1 << 31 | 3, &both(seen))
    );
}

#[test]
fn the_largest_frame_is_patched_and_a_larger_one_passes() {
    let of_length = |length| {
        let mut fields = b"\x82\x41".to_vec();
        put_string(&mut fields, false, &vec![b'v'; length - 5]);
        assert_eq!(fields.len(), length);
        block(&fields)
    };
    assert_eq!(frames(&of_length(16_384)), block(b"\x82\x41\x01x"));
    assert_eq!(frames(&of_length(16_385)), of_length(16_385));
}

#[test]
fn all_that_cannot_be_parsed_passes() {
    const AUTHORITY: &[u8] = b"\x41\x02/r";
    let with = |rest: &[u8]| block(&[AUTHORITY, rest].concat());
    let headers = |flags, payload: &[u8]| frame(HEADERS, END_HEADERS | flags, 1, payload);
    let sent = [
        with(b"\x41"),                         // no value
        with(b"\x41\x05four"),                 // a value cut short
        with(b"\x40\x0a:author"),              // a name cut short
        with(b"\x00\xff\xff\xff\xff\xff\x7f"), // a length without end
        with(b"\xff\x80"),                     // an index cut short
        headers(PADDED, b""),
        headers(PRIORITY, b"\x41\x02/r"),
        headers(PADDED | PRIORITY, b"\0\x41\x02/r"),
        headers(PADDED, b"\x05\x41\x02/r"), // padding of one octet too many
        headers(PADDED, b"\xff\x41\x02/r"),
        headers(PADDED, b"\x04\x41\x02/r"), // padding alone
    ];
    for sent in sent {
        assert_eq!(frames(&sent), sent, "{sent:x?}");
    }
    let http1 = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    assert_eq!(adapt_whole(http1), http1);
}

#[test]
fn a_block_in_several_frames_passes_unbuffered() {
    let rest = frame(CONTINUATION, END_HEADERS, 1, b"\x41\x02/r");
    let sent = [frame(HEADERS, 0, 1, b"\x41\x02/r"), rest].concat();
    assert_eq!(frames(&sent), sent);
    let ready = |frame: &[u8]| {
        let mut reader = AuthorityReader::new(());
        reader.buffer = [PREFACE, &frame[..12]].concat();
        reader.advance();
        reader.ready - PREFACE.len()
    };
    assert_eq!(ready(&frame(HEADERS, 0, 1, &[0x82; 9])), 12);
    assert_eq!(ready(&frame(CONTINUATION, END_HEADERS, 1, &[0x82; 9])), 12);
    assert_eq!(ready(&block(&[0x82; 16_385])), 12);
    assert_eq!(ready(&frame(DATA, 0, 1, &[0x82; 9])), 12);
    // The adapter waits for the end of this one.
    assert_eq!(ready(&block(&[0x82; 9])), 0);
}

fn fixed_conversation() -> Vec<u8> {
    let mut encoder = Encoder::new();
    let mut first = request(1, get_info(RAW));
    first.end_stream = false;
    first.padding = Some(7);
    first.priority = Some([0, 0, 0, 0, 15]);
    first.resize = Some(1000);
    let mut named = get_info(ENCODED);
    named[3].naming = Naming::Huffman;
    named[3].indexing = Indexing::Never;
    named[3].huffman_value = true;
    [
        conversation(&[]),
        encoder.write(&first),
        frame(DATA, END_STREAM | PADDED, 1, &[2, 0, 0, 0, 0, 0, 0, 0]),
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 5]),
        encoder.write(&request(3, get_info(RAW))),
        frame(PING, 0, 0, b"12345678"),
        frame(0xfa, 0xff, 0x8000_0003, b"unknown"),
        encoder.write(&request(5, get_info(ENCODED))),
        encoder.write(&request(5, vec![field("trailer", "x")])),
        frame(RST_STREAM, 0, 5, &[0, 0, 0, 8]),
        encoder.write(&request(7, named)),
        encoder.write(&request(9, get_info(RAW))),
    ]
    .concat()
}

#[test]
fn a_conversation_arrives_whole_at_every_cut() {
    let bytes = fixed_conversation();
    let whole = adapt_whole(&bytes);
    let blocks = compare(&bytes, &whole);
    assert!(!blocks.ended);
    let fields = blocks.lists.iter().flatten();
    let authorities = fields.filter(|(name, _)| name == ":authority");
    let authorities: Vec<_> = authorities.map(|(_, value)| value.as_str()).collect();
    assert_eq!(authorities, ["x"; 5]);
    for cut in 1..bytes.len() {
        let output = adapt(&bytes, move |n| if n == 0 { cut } else { usize::MAX });
        assert_eq!(output, whole, "cut at {cut}");
    }
    assert_eq!(adapt(&bytes, |_| 1), whole, "byte by byte");
}

/// A client whose table holds less than the server's: each authority is another, so the client has to
/// evict its entries while the server keeps entries that are smaller.
#[test]
fn a_full_table_keeps_the_clients_entries_at_their_places() {
    let request = |n: usize| {
        let mut fields = get_info(&format!("/{n}{RAW}"));
        fields.push(field("tail", &format!("{}", n % 50)));
        request(1, fields)
    };
    let sent: Vec<_> = (0..400).map(request).collect();
    let bytes = conversation(&sent);
    let blocks = compare(&bytes, &adapt_whole(&bytes));
    assert!(!blocks.ended);
    for (n, list) in blocks.lists.iter().enumerate() {
        assert_eq!(list[3], (":authority".into(), "x".into()));
        assert_eq!(list[7], ("tail".into(), format!("{}", n % 50)));
    }
}

fn some_field() -> impl Strategy<Value = Field> {
    let indexing = prop_oneof![
        3 => Just(Indexing::Incremental),
        1 => Just(Indexing::Without),
        1 => Just(Indexing::Never),
    ];
    let naming = prop_oneof![
        3 => Just(Naming::Index),
        1 => Just(Naming::Plain),
        1 => Just(Naming::Huffman),
    ];
    let name = prop_oneof![
        Just(":authority".to_string()),
        Just("te".to_string()),
        Just("user-agent".to_string()),
        "[a-z-]{1,12}",
    ];
    let value = prop_oneof![
        2 => Just(RAW.to_string()),
        4 => Just("trailers".to_string()),
        4 => "[ -~]{0,40}",
        1 => "[ -~]{120,600}",
    ];
    (indexing, naming, any::<bool>(), name, value).prop_map(
        |(indexing, naming, huffman_value, name, value)| Field {
            indexing,
            naming,
            huffman_value,
            name,
            value,
        },
    )
}

fn some_block() -> impl Strategy<Value = Block> {
    let cuts = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(0..=1000usize, 0..4),
    ];
    let size = prop_oneof![Just(0), Just(100), Just(4096), 0..=4096usize];
    (
        1..1u32 << 31,
        any::<bool>(),
        prop::collection::vec(some_field(), 0..9),
        prop::option::of(any::<u8>()),
        prop::option::of(any::<[u8; 5]>()),
        cuts,
        prop::option::weighted(0.2, size),
    )
        .prop_map(
            |(stream, end_stream, fields, padding, priority, cuts, resize)| Block {
                stream,
                end_stream,
                fields,
                padding,
                priority,
                cuts,
                resize,
            },
        )
}

/// Any frame but HEADERS and CONTINUATION, some of them above the limit.
fn some_frame() -> impl Strategy<Value = Vec<u8>> {
    let kind =
        any::<u8>().prop_filter("of a block", |kind| ![HEADERS, CONTINUATION].contains(kind));
    let length = prop_oneof![8 => 0..64usize, 1 => 0..=17_000usize];
    (kind, any::<u8>(), any::<u32>(), length)
        .prop_map(|(kind, flags, stream, length)| frame(kind, flags, stream, &vec![0x41; length]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_conversation_changes_in_its_authority_alone(
        sent in prop::collection::vec((some_block(), prop::option::of(some_frame())), 0..20),
        sizes in prop::collection::vec(prop_oneof![1..12usize, 1..5_000usize], 1..20),
    ) {
        let mut encoder = Encoder::new();
        let mut bytes = conversation(&[]);
        for (block, other) in sent {
            bytes.extend(encoder.write(&block));
            bytes.extend(other.unwrap_or_default());
        }
        let output = adapt(&bytes, |n| sizes[n % sizes.len()]);
        prop_assert!(!compare(&bytes, &output).ended);
    }
}
