//! What the kubelet was told, and what it has said.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::driver::answer::Answer;
use crate::os::process::Process;

/// What the configuration adds to the driver's own answer when the kubelet asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct AdvertisedInfo {
    /// csi.sock as the kubelet sees it.
    pub(crate) endpoint: PathBuf,
    pub(crate) versions: Vec<String>,
}

/// What the kubelet has said of the driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum RegistrationState {
    Unregistered(Unregistered),
    Rejected {
        kubelet: Option<Process>,
        error: String,
    },
    Registered(Registration),
}

/// A kubelet's yes. It holds while that process runs and the link is the same object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Registration {
    /// The driver as the cluster knows it.
    pub(crate) answer: Answer,
    pub(crate) advertised: AdvertisedInfo,
    /// None when the kubelet lives in another pid namespace.
    pub(crate) kubelet: Option<Process>,
}

/// Why the driver is not registered (any more).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unregistered {
    NotYet,
    KubeletEnded,
    LinkChanged,
    /// The link was recreated for this reason.
    Announced(String),
    /// The kubelet watches a directory that was deleted; no release ever looks at its successor.
    DirectoryReplaced,
}

impl AdvertisedInfo {
    pub(super) fn change_to(&self, now: &AdvertisedInfo) -> Option<String> {
        if self.endpoint != now.endpoint {
            return Some(format!(
                "endpoint changed from {} to {}",
                self.endpoint.display(),
                now.endpoint.display()
            ));
        }
        (self.versions != now.versions).then(|| "supported versions changed".to_owned())
    }
}
