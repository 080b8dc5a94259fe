//! The process at the other end of a Unix socket, as the kernel reports it.

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::{Uid, geteuid};

/// The process that called connect() or, seen from the client, listen().
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// None when the process is in a pid namespace that we cannot see into.
    pub(crate) pid: Option<u32>,
    pub(crate) uid: u32,
}

impl Peer {
    pub(crate) fn of(stream: &impl AsFd) -> io::Result<Peer> {
        let credentials = getsockopt(stream, PeerCredentials)?;
        Ok(Peer {
            pid: u32::try_from(credentials.pid()).ok().filter(|pid| *pid > 0),
            uid: credentials.uid(),
        })
    }

    pub(crate) fn is_trusted(&self) -> bool {
        is_trusted(self.uid)
    }
}

/// We trust root and our own user: without root the daemon works in directories of its own.
pub(crate) fn is_trusted(uid: u32) -> bool {
    is_root_or(geteuid(), uid)
}

fn is_root_or(ours: Uid, uid: u32) -> bool {
    uid == 0 || uid == ours.as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_we_ourselves_are_trusted() {
        let ours = Uid::from_raw(1000);
        assert!(is_root_or(ours, 0) && is_root_or(ours, 1000));
        assert!(!is_root_or(ours, 1001));
    }
}
