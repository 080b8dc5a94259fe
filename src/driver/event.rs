//! What happens to a driver, and what is done about it.

use super::AdvertisedInfo;
use crate::disk::identity::Identity;
use crate::disk::layout::LinkAlias;
use crate::disk::name::DriverName;
use crate::disk::obstacle::Obstacle;
use crate::driver::answer::Answer;
use crate::os::process::Process;

/// Whom a kubelet calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Calling {
    Nobody,
    /// It goes through other drivers, and this one may be next: to make its link anew would only
    /// give the kubelet more to do.
    Others,
    /// It has asked this driver's socket, and has not said yet how it went.
    This,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    /// The driver has come, or come back.
    DriverAnswered(Answer),
    /// The driver runs on, and may say something else than before.
    DriverChanged(Answer),
    /// The driver has not answered yet, and is given more time.
    DriverSlow(String),
    DriverSilent(String),
    /// The driver is not asked, because others could be in its place.
    DriverRefused(String),
    /// The same, and what the kubelet would call at the driver's place is another user's.
    DriverTaken(String),
    SocketServed(Identity),
    SocketBlocked(Obstacle),
    LinkPublished(Identity),
    LinkBlocked(Obstacle),
    /// What was seen at the socket's place.
    SocketSeen(Seen),
    /// What was seen at the link's place.
    LinkSeen(Seen),
    KubeletAsked(Option<Process>),
    /// Through the link as it was when the kubelet asked, if it asked on the same connection.
    KubeletRegistered {
        kubelet: Option<Process>,
        through: Option<Identity>,
        /// What it was told then.
        told: Option<AdvertisedInfo>,
    },
    KubeletRejected(Option<Process>, String),
    KubeletEnded(Process),
    KubeletStarted,
    /// plugins_registry was deleted and made anew under a running kubelet.
    DirectoryReplaced,
    /// A deadline has come, or it is time to look at everything.
    Ticked {
        kubelet_there: bool,
        calling: Calling,
    },
    /// By hand.
    Withdraw,
    Publish,
    /// The link is to be made anew, for the reason in these words.
    Reannounce(&'static str),
}

/// Who is at a place of ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Seen {
    Ours(Identity),
    /// Nobody, somebody else, or something dead: whatever it is, it is looked at again before
    /// anything is put there.
    NotOurs,
}

/// What is to be done. Each is done at once, and its outcome comes back as an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    /// Listen on the registration socket: SocketServed or SocketBlocked.
    Serve(DriverName),
    /// Stop listening, and remove the socket if it is still ours. Without one that stands, what
    /// is there and dead.
    Unserve(DriverName, Option<Identity>),
    /// Make sure that the link is there: LinkPublished or LinkBlocked.
    Publish(DriverName, LinkAlias),
    /// Put a new link over the old one: LinkPublished or LinkBlocked.
    Announce(DriverName, LinkAlias),
    /// Remove the link if it is still this one.
    Unlink(DriverName, LinkAlias, Identity),
    /// Write down what must survive us.
    Save,
}
