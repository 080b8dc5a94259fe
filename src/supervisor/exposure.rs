//! Drivers that the configuration names, in places that others than root may write to: they are
//! served, and the operator is told.

use super::{DriverId, Supervisor};
use crate::csi::trust::Exposure;

impl Supervisor {
    /// Looks at the way to the socket of a driver that is named. One that was found is refused by the
    /// one who asks it.
    pub(super) fn look_at_exposure(&mut self, id: &DriverId) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let socket = &entry.settings.csi_socket;
        let now = if entry.found || self.reach.may_hang(socket) {
            // Nobody waits here for a file system that another machine or program serves.
            None
        } else {
            // What cannot be looked at cannot be connected to either, and that says why.
            Exposure::of(socket).unwrap_or(None)
        };
        if now == entry.exposure {
            return;
        }
        if let Some(exposure) = &now {
            let mend = exposure.mend();
            tracing::warn!(driver = %id, csi_socket = %socket.display(), "{id}: {exposure}, and could put a driver of their own in its place: {mend}");
        }
        entry.exposure = now;
        self.changed = true;
    }

    /// What a note says of them.
    pub(super) fn exposed(&self) -> Option<String> {
        let mut exposed = self
            .entries
            .iter()
            .filter_map(|(id, entry)| Some((id, entry.exposure.as_ref()?)));
        let (id, exposure) = exposed.next()?;
        let mend = exposure.mend();
        let more = match exposed.count() {
            0 => String::new(),
            more => format!("; and {more} more drivers"),
        };
        Some(format!("{id}: {exposure}: {mend}{more}"))
    }
}
