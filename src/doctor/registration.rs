//! One driver, from its answer to the kubelet's yes.

use std::fs;
use std::path::PathBuf;

use super::csi_socket::{ask, exposed};
use super::kubelets::KubeletFindings;
use super::{Finding, Inputs};
use crate::config::DriverSettings;
use crate::disk::directory;
use crate::disk::layout::{Layout, LinkAlias};
use crate::driver::answer::Answer;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::{Cause, Driver};

const JOURNAL: &str = "journalctl -u node-storage-driver-registrar";

/// The first thing that keeps the driver from being registered, and what else is worth a word.
pub(super) async fn check(patient: &Inputs, kubelets: &KubeletFindings, id: &str) -> Vec<Finding> {
    let mut findings = on_the_way(patient, kubelets, id).await;
    // What discovery would refuse for it is only worth a word where the operator named the driver.
    if patient.settings.drivers.contains_key(id) {
        findings.extend(exposed(
            &patient.settings.driver(id).csi_socket,
            &patient.reach,
        ));
    }
    findings
}

async fn on_the_way(patient: &Inputs, kubelets: &KubeletFindings, id: &str) -> Vec<Finding> {
    let settings = patient.settings.driver(id);
    let shown = match &patient.daemon {
        Ok(status) => status.drivers.iter().find(|driver| driver.id == id),
        Err(_) => None,
    };
    let found = !patient.settings.drivers.contains_key(id);
    let answer = match ask(&settings, found, shown, &patient.reach).await {
        Ok(answer) => answer,
        Err(finding) => return vec![finding],
    };
    let layout = patient.settings.layout();
    if let Err(too_long) = layout.check(&answer.name) {
        let mend =
            "shorten registry_dir or kubelet.registry_dir, or give the driver a shorter name";
        return vec![Finding::fault("path length", too_long.to_string(), mend)];
    }
    match (&patient.daemon, shown) {
        (Err(why), _) => vec![Finding::no_daemon(why)],
        (Ok(_), None) => vec![Finding::fault(
            "daemon",
            "the daemon runs with a configuration that does not have this driver yet",
            "node-storage-driver-registrar reload",
        )],
        (Ok(_), Some(driver)) => follow(driver, &settings, &answer, &layout, kubelets),
    }
}

/// The driver answers and the daemon runs: how far does it say that it got?
fn follow(
    driver: &Driver,
    settings: &DriverSettings,
    answer: &Answer,
    layout: &Layout,
    kubelets: &KubeletFindings,
) -> Vec<Finding> {
    let reason = driver.reason.as_str();
    let id = &driver.id;
    let phase = Phase::ALL
        .into_iter()
        .find(|phase| phase.as_str() == driver.phase);
    let finding = match phase {
        Some(Phase::Registered) => return kept_errors(driver),
        Some(Phase::Withdrawn) => Finding::fault(
            "withdrawn",
            reason,
            format!("node-storage-driver-registrar publish {id}"),
        ),
        Some(Phase::Conflict) => Finding::fault("another owner", reason, conflict_mend(driver)),
        // A kubelet that cannot find csi.sock says no more than that its call failed.
        Some(Phase::Rejected) => kubelets
            .blind(&seen_target(layout, answer), &settings.endpoint)
            .unwrap_or_else(|| Finding::fault("kubelet rejecting", reason, rejection_mend(driver))),
        Some(Phase::WaitingForKubelet) => unseen(driver, settings, answer, layout, kubelets),
        Some(Phase::WaitingForDriver) | None => Finding::fault(
            "daemon",
            format!("the driver answers here, but the daemon says: {reason}"),
            if driver.cause() == Cause::DirectoryForbidden {
                format!(
                    "chmod o+rx {}, or install the drop-in driver-of-another-user.conf",
                    directory::of(&settings.csi_socket).display()
                )
            } else if driver.cause() == Cause::SocketForbidden {
                format!(
                    "install the drop-in driver-of-another-user.conf, or: chown root {}",
                    settings.csi_socket.display()
                )
            } else {
                format!(
                    "node-storage-driver-registrar reload; if that does not help, see {JOURNAL}"
                )
            },
        ),
    };
    vec![finding]
}

