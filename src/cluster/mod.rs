//! What the cluster knows of the registered drivers: asked with the kubelet's identity, compared, and repaired.
//!
//! The program `verify` does this, and the doctor reads its report. The daemon has none of it.

pub(crate) mod program;
pub(crate) mod report;

#[cfg(feature = "cluster")]
mod api_server;
#[cfg(feature = "cluster")]
mod comparison;
#[cfg(feature = "cluster")]
mod kubeconfig;
#[cfg(feature = "cluster")]
pub(crate) mod look;
#[cfg(feature = "cluster")]
mod machine;
#[cfg(feature = "cluster")]
mod memory;
#[cfg(feature = "cluster")]
mod node_name;
#[cfg(feature = "cluster")]
mod repair;
#[cfg(feature = "cluster")]
mod unasked;
#[cfg(feature = "cluster")]
pub(crate) mod verification;
