//! Drivers and kubelets that are found.

mod departures;
mod examples;
mod found;
mod kubelet_root;
mod neighbours;
mod scale;
