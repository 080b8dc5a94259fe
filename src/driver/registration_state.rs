//! The kubelet's side: what it was told, and what it has said.

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

/// The kubelet's side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum RegistrationState {
    Unregistered(Unregistered),
    Rejected {
        kubelet: Option<Process>,
        error: String,
    },
    Registered(Registration),
}

/// A kubelet's yes. It stands while that process runs and the link is the same object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Registration {
    /// None when the kubelet lives in another pid namespace.
    pub(super) kubelet: Option<Process>,
    /// The driver as the cluster knows it.
    pub(super) answer: Answer,
    pub(super) terms: AdvertisedInfo,
}

/// Why the driver is not registered (any more).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unregistered {
    NotYet,
    KubeletEnded,
    LinkChanged,
    /// The link was made anew because of this.
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
