//! The CSIDriver object that a driver's answers suggest.

use std::fmt;
use std::path::Path;

use serde::Serialize;
use thiserror::Error;

use super::error::DriverError;
use super::inspection::Inspection;
use super::query::{DriverQuery, Timed, controller_client};
use super::rules::{self, Breach};
use crate::disk::name::{DriverName, NameError};
use crate::grpc::client::Channel;
use crate::grpc::proto::csi::ControllerGetCapabilitiesRequest;
use crate::grpc::proto::csi::controller_service_capability::Type;
use crate::grpc::proto::csi::controller_service_capability::rpc::Type as ControllerRpc;
use crate::os::text::printable;

const CONTROLLER_SERVICE: &str = "CONTROLLER_SERVICE";
const VOLUME_MOUNT_GROUP: &str = "VOLUME_MOUNT_GROUP";

/// What the answers say about ControllerPublishVolume, the call behind an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attaching {
    /// ControllerGetCapabilities lists PUBLISH_UNPUBLISH_VOLUME.
    Published,
    /// ControllerGetCapabilities does not list it.
    Unpublished,
    /// GetPluginCapabilities does not list CONTROLLER_SERVICE.
    NoController,
    /// The driver has a Controller service, and this socket does not say more. The reason.
    NotTold(String),
}

/// The object as the API server takes it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CsiDriverObject {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    spec: Spec,
    /// For the comments.
    #[serde(skip)]
    evidence: Evidence,
}

#[derive(Clone, Debug, Serialize)]
struct Metadata {
    name: DriverName,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    attach_required: bool,
    volume_lifecycle_modes: [&'static str; 1],
}

#[derive(Clone, Debug)]
struct Evidence {
    socket: String,
    vendor_version: String,
    attaching: Attaching,
    /// The driver applies a pod's fsGroup itself.
    mounts_group: bool,
}

/// Why no object can be made of the answers.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum CsiDriverError {
    #[error("no CSIDriver object for a driver without a name: {0}")]
    NoName(String),
    #[error("no CSIDriver object for this driver: {0}")]
    Name(#[from] NameError),
    #[error(
        "no CSIDriver object for this driver: the API server refuses the name \"{0}\", because it is not a DNS subdomain"
    )]
    NoSubdomain(DriverName),
}

impl DriverQuery {
    /// Makes the calls of `inspect`, and asks the Controller service, too.
    pub(crate) async fn inspect_with_controller(
        &self,
        slow: impl FnOnce(DriverError),
    ) -> Result<(Inspection, Attaching), DriverError> {
        self.look().await?;
        let (channel, ended) = self.connect().await?;
        let asked = async {
            let inspection = self.ask_everything(&channel, slow).await?;
            let attaching = self.ask_controller(&channel, &inspection).await;
            Ok((inspection, attaching))
        };
        self.while_open(ended, asked).await
    }

    /// Asks only whether the driver attaches volumes.
    #[cfg(feature = "cluster")]
    pub(crate) async fn attaching(&self) -> Result<Attaching, DriverError> {
        self.look().await?;
        let (channel, ended) = self.connect().await?;
        let asked = async {
            let mut seen = Inspection::default();
            self.ask_capabilities(&channel, &mut seen).await;
            Ok(self.ask_controller(&channel, &seen).await)
        };
        self.while_open(ended, asked).await
    }

    async fn ask_controller(&self, channel: &Channel, seen: &Inspection) -> Attaching {
        let has = |name: &String| name == CONTROLLER_SERVICE;
        let listed = seen.plugin_capabilities.iter().any(has);
        if !listed && seen.answered("GetPluginCapabilities") {
            return Attaching::NoController;
        }
        let mut controller = controller_client(channel);
        let reply = controller.controller_get_capabilities(ControllerGetCapabilitiesRequest {});
        let Timed { answer, .. } = self.call("ControllerGetCapabilities", reply).await;
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => return Attaching::NotTold(error.to_string()),
        };
        let mut capabilities = reply.capabilities.into_iter().filter_map(|all| all.r#type);
        let publishes = |Type::Rpc(rpc)| rpc.r#type() == ControllerRpc::PublishUnpublishVolume;
        if capabilities.any(publishes) {
            Attaching::Published
        } else {
            Attaching::Unpublished
        }
    }
}

