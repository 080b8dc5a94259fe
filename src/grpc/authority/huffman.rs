//! The Huffman code of HPACK strings, with its table built once.

use std::cell::RefCell;

use loona_hpack::decoder::{DecoderError, StringDecodingError};
use loona_hpack::huffman::HuffmanDecoder;

thread_local! {
    // loona-hpack builds this table again for every string that it decodes, in over 30 µs. A
    // hostile block of 16 KiB would keep the thread busy for a third of a second.
    static TABLE: RefCell<HuffmanDecoder> = RefCell::new(HuffmanDecoder::new());
}

pub(super) fn decode(octets: &[u8]) -> Result<Vec<u8>, DecoderError> {
    TABLE
        .with_borrow_mut(|table| table.decode(octets))
        .map_err(|error| {
            DecoderError::StringDecodingError(StringDecodingError::HuffmanDecoderError(error))
        })
}
