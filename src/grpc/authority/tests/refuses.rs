//! Input that no honest client sends closes the connection, and costs little before that.

use loona_hpack::decoder::DecoderError;
use proptest::prelude::*;

use super::client::{
    CONTINUATION, DATA, END_HEADERS, HEADERS, PADDED, PING, PREFACE, PRIORITY, frame, put_integer,
    put_string,
};
use crate::grpc::authority::block::MAX_CONTINUATIONS;
use crate::grpc::authority::malformed::Malformed;
use crate::grpc::authority::rewriter::{ENOUGH_OUTPUT, Rewriter};

/// The most output of a call: up to the limit, plus the frame that passes it.
const MAX_OUTPUT: usize = ENOUGH_OUTPUT + 9 + 16_384;

/// Two payloads, with the spare capacity of a growing vector.
const MAX_HELD: usize = 4 * 16_384;

/// Feeds the preface and `bytes`; returns the result and how much output followed the preface.
fn feed(bytes: &[u8]) -> (Result<(), Malformed>, usize) {
    let mut rewriter = Rewriter::new();
    let ended = feed_all(&mut rewriter, PREFACE).and_then(|_| feed_all(&mut rewriter, bytes));
    if let Err(malformed) = ended {
        let mut output = Vec::new();
        assert_eq!(rewriter.feed(b"more", &mut output), Err(malformed));
        assert!(output.is_empty(), "nothing comes after the fault");
    }
    (ended.map(|_| ()), ended.unwrap_or(0))
}

fn feed_all(rewriter: &mut Rewriter, mut bytes: &[u8]) -> Result<usize, Malformed> {
    let mut put_out = 0;
    while !bytes.is_empty() {
        let mut output = Vec::new();
        let fed = rewriter.feed(bytes, &mut output);
        assert!(output.len() <= MAX_OUTPUT, "{} put out", output.len());
        assert!(rewriter.held() <= MAX_HELD, "{} held", rewriter.held());
        put_out += output.len();
        bytes = &bytes[fed?..];
    }
    Ok(put_out)
}

#[track_caller]
fn refused(bytes: &[u8], malformed: Malformed) {
    assert_eq!(feed(bytes).0, Err(malformed));
}

fn block(fields: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, fields)
}

#[test]
fn a_preface_of_another_protocol_is_refused_at_its_first_byte() {
    let mut output = Vec::new();
    let fed = Rewriter::new().feed(b"PRI * HTTP/1", &mut output);
    assert_eq!(fed, Err(Malformed::Preface));
    assert_eq!(output, b"PRI * HTTP/");
}

#[test]
fn a_frame_above_the_announced_size_is_refused_by_its_head() {
    let length = 16_385;
    let bytes = frame(DATA, 0, 1, &vec![0; length]);
    refused(&bytes[..9], Malformed::FrameTooLarge { length });
    assert_eq!(feed(&frame(DATA, 0, 1, &[0; 16_384])), (Ok(()), 9 + 16_384));
}

#[test]
fn headers_on_stream_zero_are_refused() {
    let bytes = frame(HEADERS, END_HEADERS, 0, &[0x82]);
    refused(&bytes, Malformed::HeadersOnStreamZero);
    // The reserved bit does not change the stream.
    let bytes = frame(HEADERS, END_HEADERS, 1 << 31, &[0x82]);
    refused(&bytes, Malformed::HeadersOnStreamZero);
}

#[test]
fn a_continuation_without_headers_is_refused() {
    let stray = frame(CONTINUATION, END_HEADERS, 1, &[0x82]);
    refused(&stray, Malformed::StrayContinuation { stream: 1 });
    let late = [block(&[0x82]), stray].concat();
    refused(&late, Malformed::StrayContinuation { stream: 1 });
}

#[test]
fn a_header_block_is_not_to_be_interrupted() {
    let interruptions = [
        frame(PING, 0, 0, &[0; 8]),
        frame(DATA, 0, 1, &[]),
        frame(HEADERS, END_HEADERS, 1, &[0x82]),
        frame(CONTINUATION, END_HEADERS, 3, &[0x82]),
    ];
    for interruption in interruptions {
        let bytes = [frame(HEADERS, 0, 1, &[0x82]), interruption].concat();
        refused(&bytes, Malformed::InterruptedBlock { stream: 1 });
    }
}

#[test]
fn a_payload_too_short_for_its_flags_is_refused() {
    let truncated = Malformed::TruncatedPayload { stream: 1 };
    refused(&frame(HEADERS, END_HEADERS | PADDED, 1, &[]), truncated);
    refused(
        &frame(HEADERS, END_HEADERS | PRIORITY, 1, &[0; 4]),
        truncated,
    );
    let both = END_HEADERS | PADDED | PRIORITY;
    refused(&frame(HEADERS, both, 1, &[0; 5]), truncated);
}

#[test]
fn padding_may_fill_the_payload_but_not_exceed_it() {
    let padded = |padding| {
        let payload = [padding, 0x82, 0, 0];
        frame(HEADERS, END_HEADERS | PADDED, 1, &payload)
    };
    assert!(feed(&padded(2)).0.is_ok());
    assert!(feed(&padded(3)).0.is_ok());
    refused(&padded(4), Malformed::PaddingTooLong { stream: 1 });
    refused(&padded(255), Malformed::PaddingTooLong { stream: 1 });
}