impl Attaching {
    /// Without a Controller service nothing can attach: even the external-attacher makes no call then.
    /// Where the answers do not tell, true is Kubernetes' default, and the value that risks no data: it
    /// keeps a volume that is attached to one node from a second node.
    pub(crate) fn required(&self) -> bool {
        match self {
            Attaching::Published | Attaching::NotTold(_) => true,
            Attaching::Unpublished | Attaching::NoController => false,
        }
    }

    /// The reason for the value, in lines.
    fn reason(&self) -> Vec<String> {
        let lines: &[&str] = match self {
            Attaching::Published => &[
                "ControllerGetCapabilities lists PUBLISH_UNPUBLISH_VOLUME: a volume must be attached before",
                "a node can use it. Run the external-attacher beside the driver's controller: without it, pods",
                "wait for the attachment indefinitely.",
            ],
            Attaching::Unpublished => &[
                "ControllerGetCapabilities does not list PUBLISH_UNPUBLISH_VOLUME: the driver attaches nothing,",
                "and no external-attacher is needed.",
            ],
            Attaching::NoController => &[
                "GetPluginCapabilities does not list CONTROLLER_SERVICE: the driver attaches nothing. If its",
                "controller reports another list, and has PUBLISH_UNPUBLISH_VOLUME, change this to true.",
            ],
            Attaching::NotTold(why) => {
                return vec![
                    format!("The driver's answers do not tell this: {}.", printable(why)),
                    "PUBLISH_UNPUBLISH_VOLUME of the driver's controller decides: run this command on the"
                        .to_owned(),
                    "controller's socket. true is Kubernetes' default, and protects a volume from use on two nodes;"
                        .to_owned(),
                    "but if no external-attacher runs for this driver, pods wait for the attachment indefinitely:"
                        .to_owned(),
                    "change this to false then.".to_owned(),
                ];
            }
        };
        lines.iter().map(|line| (*line).to_owned()).collect()
    }
}

impl CsiDriverObject {
    /// The object, and the warnings about it.
    pub(crate) fn suggested(
        seen: &Inspection,
        attaching: Attaching,
        socket: &Path,
    ) -> Result<(CsiDriverObject, Vec<Breach>), CsiDriverError> {
        let Some(name) = seen.name.as_deref() else {
            let calls = seen.calls.iter();
            let why = calls.filter_map(|call| call.error.clone()).next();
            let why = why.unwrap_or_else(|| "GetPluginInfo did not answer".to_owned());
            return Err(CsiDriverError::NoName(why));
        };
        let name = DriverName::parse(name)?;
        if !rules::is_subdomain(&name.as_str().to_ascii_lowercase()) {
            return Err(CsiDriverError::NoSubdomain(name));
        }
        let mut warnings = Vec::new();
        if !rules::is_subdomain(name.as_str()) {
            warnings.push(Breach::harmless(format!(
                "the name \"{name}\" has upper-case letters, and recent releases of Kubernetes refuse them in the name of a CSIDriver object"
            )));
        }
        match &attaching {
            Attaching::NotTold(why) => warnings.push(Breach::harmless(format!(
                "attachRequired is true, because the driver's answers do not tell it ({why}): see the comment in the manifest"
            ))),
            Attaching::NoController => warnings.push(Breach::harmless(
                "attachRequired is false, because this process of the driver has no Controller service; a controller elsewhere may attach volumes, and the field cannot be changed later: if the driver has a controller, run this command on its socket".to_owned(),
            )),
            Attaching::Published | Attaching::Unpublished => {}
        }
        let mounts_group = |name: &String| name == VOLUME_MOUNT_GROUP;
        let object = CsiDriverObject {
            api_version: "storage.k8s.io/v1",
            kind: "CSIDriver",
            metadata: Metadata { name },
            spec: Spec {
                attach_required: attaching.required(),
                volume_lifecycle_modes: ["Persistent"],
            },
            evidence: Evidence {
                socket: printable(&socket.display().to_string()),
                vendor_version: printable(seen.vendor_version.as_deref().unwrap_or_default()),
                attaching,
                mounts_group: seen.node_capabilities.iter().any(mounts_group),
            },
        };
        Ok((object, warnings))
    }
}

