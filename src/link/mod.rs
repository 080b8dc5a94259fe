//! What stands on disk for a registration: the socket we serve, and the link that the kubelet finds.

pub(crate) mod layout;
pub(crate) mod obstacle;
pub(crate) mod place;
pub(crate) mod sweep;
