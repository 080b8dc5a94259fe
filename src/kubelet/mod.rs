//! The kubelet: where it lives, which ones run, and the registration service that they call.

pub(crate) mod endpoint;
pub(crate) mod known;
pub(crate) mod root;
