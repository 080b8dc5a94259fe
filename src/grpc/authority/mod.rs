//! Makes the kubelet's `:authority` one that h2 takes, on the way from its socket to our server.
//!
//! grpc-go dials a Unix socket with the socket's path as `:authority`, raw (`/var/lib/kubelet/…`)
//! or percent-encoded (`%2Fvar%2Flib%2F…`). Neither is an authority as RFC 3986 has it, so h2
//! answers each request with RST_STREAM PROTOCOL_ERROR, and no kubelet could register a driver
//! with us. [`AuthorityStream`] stands between the socket and the server: it follows the frames
//! that the client sends, writes `localhost` for `:authority` in every header block, and lets all
//! else pass byte for byte. What the server sends is not looked at.
//!
//! A `host` header stays as it is: neither h2 nor hyper reads it as more than one field of many.
//!
//! The server behind the adapter must keep HTTP/2's initial SETTINGS_MAX_FRAME_SIZE (16,384) and
//! SETTINGS_HEADER_TABLE_SIZE (4,096), as hyper does: a client that is told otherwise may go
//! beyond what is followed here.

mod block;
mod huffman;
mod literal;
mod malformed;
mod recoder;
mod representation;
mod rewriter;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use stream::AuthorityStream;
