//! The driver's side: its socket is there, somebody listens, and the answer can be used.

use super::{AS_ROOT, Finding};
use crate::config::DriverSettings;
use crate::csi::answer::{Answer, AnswerError};
use crate::csi::inquiry::{Inquiry, Trouble};
use crate::metrics::Operations;

/// Asks the driver as the daemon would: one that was `found` must be out of others' reach.
pub(super) async fn ask(settings: &DriverSettings, found: bool) -> Result<Answer, Finding> {
    let operations = Operations::new();
    let inquiry = if found {
        Inquiry::found(settings, operations)
    } else {
        Inquiry::new(settings, operations)
    };
    match inquiry.begin().await {
        Ok((_, answer)) => Ok(answer),
        Err(trouble) => Err(diagnose(settings, &trouble)),
    }
}

fn diagnose(settings: &DriverSettings, trouble: &Trouble) -> Finding {
    let socket = settings.csi_socket.display();
    let inspect = format!("ask it by hand: node-storage-driver-registrar inspect {socket}");
    let (check, mend) = match trouble {
        Trouble::Absent(_) | Trouble::NoDirectory { .. } | Trouble::Removed(_) => (
            "csi.sock",
            format!(
                "start the driver, with its endpoint at unix://{socket}; or set csi_socket to where it listens"
            ),
        ),
        Trouble::NoSocket(_) => (
            "csi.sock",
            format!("move it away and restart the driver: mv {socket} {socket}.old"),
        ),
        Trouble::Unseen { .. } | Trouble::Forbidden { .. } => {
            ("csi.sock permission", AS_ROOT.to_owned())
        }
        Trouble::Exposed(exposure) => (
            "plugin directory",
            format!(
                "chown root: {0} && chmod go-w {0}",
                exposure.directory().display()
            ),
        ),
        Trouble::LongPath { .. } => (
            "path length",
            "shorten plugins_dir, or give the plugin's directory a shorter name".to_owned(),
        ),
        Trouble::Refused(_) => (
            "csi.sock listening",
            format!(
                "the socket was left by a driver that has ended: restart the driver; if it runs, it listens elsewhere than on {socket}"
            ),
        ),
        Trouble::Connect { .. } | Trouble::Broken { .. } | Trouble::Closed(_) | Trouble::Gone => (
            "csi.sock answering",
            format!(
                "whoever listens there does not speak gRPC: find it with: ss -xlp | grep {socket}"
            ),
        ),
        Trouble::TimedOut { step, .. } => (
            if *step == "NodeGetInfo" {
                "NodeGetInfo"
            } else {
                "csi.sock answering"
            },
            "the driver hangs: look at its log, and restart it".to_owned(),
        ),
        Trouble::Hung(_) => (
            "csi.sock answering",
            "the driver hangs: look at its log, and restart it".to_owned(),
        ),
        Trouble::Call { method, .. } => (*method, format!("look at the driver's log; {inspect}")),
        Trouble::NoNodeService => {
            let mend = "a controller is not registered with the kubelet: add its id to discovery.exclude, or take its table out of the configuration";
            return Finding::warning("NodeGetInfo", trouble.to_string(), mend);
        }
        Trouble::NotReady => (
            "Probe",
            "wait for the driver, or set require_probe = false".to_owned(),
        ),
        Trouble::Answer(AnswerError::Name(_)) => (
            "name",
            format!("give the driver a name that CSI allows; {inspect}"),
        ),
        Trouble::Answer(AnswerError::OtherName { said, .. }) => (
            "name",
            format!("correct csi_socket, or set name = \"{said}\""),
        ),
        Trouble::Answer(_) => (
            "NodeGetInfo",
            format!("look at how the driver is started; {inspect}"),
        ),
    };
    Finding::fault(check, trouble.to_string(), mend)
}
