//! The daemon: it answers, and it runs with this configuration.

use std::iter;

use super::{AS_ROOT, Finding, Inputs, RELOAD};
use crate::api::control::ClientError;
use crate::config::Settings;
use crate::disk::name::DriverName;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::{Cause, Status};
use crate::os::text::quoted;

/// The only findings, where the other checks would say nothing about the daemon.
pub(super) fn check(inputs: &Inputs) -> Option<Vec<Finding>> {
    match &inputs.daemon {
        // This user's rights say nothing about the daemon's.
        Err(error @ ClientError::Forbidden(_)) => Some(vec![no_answer(error)]),
        Err(_) => None,
        Ok(status) => {
            let difference = difference(&inputs.settings, status)?;
            Some(own_words(status, &difference))
        }
    }
}

pub(super) fn no_answer(error: &ClientError) -> Finding {
    let fix = match error {
        ClientError::NoDaemon(_) => "systemctl start node-storage-driver-registrar",
        ClientError::Forbidden(_) => AS_ROOT,
        _ => "systemctl restart node-storage-driver-registrar",
    };
    Finding::fault("daemon", error, fix)
}

/// This configuration is not the measure for a daemon that was started with its own flags.
fn own_words(status: &Status, difference: &str) -> Vec<Finding> {
    let mut findings = vec![Finding::warning(
        "config",
        format!("{difference}: the doctor reports the daemon's own status without checking it"),
        "node-storage-driver-registrar reload, unless the daemon was started with its own flags",
    )];
    let registered = Phase::Registered.as_str();
    let drivers = status.drivers.iter();
    for driver in drivers.filter(|driver| driver.phase != registered) {
        let found = format!("{}: {}", driver.phase, driver.reason);
        let socket = quoted(&driver.csi_socket);
        let fix = match driver.cause() {
            Cause::OtherLayout => RELOAD.to_owned(),
            _ => format!("node-storage-driver-registrar inspect {socket}"),
        };
        findings.push(Finding {
            driver: Some(driver.id.clone()),
            ..Finding::fault("daemon", found, fix)
        });
    }
    findings
}

/// A directory or a socket for which the daemon uses another path than this configuration.
fn difference(settings: &Settings, status: &Status) -> Option<String> {
    let layout = settings.layout();
    let links = &status.kubelet.as_ref()?.plugins_registry;
    let links = (
        "creates links in",
        links,
        layout.plugins_registry().to_owned(),
    );
    let sockets = status.drivers.iter().flat_map(|driver| {
        let ours = settings.driver(&driver.id).csi_socket;
        let csi_socket = ("waits for", &driver.csi_socket, ours);
        let registration_socket = || {
            let socket = driver.registration_socket.as_ref()?;
            let name = DriverName::parse(driver.name.as_ref()?).ok()?;
            Some(("serves", socket, layout.socket(&name)))
        };
        iter::once(csi_socket).chain(registration_socket())
    });
    let mut paths = iter::once(links).chain(sockets);
    let (does, theirs, ours) =
        paths.find(|(_, theirs, ours)| **theirs != ours.to_string_lossy())?;
    let ours = ours.display();
    Some(format!(
        "the daemon {does} {theirs}, but this configuration has {ours}"
    ))
}
