//! The plugin manager of a kubelet of a chosen release: watcher, reconciler, registration, API writes.
//!
//! [`TestKubelet`] runs in this process, [`KubeletProcess`] in its own, which a test can kill and whose
//! pid peer credentials show. The [`Ledger`] of each has everything that it did.

mod child;
mod cluster;
mod in_process;
mod inotify;
mod ledger;
mod operations;
mod pod_resources;
mod process;
mod reconciler;
mod record;
mod registration;
mod settings;
mod watcher;
mod world;

pub use child::{become_kubelet_if_asked, kubelet_main};
pub use cluster::{Cluster, CsiNodeEntry};
pub use in_process::TestKubelet;
pub use ledger::{Counts, Ledger, Mark};
pub use process::KubeletProcess;
pub use record::{Event, Object, Record};
pub use settings::{Faults, Release, Settings, Timing};
