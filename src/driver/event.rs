//! What happens to a driver.

use super::AdvertisedInfo;
use crate::disk::identity::Identity;
use crate::disk::obstacle::Obstacle;
use crate::driver::answer::Answer;
use crate::kubelet::volumes::VolumeUse;
use crate::os::process::Process;

/// Which driver a kubelet calls at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Calling {
    Nobody,
    /// The kubelet calls other drivers, and may call this one next: a new link would only give it more
    /// to do.
    Others,
    /// The kubelet has asked on this driver's socket, and has not reported the outcome yet.
    This,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    /// The driver has started, or was away and answers again.
    DriverAnswered(Answer),
    /// The driver has not restarted, and may answer something else than before.
    DriverChanged(Answer),
    /// The driver has not answered yet, and gets more time.
    DriverSlow(String),
    DriverSilent(String),
    /// The driver is not asked, because other users could replace it.
    DriverRefused(String),
    /// The same, and the socket that the kubelet would call is another user's.
    DriverTaken(String),
    SocketServed(Identity),
    SocketBlocked(Obstacle),
    LinkPublished(Identity),
    LinkBlocked(Obstacle),
    /// What was seen at the socket's path.
    SocketSeen(Seen),
    /// What was seen at the link's path.
    LinkSeen(Seen),
    KubeletAsked,
    /// Through the link as it was when the kubelet asked, if it asked on the same connection.
    KubeletRegistered {
        kubelet: Option<Process>,
        through: Option<Identity>,
        /// What the kubelet was told then.
        told: Option<AdvertisedInfo>,
    },
    KubeletRejected(Option<Process>, String),
    KubeletEnded(Process),
    KubeletStarted,
    /// plugins_registry was deleted and recreated under a running kubelet.
    DirectoryReplaced,
    /// A deadline has passed, or it is time to look at everything.
    Ticked {
        kubelet_there: bool,
        calling: Calling,
    },
    /// A look at the driver's volumes has ended.
    VolumesSeen(VolumeUse),
    /// By hand, unless these volumes are in use.
    Withdraw(VolumeUse),
    /// By hand, whatever is in use.
    WithdrawInUse,
    Publish,
    /// The link must be recreated, for this reason.
    Reannounce(&'static str),
}

/// What was seen at a path of ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Seen {
    Ours(Identity),
    /// Nothing, a file of another process, or a dead socket. It is looked at again before a file is
    /// put there.
    NotOurs,
}
