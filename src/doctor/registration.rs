//! The registration of a driver, from its answer to the kubelet's Notify.

use std::fs;
use std::path::{Path, PathBuf};

use super::csi_socket::{ask, declared_fix, exposed};
use super::daemon;
use super::kubelets::KubeletFindings;
use super::{Finding, Inputs, RELOAD, mount_propagation};
use crate::config::DriverSettings;
use crate::csi::trust::Exposure;
use crate::disk::directory;
use crate::disk::drop_in::DRIVER_OF_ANOTHER_USER;
use crate::disk::layout::Layout;
use crate::disk::runtime_dir::last_holder;
use crate::disk::socket::{ListenerProbe, listener, probe};
use crate::driver::answer::Answer;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::{Cause, Driver};
use crate::os::process;
use crate::os::text::{quoted, quoted_path};

const JOURNAL: &str = "see journalctl -u node-storage-driver-registrar";

/// A driver that answers.
struct Registration<'a> {
    inputs: &'a Inputs,
    kubelets: &'a KubeletFindings,
    settings: &'a DriverSettings,
    layout: Layout,
    answer: Answer,
}

/// The first reason why the driver is not registered, the reason why pods do not see its volumes, and warnings.
pub(super) async fn check(inputs: &Inputs, kubelets: &KubeletFindings, id: &str) -> Vec<Finding> {
    let settings = &inputs.settings.driver(id);
    let is_configured = inputs.settings.drivers.contains_key(id);
    let shown = inputs.shown().iter().find(|driver| driver.id == id);
    let findings = match ask(settings, !is_configured, shown, &inputs.reach).await {
        Ok(answer) => {
            let mounts = mount_propagation::check(inputs, kubelets, settings);
            let layout = inputs.settings.layout();
            let registration = Registration {
                inputs,
                kubelets,
                settings,
                layout,
                answer,
            };
            registration
                .finding(shown)
                .into_iter()
                .chain(mounts)
                .collect()
        }
        Err(finding) => vec![finding],
    };
    // Discovery would refuse the driver for this. The operator named it, so that it is a warning.
    let fix =
        |exposure: &Exposure, socket: &Path| declared_fix(exposure, socket, settings.name.as_ref());
    let exposed = is_configured.then(|| exposed(&settings.csi_socket, &inputs.reach, fix));
    findings.into_iter().chain(exposed.flatten()).collect()
}

impl Registration<'_> {
    /// How far has the daemon come with the driver?
    fn finding(&self, shown: Option<&Driver>) -> Option<Finding> {
        if let Err(too_long) = self.layout.check(&self.answer.name) {
            let fix = "shorten registry_dir or kubelet.plugins_registry, or give the driver a shorter name";
            return Some(Finding::fault("path length", too_long, fix));
        }
        if let Err(error) = &self.inputs.daemon {
            return Some(daemon::no_answer(error));
        }
        let Some(driver) = shown else {
            let found = "the daemon runs with a configuration that does not have this driver yet";
            return Some(Finding::fault("daemon", found, RELOAD));
        };
        let Driver { id, reason, .. } = driver;
        let mut phases = Phase::ALL.into_iter();
        Some(match phases.find(|phase| phase.as_str() == driver.phase) {
            Some(Phase::Registered) => return last_error(driver),
            Some(Phase::Withdrawn) => {
                let fix = format!("node-storage-driver-registrar publish {}", quoted(id));
                Finding::fault("withdrawn", reason, fix)
            }
            Some(Phase::Conflict) => {
                let fix = conflict_fix(driver, self.rival_service());
                let check = match driver.cause() {
                    Cause::OtherLayout => "directories",
                    _ => "another owner",
                };
                Finding::fault(check, reason, fix)
            }
            // A kubelet that does not find csi.sock reports only that its call failed.
            Some(Phase::Rejected) => self.blind().unwrap_or_else(|| {
                Finding::fault("kubelet rejecting", reason, rejection_fix(driver))
            }),
            Some(Phase::WaitingForKubelet) => self.unseen(driver),
            Some(Phase::WaitingForDriver) | None => {
                let found = format!("the driver answers the doctor, but the daemon says: {reason}");
                Finding::fault("daemon", found, self.waiting_fix(driver.cause()))
            }
        })
    }

    /// The service of the process that serves our socket or link.
    fn rival_service(&self) -> Option<String> {
        let ours = last_holder(&self.inputs.runtime);
        let places = self.layout.places(&self.answer.name);
        let mut pids = places.iter().filter_map(|path| match probe(path) {
            ListenerProbe::Alive(stream) => listener(&stream?),
            ListenerProbe::Dead | ListenerProbe::Unknown(_) => None,
        });
        pids.find(|pid| Some(*pid) != ours)
            .and_then(process::service)
    }

    fn waiting_fix(&self, cause: Cause) -> String {
        let drop_in = || format!("install the drop-in: {}", DRIVER_OF_ANOTHER_USER.install());
        let directory = quoted_path(directory::of(&self.settings.csi_socket));
        match cause {
            Cause::DirectoryForbidden => format!("chmod o+rx {directory}; or {}", drop_in()),
            // Another owner or mode of the socket would last until the driver creates it again.
            Cause::SocketForbidden => drop_in(),
            _ => format!("node-storage-driver-registrar reload; if that does not help, {JOURNAL}"),
        }
    }

    /// The driver answers, and the kubelet has not sent Notify.
    fn unseen(&self, driver: &Driver) -> Finding {
        let reason = &driver.reason;
        if driver.cause() == Cause::DirectoryReplaced {
            return Finding::fault("kubelet directory", reason, "systemctl restart kubelet");
        }
        if !driver.socket_stands {
            return Finding::fault("reg.sock", reason, JOURNAL);
        }
        if !driver.serving {
            return Finding::fault("link", reason, JOURNAL);
        }
        let name = &self.answer.name;
        let expected = || self.layout.link(name);
        let link = driver.link.as_ref().map_or_else(expected, PathBuf::from);
        let target = self.layout.target(name);
        match fs::read_link(&link) {
            Ok(held) if held == target => {
                let other = self.kubelets.not_seen_at_all().or_else(|| self.blind());
                other.unwrap_or_else(|| not_registered(driver))
            }
            Ok(held) => {
                let [link, held, target] = [&link, &held, &target].map(|path| path.display());
                let found = format!("{link} points to {held}, not to {target}");
                Finding::fault("link", found, RELOAD)
            }
            Err(error) => {
                let found = format!("cannot read the link {}: {error}", link.display());
                Finding::fault("link", found, JOURNAL)
            }
        }
    }

    /// A relative target is in the link's directory, which is the socket's directory then.
    fn blind(&self) -> Option<Finding> {
        let name = &self.answer.name;
        let socket = self.layout.socket(name);
        let target = socket.with_file_name(self.layout.target(name));
        self.kubelets.blind(&target, &self.settings.endpoint)
    }
}

