//! The settings of a test kubelet: release, paths, times and faults.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::channel::Redial;

/// Releases that behave differently; each represents a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Release {
    /// Before 1.25.0: the kubelet ignores links when it starts.
    V1_24,
    /// 1.25.0 to 1.35: it sees links at the start; it does not retry a failure after GetInfo.
    V1_35,
    /// From 1.36.0: it retries every failure, and the answer to Notify counts.
    V1_36,
}

impl Release {
    /// Every release, for tests that go through all of them.
    pub const ALL: [Self; 3] = [Self::V1_24, Self::V1_35, Self::V1_36];

    /// The user agent of its gRPC library.
    pub(super) fn user_agent(self) -> &'static str {
        match self {
            Self::V1_24 => "grpc-go/1.40.0",
            Self::V1_35 => "grpc-go/1.72.2",
            Self::V1_36 => "grpc-go/1.76.0",
        }
    }

    /// When it restores a connection that was lost during a registration: 1.24 has grpc-go 1.40.
    pub(super) fn redial(self, pause: Duration) -> Redial {
        match self {
            Self::V1_24 => Redial::Paced(pause),
            Self::V1_35 | Self::V1_36 => Redial::WithTheNextCall,
        }
    }

    /// The walk at the start follows links (1.25.0 and later).
    pub(super) fn walk_follows_links(self) -> bool {
        self >= Self::V1_35
    }

    /// It forgets a registration that failed late, and so retries it (1.36.0 and later).
    pub(super) fn forgets_failed_registrations(self) -> bool {
        self >= Self::V1_36
    }
}

impl PartialOrd for Release {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (*self as u8).partial_cmp(&(*other as u8))
    }
}

/// The directories and the behaviour of a kubelet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// The kubelet's root directory; `plugins_registry` and `pod-resources` are below it.
    pub root: PathBuf,
    /// Which release it is.
    pub release: Release,
    /// Loop, back-off and deadlines.
    pub timing: Timing,
    /// Whether `pod-resources/kubelet.sock` is served.
    pub pod_resources: bool,
    /// How long after `pod-resources/kubelet.sock` the plugin watcher starts, as it does when
    /// the container runtime is slow.
    pub watcher_delay: Duration,
}

impl Settings {
    /// A kubelet with a real kubelet's times.
    pub fn new(root: impl Into<PathBuf>, release: Release) -> Self {
        Self {
            root: root.into(),
            release,
            timing: Timing::default(),
            pod_resources: true,
            watcher_delay: Duration::ZERO,
        }
    }

    /// The same with other times.
    #[must_use]
    pub fn with_timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// The same with a watcher that starts this much later.
    #[must_use]
    pub fn with_watcher_delay(mut self, delay: Duration) -> Self {
        self.watcher_delay = delay;
        self
    }

    /// The same without `pod-resources/kubelet.sock`.
    #[must_use]
    pub fn without_pod_resources(mut self) -> Self {
        self.pod_resources = false;
        self
    }

    /// The directory that it watches.
    pub fn plugins_registry(&self) -> PathBuf {
        self.root.join("plugins_registry")
    }

    /// The socket that shows that a kubelet runs.
    pub fn pod_resources_socket(&self) -> PathBuf {
        Path::new(&self.root).join("pod-resources/kubelet.sock")
    }
}

/// The kubelet's times; the defaults are a real kubelet's.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Timing {
    /// Between two rounds of the reconciler.
    pub loop_interval: Duration,
    /// After the first failure on a path.
    pub backoff_initial: Duration,
    /// The longest back-off.
    pub backoff_max: Duration,
    /// The deadline of a dial.
    pub dial_timeout: Duration,
    /// grpc-go's pause after a refused connect within one dial; each pause is 1.6 times the last.
    pub redial: Duration,
    /// Deadline of GetInfo.
    pub get_info: Duration,
    /// Deadline of NodeGetInfo.
    pub node_get_info: Duration,
    /// Deadline of NotifyRegistrationStatus.
    pub notify: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            loop_interval: Duration::from_secs(1),
            backoff_initial: Duration::from_millis(500),
            backoff_max: Duration::from_secs(122),
            dial_timeout: Duration::from_secs(10),
            redial: Duration::from_secs(1),
            get_info: Duration::from_secs(1),
            node_get_info: Duration::from_secs(120),
            notify: Duration::from_secs(5),
        }
    }
}

impl Timing {
    /// Loop, back-off and dial this many times faster. Deadlines of calls stay: a slow machine would
    /// miss shorter deadlines.
    #[must_use]
    pub fn faster(factor: u32) -> Self {
        let real = Self::default();
        Self {
            loop_interval: real.loop_interval / factor,
            backoff_initial: real.backoff_initial / factor,
            backoff_max: real.backoff_max / factor,
            dial_timeout: real.dial_timeout / factor,
            redial: real.redial / factor,
            ..real
        }
    }
}

/// Faults that a test can switch on and off while the kubelet runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
// A sender may leave fields out.
#[serde(default)]
pub struct Faults {
    /// Validation refuses every driver, with these words; every release retries.
    pub refuse: Option<String>,
    /// Writes to the API server fail with this message: a failure after GetInfo.
    pub fail_api_writes: Option<String>,
    /// The next registrations lose their connection in place of Notify(true), this many times.
    pub lose_notify: u32,
    /// A pause after GetInfo with the connection open, as with a slow NodeGetInfo.
    pub delay_after_get_info: Duration,
    /// A pause before Notify(true), as with slow writes to the API server: the driver is registered,
    /// and the registrar does not know yet.
    pub delay_before_notify: Duration,
    /// The kubelet closes GetInfo's connection at once, and calls Notify on a new one. No release does
    /// this yet; it was proposed.
    pub notify_apart: bool,
    /// The reconciler is paused: the watcher sees events, and nothing follows from them.
    pub pause: bool,
}
