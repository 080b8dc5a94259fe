//! The phases of a driver's life, under the names that status, logs, metrics and docs share.

use std::fmt;

/// The phase of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// No usable answer from the driver yet.
    WaitingForDriver,
    /// The driver answers; the kubelet has not said yes yet.
    WaitingForKubelet,
    /// A kubelet that still runs has said yes.
    Registered,
    /// The kubelet said no.
    Rejected,
    /// A file or a process of others is at the link's or the socket's path.
    Conflict,
    /// The link was removed on purpose.
    Withdrawn,
}

impl Phase {
    /// Every phase, in the order of a driver's life.
    pub(crate) const ALL: [Phase; 6] = [
        Phase::WaitingForDriver,
        Phase::WaitingForKubelet,
        Phase::Registered,
        Phase::Rejected,
        Phase::Conflict,
        Phase::Withdrawn,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Phase::WaitingForDriver => "waiting-for-driver",
            Phase::WaitingForKubelet => "waiting-for-kubelet",
            Phase::Registered => "registered",
            Phase::Rejected => "rejected",
            Phase::Conflict => "conflict",
            Phase::Withdrawn => "withdrawn",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
