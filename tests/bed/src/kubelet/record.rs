//! An event of the test kubelet.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An event with its time and the number of the kubelet's start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Since the first start of this kubelet.
    pub at: Duration,
    /// The number of the kubelet's start, from 1.
    pub generation: u32,
    /// What happened.
    pub event: Event,
}

/// An observation or an action of the kubelet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The kubelet runs; its plugin watcher may start later.
    Started,
    /// The kubelet watches plugins_registry, and has walked it.
    Watching,
    /// The kubelet ended; it forgets its registrations, the API objects stay.
    Stopped,
    /// GetInfo was answered.
    Asked {
        /// The link or socket in plugins_registry.
        path: PathBuf,
        /// As answered.
        name: String,
        /// As answered.
        endpoint: String,
    },
    /// The driver is registered, and the API objects are written; Notify comes next.
    Register {
        /// Driver name.
        name: String,
        /// The link or socket in plugins_registry.
        path: PathBuf,
        /// The driver's own socket.
        endpoint: String,
        /// From NodeGetInfo.
        node_id: String,
    },
    /// The kubelet de-registered the driver.
    Deregister {
        /// Driver name.
        name: String,
        /// The link or socket in plugins_registry.
        path: PathBuf,
        /// Whether it had been registered: before 1.36 the kubelet also de-registers failed drivers,
        /// without effect.
        registered: bool,
    },
    /// A write to the API server that changed an object.
    ApiWrite {
        /// What was written.
        object: Object,
        /// For which driver.
        driver: String,
    },
    /// Notify(true) was sent, or lost.
    Notified {
        /// Driver name.
        name: String,
        /// The link or socket in plugins_registry.
        path: PathBuf,
        /// Why it did not arrive, or the error that it got.
        error: Option<String>,
        /// Whether the driver stays registered; before 1.36 it does, whatever the answer.
        stands: bool,
    },
    /// Notify(false) was sent.
    Rejected {
        /// Driver name.
        name: String,
        /// The link or socket in plugins_registry.
        path: PathBuf,
        /// The words that were sent.
        error: String,
    },
    /// No process accepted the connection before the dial timed out.
    DialFailed {
        /// The link or socket in plugins_registry.
        path: PathBuf,
        /// The last reason.
        error: String,
    },
    /// A line at level error in the kubelet's log.
    ErrorLine {
        /// The line.
        text: String,
    },
}

/// API objects that a registration changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Object {
    /// The driver's entry in CSINode.
    CsiNode,
    /// The node-id annotation and the topology labels of Node.
    Node,
}
