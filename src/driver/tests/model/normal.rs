//! Makes equal situations equal, so that the search meets each only once.

use crate::disk::identity::Identity;
use crate::driver::Driver;
use crate::driver::leaving::Leaving;
use crate::driver::machine::DriverState;
use crate::driver::registration_state::{Registration, RegistrationState};
use crate::os::clock::Moment;

impl Driver {
    /// Makes equal situations equal, for the search over all states.
    pub(super) fn normalise(
        &mut self,
        identity: impl Fn(&Identity) -> Identity,
        time: impl Fn(Moment) -> Moment,
        runs: impl Fn(u32) -> bool,
    ) {
        let Driver {
            socket,
            link,
            announcer,
            changes,
            not_before,
            held_until,
            state,
            registration,
            leaving,
            // Equal in equal situations.
            withdraw_after: _,
            advertised: _,
            name: _,
            asked: _,
            withdrawal: _,
            requested: _,
        } = self;
        socket.normalise(&identity, &time);
        link.normalise(&identity, &time);
        announcer.normalise(&time);
        changes.normalise(&time);
        *not_before = not_before.map(&time);
        *held_until = held_until.map(&time);
        if let DriverState::Silent { since, .. } = state {
            *since = time(Moment::default());
        }
        if let Leaving::Kept(_, again) = leaving {
            *again = time(*again);
        }
        if let RegistrationState::Registered(Registration {
            kubelet: Some(process),
            ..
        })
        | RegistrationState::Rejected {
            kubelet: Some(process),
            ..
        } = registration
        {
            process.pid = u32::from(runs(process.pid));
        }
    }

    /// The moments that the search has to keep in order.
    pub(super) fn times(&self) -> impl Iterator<Item = Moment> {
        let retries = [self.socket.retry(), self.link.retry()];
        let changes = self.changes.ends();
        let waits = [
            self.announcer.due(),
            self.not_before,
            self.held_until,
            changes,
        ];
        let kept = match &self.leaving {
            Leaving::Kept(_, again) => Some(*again),
            Leaving::No | Leaving::Asked(_) => None,
        };
        retries.into_iter().chain(waits).chain([kept]).flatten()
    }
}