#[test]
fn a_block_too_large_over_all_its_frames_is_refused() {
    let mut bytes = frame(HEADERS, 0, 1, &[0x82; 16_000]);
    bytes.extend(frame(CONTINUATION, 0, 1, &[0x82; 384]));
    assert_eq!(feed(&bytes), (Ok(()), 0));
    bytes.extend(frame(CONTINUATION, 0, 1, &[0x82]));
    refused(&bytes, Malformed::BlockTooLarge { stream: 1 });
}

#[test]
fn a_flood_of_empty_continuations_is_refused() {
    let mut bytes = frame(HEADERS, 0, 1, &[0x82]);
    for _ in 0..MAX_CONTINUATIONS {
        bytes.extend(frame(CONTINUATION, 0, 1, &[]));
    }
    assert_eq!(feed(&bytes), (Ok(()), 0));
    bytes.extend(frame(CONTINUATION, END_HEADERS, 1, &[]));
    refused(&bytes, Malformed::TooManyContinuations { stream: 1 });
}

#[test]
fn undecodable_blocks_are_refused() {
    let blocks: [&[u8]; 10] = [
        b"\x80",                         // index 0
        b"\xbe",                         // an empty dynamic table
        b"\x41",                         // no value
        b"\x41\x05four",                 // a value cut short
        b"\x00\xff\xff\xff\xff\xff\x7f", // a length without end
        b"\xff\x80",                     // an index cut short
        b"\x41\x84\xff\xff\xff\xff",     // EOS within a string
        b"\x41\x82\xff\xff",             // padding of more than 7 bits
        b"\x3f\xe2\x1f\x82",             // a table of 4,097
        b"\x82\x20",                     // a size update behind a field
    ];
    for fields in blocks {
        let ended = feed(&block(fields)).0;
        assert!(
            matches!(
                ended,
                Err(Malformed::Undecodable(_) | Malformed::LateSizeUpdate)
            ),
            "{fields:x?}: {ended:?}"
        );
    }
    let alone = Malformed::Undecodable(DecoderError::SizeUpdateAtEnd);
    refused(&block(b"\x20"), alone);
}

#[test]
fn an_hpack_bomb_is_refused_while_it_is_decoded() {
    let mut fields = Vec::new();
    put_integer(&mut fields, 0x40, 6, 0);
    put_string(&mut fields, "x");
    put_string(&mut fields, &"v".repeat(4_000));
    fields.resize(16_384, 0xbe);
    // The adapter reads nothing after the limit, or this would be undecodable.
    fields[16_383] = 0x80;
    refused(&block(&fields), Malformed::ListTooLarge);
}

#[test]
fn a_list_one_byte_too_large_is_refused() {
    let with_value = |length: usize| {
        let mut fields = vec![0x00];
        put_string(&mut fields, "x");
        put_string(&mut fields, &"v".repeat(length));
        feed(&block(&fields)).0
    };
    assert_eq!(with_value(16_384 - 33), Ok(()));
    assert_eq!(with_value(16_384 - 32), Err(Malformed::ListTooLarge));
}

#[test]
fn small_requests_for_large_lists_are_put_out_one_at_a_time() {
    let mut fields = Vec::new();
    put_integer(&mut fields, 0x40, 6, 0);
    put_string(&mut fields, "x");
    put_string(&mut fields, &"v".repeat(4_000));
    let mut bytes = block(&fields);
    for _ in 0..300 {
        bytes.extend(block(&[0xbe; 4]));
    }
    let (ended, put_out) = feed(&bytes);
    assert_eq!(ended, Ok(()));
    assert!(put_out > 300 * 16_000, "{put_out}");
}

/// Frames as from a fuzzer: valid heads with random contents.
fn hostile_frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![3 => Just(HEADERS), 2 => Just(CONTINUATION), 1 => any::<u8>()];
    let flags = prop_oneof![Just(0), Just(END_HEADERS), any::<u8>()];
    let hpack = prop_oneof![
        4 => prop::sample::select(b"\x82\x86\x40\x00\x10\x41\x7f\x0f\x20\x3f\x80\xff\xbe".to_vec()),
        1 => any::<u8>(),
    ];
    (kind, flags, 0..3u32, prop::collection::vec(hpack, 0..80))
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn garbage_neither_panics_nor_piles_up(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut rewriter = Rewriter::new();
        prop_assert_eq!(feed_all(&mut rewriter, &bytes).is_err(), !PREFACE.starts_with(&bytes));
        let (_, put_out) = feed(&bytes);
        prop_assert!(put_out <= bytes.len() + 16_393);
    }

    #[test]
    fn hostile_frames_neither_panic_nor_pile_up(
        frames in prop::collection::vec(hostile_frame(), 0..24),
    ) {
        // `feed` asserts how much a call may hold and put out.
        let (_, put_out) = feed(&frames.concat());
        prop_assert!(put_out <= frames.len() * MAX_OUTPUT);
    }
}
