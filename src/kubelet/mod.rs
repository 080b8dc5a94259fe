//! The kubelet: its root directory, the kubelet processes that run, the registration service that they
//! call, and the volumes that they have set up.

#[cfg(feature = "cluster")]
pub(crate) mod api_access;
pub(crate) mod endpoint;
pub(crate) mod known;
pub(crate) mod process;
pub(crate) mod root;
pub(crate) mod start_sockets;
pub(crate) mod volumes;
pub(crate) mod watched;
