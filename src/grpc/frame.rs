//! The head of an HTTP/2 frame: the nine bytes in front of each payload (RFC 9113, section 4.1).

/// The bytes that a client sends before its first frame.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const HEAD_LEN: usize = 9;

/// The initial SETTINGS_MAX_FRAME_SIZE of HTTP/2, which we never raise.
pub(crate) const MAX_PAYLOAD: usize = 16_384;

pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const SETTINGS: u8 = 0x4;
pub(crate) const PING: u8 = 0x6;
pub(crate) const GOAWAY: u8 = 0x7;

/// A flag of SETTINGS and PING.
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const PRIORITY: u8 = 0x20;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// With its highest bit as it came: it is reserved, and a receiver ignores it.
    pub(crate) stream: u32,
}

impl Head {
    pub(crate) fn parse(bytes: [u8; HEAD_LEN]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = bytes;
        Self {
            length: usize::from(l0) << 16 | usize::from(l1) << 8 | usize::from(l2),
            kind,
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; HEAD_LEN] {
        debug_assert!(self.length <= MAX_PAYLOAD);
        let [.., l0, l1, l2] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, self.kind, self.flags, s0, s1, s2, s3]
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
