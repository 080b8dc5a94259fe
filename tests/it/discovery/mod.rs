//! Drivers and kubelets that the registrar discovers.

mod discovered_drivers;
mod example_files;
pub(crate) mod kubelet_root;
mod many_drivers;
mod removed_drivers;
