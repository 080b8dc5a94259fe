//! Drivers that the configuration names, in places that other users than root may write to: they are
//! served, and the operator is told.

use super::state_file::Origin;
use super::{RunnerKey, Supervisor};
use crate::csi::trust::Exposure;

impl Supervisor {
    /// Looks at the way to the socket of a driver that the configuration names. The monitor refuses a
    /// driver that was discovered in such a place.
    pub(super) fn look_at_exposure(&mut self, key: RunnerKey) {
        let Some(runner) = self.runners.get_mut(key) else {
            return;
        };
        let (id, socket) = (&runner.id, &runner.settings.csi_socket);
        // The main loop does not wait for a file system that another machine or program serves.
        let now = if runner.origin == Origin::Discovery || self.reach.may_hang(socket) {
            None
        } else {
            // A path that cannot be looked at cannot be connected to either, and that says why.
            Exposure::of(socket).unwrap_or(None)
        };
        if now == runner.exposure {
            return;
        }
        if let Some(exposure) = &now {
            let mend = exposure.mend();
            tracing::warn!(driver = %id, csi_socket = %socket.display(), "{id}: {exposure}, and could put a driver of their own in its place: {mend}");
        }
        runner.exposure = now;
    }

    /// The note for the status.
    pub(super) fn exposed(&self) -> Option<String> {
        let exposed = self.runners.iter();
        let mut exposed =
            exposed.filter_map(|runner| Some((&runner.id, runner.exposure.as_ref()?)));
        let (id, exposure) = exposed.next()?;
        let mend = exposure.mend();
        let more = match exposed.count() {
            0 => String::new(),
            more => format!("; and {more} more drivers"),
        };
        Some(format!("{id}: {exposure}: {mend}{more}"))
    }
}
