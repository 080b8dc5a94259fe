//! The sockets that a kubelet creates when it starts.

use std::path::{Path, PathBuf};

use crate::disk::socket::{self, ListenerProbe};
use crate::os::peer::Peer;

/// Every kubelet that starts creates this socket again, whatever its root directory is. Device
/// plugins watch it for the same reason.
const DEVICE_PLUGINS: &str = "/var/lib/kubelet/device-plugins/kubelet.sock";

/// The sockets of a kubelet with a given root directory.
#[derive(Clone, Debug)]
pub(crate) struct StartSockets {
    pod_resources: PathBuf,
}

impl StartSockets {
    pub(crate) fn of(root: &Path) -> StartSockets {
        StartSockets {
            pod_resources: root.join("pod-resources/kubelet.sock"),
        }
    }

    /// A process listens on the pod-resources socket.
    pub(crate) fn show_a_kubelet(&self) -> bool {
        socket::is_alive(&self.pod_resources)
    }

    /// The process that listens on the pod-resources socket, whatever its name is.
    pub(crate) fn listener(&self) -> Option<Peer> {
        match socket::probe(&self.pod_resources) {
            ListenerProbe::Alive(stream) => Peer::of(&stream?).ok(),
            ListenerProbe::Dead | ListenerProbe::Unknown(_) => None,
        }
    }

    pub(crate) fn sockets(&self) -> [PathBuf; 2] {
        [self.pod_resources.clone(), PathBuf::from(DEVICE_PLUGINS)]
    }
}
