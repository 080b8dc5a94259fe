//! Whether the client of a connection is still there.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A second descriptor of a connection, for the one that reads and writes it is hyper's.
#[derive(Clone, Default)]
pub(super) struct Caller(Option<Arc<OwnedFd>>);

impl Caller {
    /// Without a descriptor to spare, the client is taken to be there.
    pub(super) fn of(stream: &impl AsFd) -> Caller {
        let second = stream.as_fd().try_clone_to_owned();
        Caller(second.ok().map(Arc::new))
    }

    /// The client has closed its end, so that nobody would read the answer. One that has only said
    /// all that it had to say waits for it.
    pub(super) fn has_left(&self) -> bool {
        let Some(descriptor) = &self.0 else {
            return false;
        };
        // A hang-up and an error are told without being asked for.
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
