//! The recoder of header blocks: each becomes independent of earlier blocks, with `localhost` for
//! `:authority`.

use loona_hpack::Decoder;

use super::literal::put_field;
use super::malformed::Malformed;
use super::representation::{Kind, Representation};

/// The most bytes of a decoded list, as HTTP/2 counts them: 32 more for each field. hyper has the
/// same limit.
///
/// A literal needs at most 7 bytes in addition to its name and value (1, and 3 for each length),
/// and `:authority: localhost` is shorter than the count of the smallest `:authority`. So a list
/// within this limit fits into a single frame when it is encoded again, with its priority fields:
/// the output never needs a CONTINUATION.
pub(super) const MAX_LIST: usize = 16_384;
const FIELD_OVERHEAD: usize = 32;

/// The initial SETTINGS_HEADER_TABLE_SIZE of HTTP/2, which our server never raises.
const MAX_TABLE: usize = 4_096;

/// The HPACK context of one client.
pub(super) struct Recoder {
    decoder: Decoder<'static>,
}

impl Recoder {
    pub(super) fn new() -> Self {
        let mut decoder = Decoder::new();
        decoder.set_max_allowed_table_size(MAX_TABLE);
        Self { decoder }
    }

    /// Decodes a whole block and encodes its fields again, in their order, as plain literals.
    ///
    /// The decoder gets the block field by field. With the whole block it could not be stopped
    /// before the end of an HPACK bomb, and it does not report which fields must never be indexed.
    pub(super) fn recode(&mut self, mut block: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut output = Vec::with_capacity(block.len());
        let mut plain = Vec::new();
        let mut list = 0;
        while !block.is_empty() {
            let representation = Representation::take(&mut block)?;
            representation.put_plain(&mut plain)?;
            if representation.kind == Kind::SizeUpdate {
                if list > 0 {
                    return Err(Malformed::LateSizeUpdate);
                }
                // The update stays in `plain`, in front of the next field: for the decoder, an
                // update without a field is an error.
                continue;
            }
            let never_indexed = representation.kind == Kind::NeverIndexed;
            self.decoder.decode_with_cb(&plain, |name, value| {
                list += name.len() + value.len() + FIELD_OVERHEAD;
                if list > MAX_LIST {
                    return;
                }
                let value = match &*name {
                    b":authority" => b"localhost",
                    _ => &*value,
                };
                put_field(&mut output, never_indexed, &name, value);
            })?;
            if list > MAX_LIST {
                return Err(Malformed::ListTooLarge);
            }
            plain.clear();
        }
        // Only a size update at the end of the block can be left, which the decoder refuses.
        self.decoder.decode_with_cb(&plain, |_, _| ())?;
        Ok(output)
    }
}
