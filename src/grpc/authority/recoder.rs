//! Turns a client's header block into one that stands alone, with `localhost` for `:authority`.

use loona_hpack::Decoder;

use super::literal::put_field;
use super::malformed::Malformed;
use super::representation::{Kind, Representation};

/// Most bytes of a decoded list, as HTTP/2 counts them: each field has 32 on top. It is also
/// hyper's bound.
///
/// A literal costs at most 7 bytes beside its name and value (1, and 3 for each length), and
/// `:authority: localhost` is shorter than what the smallest `:authority` counts for. So a list
/// within this bound, encoded again, has room in one frame, its priority fields included: a
/// CONTINUATION is never needed on the way out.
pub(super) const MAX_LIST: usize = 16_384;
const FIELD_OVERHEAD: usize = 32;

/// HTTP/2's initial SETTINGS_HEADER_TABLE_SIZE, which our server never raises.
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
    /// The decoder gets the block field by field: given the whole, it could not be stopped before
    /// the end of an HPACK bomb, and does not tell which fields are never to be indexed.
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
                // It stays in `plain` and goes along with the field behind it: the decoder takes
                // an update that nothing follows for an error.
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
        // Left over is at most a size update at the very end, which the decoder refuses.
        self.decoder.decode_with_cb(&plain, |_, _| ())?;
        Ok(output)
    }
}
