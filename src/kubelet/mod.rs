//! The kubelet: its root directory, the kubelet processes that run, and the registration service
//! that they call.

pub(crate) mod endpoint;
pub(crate) mod known;
pub(crate) mod root;
pub(crate) mod start_sockets;
pub(crate) mod watched;
