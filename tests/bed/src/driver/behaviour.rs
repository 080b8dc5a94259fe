//! The behaviour of a fake driver: its data and its faults.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tonic::Code;

/// Everything that a test can choose about a driver; start from [`Behaviour::named`].
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// The name that GetPluginInfo reports; any text, even a hostile one.
    pub name: String,
    /// The version that GetPluginInfo reports.
    pub vendor_version: String,
    /// The node id that NodeGetInfo reports; CSI forbids an empty one.
    pub node_id: String,
    /// Volumes for each node; 0 leaves it to the cluster.
    pub max_volumes: i64,
    /// Topology segments of the node.
    pub topology: BTreeMap<String, String>,
    /// The answer to Probe.
    pub probe: Probe,
    /// The Controller service.
    pub controller: Controller,
    /// Whether GetPluginInfo works.
    pub get_plugin_info: Answer,
    /// Whether NodeGetInfo works.
    pub node_get_info: Answer,
    /// The words of a call that fails.
    pub complaint: String,
    /// Calls that never get an answer.
    pub hangs: BTreeSet<Call>,
    /// A pause before each answer.
    pub delay: Duration,
    /// A pause before the answers to these calls, on top of that.
    pub delays: BTreeMap<Call, Duration>,
    /// Which connections the server closes by itself.
    pub closing: Closing,
    /// The socket below gRPC.
    pub listening: Listening,
}

impl Behaviour {
    /// A healthy driver with this name, without topology.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            vendor_version: "1.2.3".to_owned(),
            node_id: "node-1".to_owned(),
            max_volumes: 0,
            topology: BTreeMap::new(),
            probe: Probe::Ready,
            controller: Controller::Absent,
            get_plugin_info: Answer::Works,
            node_get_info: Answer::Works,
            complaint: "the fake driver was told to fail".to_owned(),
            hangs: BTreeSet::new(),
            delay: Duration::ZERO,
            delays: BTreeMap::new(),
            closing: Closing::Never,
            listening: Listening::Speaks,
        }
    }

    /// The same with another node id.
    #[must_use]
    pub fn on_node(mut self, node_id: impl Into<String>) -> Self {
        self.node_id = node_id.into();
        self
    }

    /// The same with one more topology segment.
    #[must_use]
    pub fn with_topology(mut self, key: &str, value: &str) -> Self {
        self.topology.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The same, but this call never gets an answer.
    #[must_use]
    pub fn hanging_on(mut self, call: Call) -> Self {
        self.hangs.insert(call);
        self
    }

    /// The same, but this call gets its answer only after this time.
    #[must_use]
    pub fn taking(mut self, call: Call, time: Duration) -> Self {
        self.delays.insert(call, time);
        self
    }

    /// The same with a server that closes connections by itself.
    #[must_use]
    pub fn closing(mut self, closing: Closing) -> Self {
        self.closing = closing;
        self
    }
}

/// Answers to Probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// `ready = true`
    Ready,
    /// `ready = false`: still starting.
    NotReady,
    /// No `ready` at all, which means ready.
    Absent,
    /// An error: unhealthy.
    Fails(Code),
}

/// The Controller service of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// The driver does not have it.
    Absent,
    /// The driver has it in another process: this socket does not implement its calls.
    Elsewhere,
    /// ControllerGetCapabilities has PUBLISH_UNPUBLISH_VOLUME.
    Publishes,
    /// ControllerGetCapabilities does not have it.
    Provisions,
    /// ControllerGetCapabilities fails.
    Fails(Code),
}

/// Whether a call works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It works.
    Works,
    /// Fails until the behaviour is changed. `Code::Unimplemented` is a driver without the service.
    Fails(Code),
    /// Fails for this long after the behaviour was set, then works.
    FailsFor(Duration, Code),
}

/// The socket's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listening {
    /// The driver speaks gRPC.
    Speaks,
    /// The file exists, but the driver has not called `listen` yet: connect is refused.
    BoundOnly,
    /// The driver accepts connections and never sends a byte.
    Mute,
    /// The file exists, and no process has it open: connect is refused.
    Refuses,
}

/// Which connections a server closes by itself, as gRPC servers can be configured to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// None.
    Never,
    /// Idle connections after this time, with a GOAWAY (max_connection_idle). It cuts off a call that
    /// takes longer.
    Idle(Duration),
    /// The same without a GOAWAY.
    IdleUnsaid(Duration),
    /// Connections older than this, with a GOAWAY once they are idle (max_connection_age).
    Aged(Duration),
}

/// The calls that a driver knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// Identity.GetPluginInfo
    GetPluginInfo,
    /// Identity.GetPluginCapabilities
    GetPluginCapabilities,
    /// Identity.Probe
    Probe,
    /// Controller.ControllerGetCapabilities
    ControllerGetCapabilities,
    /// Node.NodeGetInfo
    NodeGetInfo,
    /// Node.NodeGetCapabilities
    NodeGetCapabilities,
}
