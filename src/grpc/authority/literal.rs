//! A literal of HPACK: a length and plain octets (RFC 7541, sections 5 and 6.2).

/// Appends a header field that no dynamic table stores, so that the server decodes each block
/// without an earlier block.
pub(super) fn put_field(output: &mut Vec<u8>, never_indexed: bool, name: &[u8], value: &[u8]) {
    output.push(if never_indexed { 0x10 } else { 0x00 });
    put_string(output, name);
    put_string(output, value);
}

/// Appends a string without Huffman code.
pub(super) fn put_string(output: &mut Vec<u8>, octets: &[u8]) {
    const PREFIX: usize = 0x7f;
    if octets.len() < PREFIX {
        output.push(octets.len() as u8);
    } else {
        output.push(PREFIX as u8);
        let mut rest = octets.len() - PREFIX;
        while rest >= 0x80 {
            output.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        output.push(rest as u8);
    }
    output.extend_from_slice(octets);
}
