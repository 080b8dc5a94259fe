//! What stands on disk for a registration: the socket we serve, the link that the kubelet finds, and
//! the means to look at them and to replace exactly one of them.

pub(crate) mod directory;
pub(crate) mod identity;
pub(crate) mod layout;
pub(crate) mod link;
pub(crate) mod name;
pub(crate) mod nesting;
pub(crate) mod obstacle;
mod occupant;
pub(crate) mod reach;
pub(crate) mod reg_socket;
mod replace;
pub(crate) mod runtime_dir;
pub(crate) mod socket;
pub(crate) mod sweep;
pub(crate) mod watch;
