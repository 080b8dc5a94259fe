//! An HTTP/2 adapter in front of the server: it replaces the client's `:authority` with
//! `localhost`.
//!
//! grpc-go, and so the kubelet, dials a Unix socket with the socket's path as `:authority`, raw
//! (`/var/lib/kubelet/…`) or percent-encoded (`%2Fvar%2Flib%2F…`). RFC 3986 allows neither, so h2
//! answers each request with RST_STREAM PROTOCOL_ERROR, and no kubelet could register a driver.
//! [`reader::AuthorityReader`] is between the socket and the server. It follows the frames that the client
//! sends, writes `localhost` for `:authority` in every header block, and passes everything else on
//! byte for byte. It does not read the bytes that the server sends.
//!
//! A `host` header stays unchanged: h2 and hyper treat it like any other field.
//!
//! The server behind the adapter must keep the initial SETTINGS_MAX_FRAME_SIZE (16,384) and
//! SETTINGS_HEADER_TABLE_SIZE (4,096) of HTTP/2, as hyper does. With larger values a client may
//! send more than this adapter follows.

mod block;
mod huffman;
mod literal;
mod malformed;
mod reader;
mod recoder;
mod representation;
mod rewriter;

pub(crate) use reader::adapted;

#[cfg(test)]
mod tests;
