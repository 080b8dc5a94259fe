//! The driver's socket: it exists, the driver listens on it, and its answers can be used.

use std::path::Path;

use humantime::format_duration;

use super::directories::move_away;
use super::{AS_ROOT, Finding};
use crate::config::DriverSettings;
use crate::csi::error::DriverError;
use crate::csi::query::{DriverQuery, NODE_GET_INFO};
use crate::csi::trust::{Exposure, PIN, pinned_table};
use crate::disk::directory;
use crate::disk::drop_in::DRIVER_OF_ANOTHER_USER;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::disk::socket::{ListenerProbe, probe};
use crate::driver::answer::{Answer, AnswerError};
use crate::grpc::proto::control::{Cause, Driver};
use crate::os::peer::Peer;
use crate::os::process;
use crate::os::text::quoted_path;

/// The check of the users that may write to the directories on the way to a driver.
const PLUGIN_DIRECTORY: &str = "plugin directory";
const HANGS: &str = "the driver hangs: look at its log, and restart it";
const UNREACHABLE: &str = "restore the file system's server, or the program behind it, or unmount it (umount -l); until then no process can reach the driver";
const CONTROLLER: &str = "the kubelet does not register controllers: add the driver's id to discovery.exclude, or remove its table";

/// Other users may replace the file at the end of this path.
pub(super) fn exposed(
    path: &Path,
    reach: &Reach,
    fix: impl Fn(&Exposure, &Path) -> String,
) -> Option<Finding> {
    // The check of the driver reports a path that it cannot look at.
    if reach.may_hang(path) {
        return None;
    }
    let exposure = Exposure::of(path).ok().flatten()?;
    let fix = fix(&exposure, path);
    Some(Finding::warning(PLUGIN_DIRECTORY, exposure, fix))
}

/// The fix for a driver that the configuration declares. The declaration says that the operator trusts the
/// user as which the driver runs.
pub(super) fn declared_fix(
    exposure: &Exposure,
    socket: &Path,
    pinned: Option<&DriverName>,
) -> String {
    let fix = match server_of(exposure, socket) {
        Some((owner, server)) => format!(
            "nothing, if you trust uid {owner}: the driver, {server}, runs as this user, and chown would break its next start. If the daemon may not connect to it, install the drop-in: {}",
            DRIVER_OF_ANOTHER_USER.install()
        ),
        None => exposure.fix_for_declared(),
    };
    match pinned {
        Some(_) => fix,
        None => format!(
            "{fix}; and set name in its table, so that it cannot take the name of another driver"
        ),
    }
}

/// The fix for a driver that discovery found, and refuses.
fn discovered_fix(exposure: &Exposure, socket: &Path) -> String {
    fix_for_discovered(exposure, socket, server_of(exposure, socket))
}

/// The same, where this process of the path's owner listens on the socket.
fn fix_for_discovered(exposure: &Exposure, socket: &Path, server: Option<(u32, String)>) -> String {
    let id = directory::of(socket).file_name().unwrap_or_default();
    let id = id.to_string_lossy();
    match (server, exposure) {
        (Some((owner, server)), _) => format!(
            "only if you trust uid {owner}, as which {server} serves the socket: declare it in {}, {PIN}, and install the drop-in: {}",
            pinned_table(&id),
            DRIVER_OF_ANOTHER_USER.install()
        ),
        (None, Exposure::Owner { .. }) => exposure.fix(&id),
        (None, Exposure::Mode { .. }) => {
            let fix = exposure.fix(&id);
            format!(
                "{fix}; or, only if you trust those users, declare it in {}, {PIN}",
                pinned_table(&id)
            )
        }
    }
}

/// The user that the path belongs to, and the process of this user that listens on the socket.
fn server_of(exposure: &Exposure, socket: &Path) -> Option<(u32, String)> {
    let Exposure::Owner { owner, .. } = exposure else {
        return None;
    };
    let ListenerProbe::Alive(Some(stream)) = probe(socket) else {
        return None;
    };
    let server = Peer::of(&stream).ok().filter(|peer| peer.uid == *owner)?;
    let shown = server
        .pid
        .map_or("another process".to_owned(), process::describe);
    Some((*owner, shown))
}

/// Asks the driver as the daemon would: no other user may be able to replace a driver that discovery
/// `found`. But NodeGetInfo may take minutes, and the doctor does not wait in silence for so long.
///
/// `known` is the driver as the daemon, which has waited longer, shows it.
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
    let answer = match query.look().await {
        Ok(_) => query.ask().await,
        Err(error) => Err(error),
    };
    answer.map_err(|error| {
        if !error.is_node_info_late() || hurried == *settings {
            return diagnose(settings, &error);
        }
        let given_up = known.filter(|driver| driver.cause() == Cause::NodeInfoLate);
        given_up.map_or_else(
            || slow(settings),
            |driver| Finding::fault(NODE_GET_INFO, &driver.reason, HANGS),
        )
    })
}

