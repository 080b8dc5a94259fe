//! The client at the other end of a connection, which may have closed it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A second descriptor of a connection: hyper owns the first, which reads and writes.
#[derive(Clone, Default)]
pub(super) struct Caller(Option<Arc<OwnedFd>>);

impl Caller {
    /// Where no descriptor is left, the client counts as connected.
    pub(super) fn of(stream: &impl AsFd) -> Caller {
        let second = stream.as_fd().try_clone_to_owned();
        Caller(second.ok().map(Arc::new))
    }

    /// The client has closed both directions, and would not read the answer. A client that has only
    /// closed its sending direction waits for the answer.
    pub(super) fn has_left(&self) -> bool {
        let Some(descriptor) = &self.0 else {
            return false;
        };
        // poll(2) always reports a hang-up and an error.
        let mut looked = [PollFd::new(descriptor.as_fd(), PollFlags::empty())];
        let found = poll(&mut looked, PollTimeout::ZERO);
        found.is_ok_and(|found| found > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_client_has_left_when_it_has_closed_both_directions() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let caller = Caller::of(&ours);
        assert!(!caller.has_left());
        theirs.shutdown(Shutdown::Write).unwrap();
        assert!(!caller.has_left());
        drop(theirs);
        assert!(caller.has_left());
        assert!(!Caller::default().has_left());
    }
}
