//! The driver's side: its socket is there, somebody listens, and the answer can be used.

use std::path::Path;

use humantime::format_duration;

use super::{AS_ROOT, Finding};
use crate::config::DriverSettings;
use crate::csi::error::DriverError;
use crate::csi::query::{DriverQuery, NODE_GET_INFO};
use crate::csi::trust::Exposure;
use crate::disk::directory;
use crate::disk::reach::Reach;
use crate::driver::answer::{Answer, AnswerError};
use crate::grpc::proto::control::{Cause, Driver};

/// Where a finding is about who may write to the way to a driver.
const PLUGIN_DIRECTORY: &str = "plugin directory";
const HANGS: &str = "the driver hangs: look at its log, and restart it";

/// Others may put themselves in the place of what is at the end of this way.
pub(super) fn exposed(way: &Path, reach: &Reach) -> Option<Finding> {
    // What cannot be looked at is told by those who need it.
    if reach.may_hang(way) {
        return None;
    }
    let exposure = Exposure::of(way).ok().flatten()?;
    let mend = exposure.mend();
    Some(Finding::warning(
        PLUGIN_DIRECTORY,
        exposure.to_string(),
        mend,
    ))
}

/// Asks the driver as the daemon would: one that was `found` must be out of others' reach. But nobody
/// is to look at a silent terminal for as long as NodeGetInfo may take.
///
/// `known` is what the daemon says of the driver, which has waited longer.
pub(super) async fn ask(
    settings: &DriverSettings,
    found: bool,
    known: Option<&Driver>,
    reach: &Reach,
) -> Result<Answer, Finding> {
    let hurried = DriverSettings {
        node_info_timeout: settings.node_info_timeout.min(settings.request_timeout),
        ..settings.clone()
    };
    let query = DriverQuery::new(&hurried, found, reach);
    match asked(&query).await {
        Ok(answer) => Ok(answer),
        Err(late) if late.is_node_info_late() && hurried != *settings => {
            let given_up = known.filter(|driver| driver.cause() == Cause::NodeInfoLate);
            Err(given_up.map_or_else(
                || slow(settings),
                |driver| Finding::fault(NODE_GET_INFO, driver.reason.as_str(), HANGS),
            ))
        }
        Err(trouble) => Err(diagnose(settings, &trouble)),
    }
}

async fn asked(query: &DriverQuery) -> Result<Answer, DriverError> {
    query.look().await?;
    query.ask().await
}

fn slow(settings: &DriverSettings) -> Finding {
    let saw = format!(
        "NodeGetInfo has taken longer than {}; the kubelet and the registrar wait up to {} for it",
        format_duration(settings.request_timeout),
        format_duration(settings.node_info_timeout)
    );
    let mend = format!(
        "look at the driver's log for what it waits for; to see how long it takes: node-storage-driver-registrar inspect {}",
        settings.csi_socket.display()
    );
    Finding::warning(NODE_GET_INFO, saw, mend)
}

fn diagnose(settings: &DriverSettings, trouble: &DriverError) -> Finding {
    let socket = settings.csi_socket.display();
    let inspect = format!("ask it by hand: node-storage-driver-registrar inspect {socket}");
    let (check, mend) = match trouble {
        DriverError::Absent(_) | DriverError::NoDirectory { .. } | DriverError::Removed(_) => (
            "csi.sock",
            format!(
                "start the driver, with its endpoint at unix://{socket}; or set csi_socket to where it listens"
            ),
        ),
        DriverError::NoSocket(_) => (
            "csi.sock",
            format!("move it away and restart the driver: mv {socket} {socket}.old"),
        ),
        DriverError::Unseen { .. } | DriverError::Hidden { .. } | DriverError::Forbidden { .. } => {
            ("csi.sock permission", AS_ROOT.to_owned())
        }
        DriverError::OutOfReach { .. } => (
            "csi.sock file system",
            "its server, or the program behind it, does not answer: bring it back, or unmount it (umount -l); the driver cannot be reached by anybody until then".to_owned(),
        ),
        DriverError::Exposed { exposure, .. } => {
            let id = directory::of(&settings.csi_socket).file_name();
            let id = id.unwrap_or_default().to_string_lossy();
            let mend = exposure.mend();
            (
                PLUGIN_DIRECTORY,
                format!(
                    "{mend}; or, if you trust those users, name the driver in the configuration: [drivers.\"{id}\"]"
                ),
            )
        }
        DriverError::LongPath { .. } => (
            "path length",
            "shorten plugins_dir, or give the plugin's directory a shorter name".to_owned(),
        ),
        DriverError::Refused(_) => (
            "csi.sock listening",
            format!(
                "the socket was left by a driver that has ended: restart the driver; if it runs, it listens elsewhere than on {socket}"
            ),
        ),
        DriverError::Connect { .. } | DriverError::Broken { .. } | DriverError::Closed(_) => (
            "csi.sock answering",
            format!(
                "whoever listens there does not speak gRPC: find it with: ss -xlp | grep {socket}"
            ),
        ),
        DriverError::TimedOut { .. } if trouble.is_node_info_late() => {
            (NODE_GET_INFO, HANGS.to_owned())
        }
        DriverError::Slow { .. } => return slow(settings),
        DriverError::TimedOut { .. } | DriverError::Hung(_) => ("csi.sock answering", HANGS.to_owned()),
        DriverError::Call { method, .. } => (*method, format!("look at the driver's log; {inspect}")),
        DriverError::NoNodeService => {
            let mend = "a controller is not registered with the kubelet: add its id to discovery.exclude, or take its table out of the configuration";
            return Finding::warning("NodeGetInfo", trouble.to_string(), mend);
        }
        DriverError::NotReady => (
            "Probe",
            "wait for the driver, or set require_probe = false".to_owned(),
        ),
        DriverError::Answer(AnswerError::Name(_)) => (
            "name",
            format!("give the driver a name that CSI allows; {inspect}"),
        ),
        DriverError::Answer(AnswerError::OtherName { said, .. }) => (
            "name",
            format!("correct csi_socket, or set name = \"{said}\""),
        ),
        DriverError::Answer(_) => (
            "NodeGetInfo",
            format!("look at how the driver is started; {inspect}"),
        ),
    };
    Finding::fault(check, trouble.to_string(), mend)
}
