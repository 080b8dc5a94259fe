//! One thing that the test kubelet saw or did.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An event with its time and the life of the kubelet that it happened in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Since the first start of this kubelet.
    pub at: Duration,
    /// Which start of the kubelet it was, from 1.
    pub generation: u32,
    /// What happened.
    pub event: Event,
}

/// What a kubelet sees and does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The kubelet is up; its plugin watcher may still be to come.
    Started,
    /// plugins_registry is watched and was walked.
    Watching,
    /// The kubelet ended; whatever was registered is forgotten, the API objects stay.
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
    /// The driver is registered and the API objects say so; Notify comes next.
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
    /// The driver was let go of.
    Deregister {
        /// Driver name.
        name: String,
        /// The link or socket in plugins_registry.
        path: PathBuf,
        /// Whether it had been registered: before 1.36 the kubelet also de-registers, without
        /// effect, what had failed.
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
        /// Why it did not arrive or was not answered well.
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
    /// Nobody took the connection for as long as a dial goes on.
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

/// API objects that a registration shows in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Object {
    /// The driver's entry in CSINode.
    CsiNode,
    /// The node-id annotation and the topology labels of Node.
    Node,
}