fn slow(settings: &DriverSettings) -> Finding {
    let timeouts = [settings.request_timeout, settings.node_info_timeout];
    let [soon, late] = timeouts.map(format_duration);
    let found = format!(
        "NodeGetInfo has taken longer than {soon}; the kubelet and the registrar wait up to {late} for it"
    );
    let socket = quoted_path(&settings.csi_socket);
    let measure = format!("to measure the call: node-storage-driver-registrar inspect {socket}");
    let fix = format!("look at the driver's log for the cause; {measure}");
    Finding::warning(NODE_GET_INFO, found, fix)
}

fn diagnose(settings: &DriverSettings, error: &DriverError) -> Finding {
    let (path, socket) = (&settings.csi_socket, settings.csi_socket.display());
    let quoted = quoted_path(path);
    let inspect = format!("ask the driver: node-storage-driver-registrar inspect {quoted}");
    let fault = |check, fix: &str| Finding::fault(check, error, fix);
    match error {
        DriverError::Absent(_) | DriverError::NoDirectory { .. } | DriverError::Removed(_) => {
            fault(
                "csi.sock",
                &format!(
                    "start the driver with the endpoint unix://{socket}, or correct csi_socket"
                ),
            )
        }
        DriverError::NoSocket(_) => fault(
            "csi.sock",
            &format!("move it away and restart the driver: {}", move_away(path)),
        ),
        DriverError::Unseen { .. } | DriverError::Hidden { .. } | DriverError::Forbidden { .. } => {
            fault("csi.sock permission", AS_ROOT)
        }
        DriverError::OutOfReach { .. } => fault("csi.sock file system", UNREACHABLE),
        DriverError::Exposed { exposure, .. } => {
            let fix = discovered_fix(exposure, &settings.csi_socket);
            fault(PLUGIN_DIRECTORY, &fix)
        }
        DriverError::LongPath { .. } => fault(
            "path length",
            "shorten plugins_dir, or give the plugin's directory a shorter name",
        ),
        DriverError::Refused(_) => fault(
            "csi.sock listening",
            "restart the driver; if it runs, it listens on another socket: correct csi_socket",
        ),
        DriverError::Connect { .. } | DriverError::Broken { .. } | DriverError::Closed(_) => fault(
            "csi.sock answering",
            &format!("that process does not speak gRPC; find it with: ss -xlp | grep {quoted}"),
        ),
        DriverError::TimedOut { .. } if error.is_node_info_late() => fault(NODE_GET_INFO, HANGS),
        DriverError::Slow { .. } => slow(settings),
        DriverError::TimedOut { .. } | DriverError::Hung(_) => fault("csi.sock answering", HANGS),
        DriverError::Call { method, .. } => {
            fault(method, &format!("look at the driver's log; {inspect}"))
        }
        DriverError::NoNodeService => Finding::warning(NODE_GET_INFO, error, CONTROLLER),
        DriverError::NotReady => {
            fault("Probe", "wait for the driver, or set require_probe = false")
        }
        DriverError::Answer(AnswerError::Name(_)) => {
            let fix = format!("give the driver a name that CSI allows; {inspect}");
            fault("name", &fix)
        }
        DriverError::Answer(AnswerError::OtherName { said, .. }) => fault(
            "name",
            &format!(
                "correct csi_socket; or, only if \"{said}\" is the driver that you mean, set name = \"{said}\""
            ),
        ),
        DriverError::Answer(_) => {
            let fix = format!("look at the driver's command line; {inspect}");
            fault(NODE_GET_INFO, &fix)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_command_is_quoted_for_a_shell() {
        let socket = "/p/a b;$(reboot)/csi.sock";
        let settings = DriverSettings {
            csi_socket: socket.into(),
            ..DriverSettings::default()
        };
        let commands = [
            (
                DriverError::NoSocket(socket.into()),
                format!("mv '{socket}' '{socket}.old'"),
            ),
            (
                DriverError::Closed(socket.into()),
                format!("ss -xlp | grep '{socket}'"),
            ),
            (
                DriverError::Call {
                    method: "Probe",
                    code: tonic::Code::Internal,
                    message: String::new(),
                },
                format!("inspect '{socket}'"),
            ),
        ];
        for (error, command) in commands {
            let fix = diagnose(&settings, &error).fix;
            assert!(fix.ends_with(&command), "{fix}");
        }
    }

    /// The owner of the directory may be any user that found a place for a socket.
    #[test]
    fn the_table_for_a_driver_of_another_user_depends_on_trust_and_pins_its_name() {
        let exposure = Exposure::Owner {
            path: "/p/a".into(),
            owner: 1234,
        };
        let socket = Path::new("/p/a\"b/csi.sock");
        let table = r#"[drivers."a\"b"] with name = "NAME""#;
        for server in [None, Some((1234, "pid 7 (x)".to_owned()))] {
            let fix = fix_for_discovered(&exposure, socket, server);
            assert!(fix.starts_with("only if you trust uid 1234"), "{fix}");
            assert!(fix.contains(table), "{fix}");
        }
    }
}