fn not_registered(driver: &Driver) -> Finding {
    let see = "see journalctl -u kubelet | grep -i plugin";
    // The kubelet's own back-off: an announcement does not shorten it.
    if driver.cause() == Cause::KubeletSilent {
        let fix = format!(
            "wait, if the kubelet or the daemon has started within the last 2 minutes; else {see}"
        );
        return Finding::fault("kubelet registering", &driver.reason, fix);
    }
    let found = "the link is right and a kubelet runs, but it has not registered the driver";
    let fix = format!(
        "{see}; then: node-storage-driver-registrar reannounce {}",
        quoted(&driver.id)
    );
    Finding::fault("kubelet registering", found, fix)
}

/// A registered driver may have an error that an operator must know, such as a topology value that
/// the kubelet would refuse.
fn last_error(driver: &Driver) -> Option<Finding> {
    let error = driver.last_error.as_ref()?;
    let fix = "node-storage-driver-registrar status";
    Some(Finding::warning("registered", error, fix))
}

fn conflict_fix(driver: &Driver, rival: Option<String>) -> String {
    match driver.cause() {
        _ if driver.name_taken => "rename one of the two drivers, or remove its table".into(),
        Cause::LiveOwner => {
            let stop = rival.map_or("stop the other process".to_owned(), |service| {
                format!("systemctl disable --now {}", quoted(&service))
            });
            format!("{stop}; or set on_live_owner = \"take-over\"")
        }
        Cause::AlienFile => "move the file or directory away".into(),
        Cause::OtherLayout => RELOAD.into(),
        Cause::Contested => {
            format!("stop the script or the second registrar that removes it; {JOURNAL}")
        }
        _ => format!("leave the path to the registrar; {JOURNAL}"),
    }
}

fn rejection_fix(driver: &Driver) -> String {
    match driver.cause() {
        Cause::TopologyCollision => format!(
            "remove the label: kubectl label node NODE KEY-; then: node-storage-driver-registrar reannounce {}",
            quoted(&driver.id)
        ),
        Cause::AlreadyRegistered => {
            "remove this driver's other socket or link from the kubelet's plugins_registry".into()
        }
        _ => "see journalctl -u kubelet | grep -i csi".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_owner_that_is_a_service_is_stopped_with_its_unit() {
        let driver = Driver {
            cause: Cause::LiveOwner.into(),
            ..Driver::default()
        };
        let fix = |rival: Option<&str>| conflict_fix(&driver, rival.map(str::to_owned));
        let stop = "systemctl disable --now ndr.service; or set on_live_owner = \"take-over\"";
        assert_eq!(fix(Some("ndr.service")), stop);
        assert!(fix(None).starts_with("stop the other process; "));
        let stop = r"systemctl disable --now 'a\x2db;c.service'; or ";
        assert!(fix(Some(r"a\x2db;c.service")).starts_with(stop));
    }

    /// A daemon of another release sends no cause, or a cause that this release does not know.
    #[test]
    fn a_missing_or_unknown_code_gets_general_advice() {
        for cause in [Cause::Unspecified.into(), i32::MAX] {
            let driver = Driver {
                cause,
                reason: "pid 7 serves x; neither a socket nor a link".to_owned(),
                ..Driver::default()
            };
            let service = Some("ndr.service".to_owned());
            assert!(conflict_fix(&driver, service).contains(JOURNAL));
            assert!(rejection_fix(&driver).contains("journalctl -u kubelet"));
        }
    }
}