/// YAML with comments. The name has letters, digits, `-` and `.` only, and is quoted, because YAML reads
/// a name such as `1.0` or `null` as another type.
impl fmt::Display for CsiDriverObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (spec, evidence) = (&self.spec, &self.evidence);
        let name = &self.metadata.name;
        let version = &evidence.vendor_version;
        writeln!(
            f,
            "# The CSIDriver object that the driver's answers suggest."
        )?;
        writeln!(
            f,
            "# Driver {name}, version {version}, on {}",
            evidence.socket
        )?;
        writeln!(f, "# Read the comments, then: kubectl apply -f FILE")?;
        writeln!(f, "apiVersion: {}", self.api_version)?;
        writeln!(f, "kind: {}", self.kind)?;
        writeln!(f, "metadata:\n  name: \"{name}\"")?;
        writeln!(f, "spec:")?;
        for line in evidence.attaching.reason() {
            writeln!(f, "  # {line}")?;
        }
        writeln!(
            f,
            "  # Immutable: to change it, delete the object and create it again."
        )?;
        writeln!(f, "  attachRequired: {}", spec.attach_required)?;
        writeln!(f, "  # Immutable, too.")?;
        writeln!(f, "  volumeLifecycleModes:")?;
        for mode in spec.volume_lifecycle_modes {
            writeln!(f, "    - {mode}")?;
        }
        f.write_str(EPHEMERAL)?;
        f.write_str(NOT_TOLD)?;
        if evidence.mounts_group {
            f.write_str(MOUNT_GROUP)?;
        }
        f.write_str(FS_GROUP_POLICY)?;
        f.write_str(NEWER)
    }
}

const EPHEMERAL: &str = "    \
    # For inline volumes in a pod's spec. The driver's documentation says whether it supports them:
    # - Ephemeral
";

const NOT_TOLD: &str = "
  # The driver's answers do not tell the following fields. The values are Kubernetes' defaults.

  # true: NodePublishVolume gets the pod's name, namespace, uid and service account. Drivers with inline
  # volumes need it.
  # podInfoOnMount: false

  # true: the kubelet repeats NodePublishVolume periodically (from 1.21 on), for volumes with content
  # that changes, such as tokens.
  # requiresRepublish: false

  # true: the scheduler looks at the CSIStorageCapacity objects of this driver (from 1.21 on). The
  # external-provisioner can create them; without them, pods are not scheduled.
  # storageCapacity: false

  # true: the driver accepts the mount option context=, so that SELinux needs no relabelling (from 1.27 on).
  # seLinuxMount: false

  # How the kubelet applies a pod's fsGroup (from 1.20 on): ReadWriteOnceWithFSType only to volumes with a
  # file system type and access mode ReadWriteOnce, File to all volumes, None to none.
";

const MOUNT_GROUP: &str = "  \
  # This driver has VOLUME_MOUNT_GROUP: a kubelet from 1.23 on leaves fsGroup to the driver.
";

const FS_GROUP_POLICY: &str = "  # fsGroupPolicy: ReadWriteOnceWithFSType
";

const NEWER: &str = "
  # For newer releases only: an API server that does not know a field refuses or drops it.

  # The kubelet asks for the volume limit again in this interval, at least 10 seconds (on by default from
  # 1.36 on, alpha in 1.33). Without it, a changed limit counts from the next registration on.
  # nodeAllocatableUpdatePeriodSeconds: 60

  # true: no pod that uses this driver is scheduled to a node where it is not registered (beta in 1.37).
  # preventPodSchedulingIfMissing: false
";

#[cfg(test)]
mod tests;
