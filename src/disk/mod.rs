//! What stands on disk for a registration: the socket we serve, the link that the kubelet finds, and
//! the means to look at them and to replace exactly one of them.

pub(crate) mod directory;
pub(crate) mod identity;
pub(crate) mod layout;
pub(crate) mod link;
pub(crate) mod name;
pub(crate) mod obstacle;
pub(crate) mod reach;
pub(crate) mod removals;
pub(crate) mod runtime_dir;
pub(crate) mod socket;
pub(crate) mod swap;
pub(crate) mod sweep;
pub(crate) mod watch;