/// Registered, and yet something went wrong that somebody must know of, such as a topology value
/// that the kubelet would refuse.
fn kept_errors(driver: &Driver) -> Vec<Finding> {
    let warned = driver.last_error.as_ref().map(|error| {
        Finding::warning(
            "registered",
            error.clone(),
            "node-storage-driver-registrar status",
        )
    });
    warned.into_iter().collect()
}

fn conflict_mend(driver: &Driver) -> String {
    match driver.cause() {
        _ if driver.name_taken => {
            "give one of the two drivers another name, or take it out of the configuration"
                .to_owned()
        }
        Cause::LiveOwner => {
            "stop the other process, or set on_live_owner = \"take-over\"".to_owned()
        }
        Cause::AlienFile => "move what is there away".to_owned(),
        Cause::Contested => format!(
            "find out who removes it, such as a script or a second registrar; see {JOURNAL}"
        ),
        _ => format!("leave the place to the registrar; see {JOURNAL}"),
    }
}

fn rejection_mend(driver: &Driver) -> String {
    match driver.cause() {
        Cause::TopologyCollision => format!(
            "remove the label: kubectl label node NODE KEY-; then: node-storage-driver-registrar reannounce {}",
            driver.id
        ),
        Cause::AlreadyRegistered => "remove the other registration socket or link of this driver from the kubelet's plugins_registry".to_owned(),
        _ => "see what the kubelet says: journalctl -u kubelet | grep -i csi".to_owned(),
    }
}

/// The driver answers, and the kubelet has not said anything.
fn unseen(
    driver: &Driver,
    settings: &DriverSettings,
    answer: &Answer,
    layout: &Layout,
    kubelets: &KubeletFindings,
) -> Finding {
    let reason = driver.reason.as_str();
    if driver.cause() == Cause::DirectoryReplaced {
        return Finding::fault("kubelet directory", reason, "systemctl restart kubelet");
    }
    if !driver.socket_stands {
        return Finding::fault("reg.sock", reason, format!("see {JOURNAL}"));
    }
    if !driver.serving {
        return Finding::fault("link", reason, format!("see {JOURNAL}"));
    }
    let path = driver.link.as_ref().map_or_else(
        || layout.link(&answer.name, LinkAlias::default()),
        Into::into,
    );
    let target = layout.target(&answer.name);
    match fs::read_link(&path) {
        Ok(held) if held == target => {}
        Ok(held) => {
            let saw = format!(
                "{} points to {}, not to {}",
                path.display(),
                held.display(),
                target.display()
            );
            return Finding::fault("link", saw, "node-storage-driver-registrar reload");
        }
        Err(error) => {
            let saw = format!("cannot read the link {}: {error}", path.display());
            return Finding::fault("link", saw, format!("see {JOURNAL}"));
        }
    }
    kubelets.why_not_seen(&driver.id, &seen_target(layout, answer), &settings.endpoint)
}

/// Where the kubelet must see the registration socket. A relative target is beside the link, so that
/// whoever sees the one sees the other.
fn seen_target(layout: &Layout, answer: &Answer) -> PathBuf {
    let target = layout.target(&answer.name);
    if target.is_absolute() {
        target
    } else {
        layout.socket(&answer.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A daemon of another release sends no code, or one that is not known here.
    #[test]
    fn a_missing_or_unknown_code_gets_general_advice() {
        for cause in [Cause::Unspecified.into(), i32::MAX] {
            let driver = Driver {
                cause,
                reason: "pid 7 serves x; neither a socket nor a link".to_owned(),
                ..Driver::default()
            };
            assert!(conflict_mend(&driver).contains(JOURNAL));
            assert!(rejection_mend(&driver).contains("journalctl -u kubelet"));
        }
    }
}
