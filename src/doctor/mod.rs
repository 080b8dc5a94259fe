//! Finds why a driver is not registered, or why no pod sees its volumes: checks each stage from the
//! configuration to the kubelet, in that order, and stops for each driver at the first stage that fails.
//!
//! The doctor changes nothing, and says which checks it could not make.

mod cluster;
mod csi_socket;
mod daemon;
mod directories;
mod finding;
mod idle_directories;
mod inputs;
mod kubelets;
mod machine;
mod mount_propagation;
mod notes;
mod other_links;
mod registration;
mod sandbox;
mod volumes;

use serde::Serialize;

use self::finding::{AS_ROOT, RELOAD};
pub(crate) use self::finding::{Finding, Level};
pub(crate) use self::inputs::Inputs;
use self::kubelets::KubeletFindings;

/// All findings, the faults first. As JSON it is the output of `doctor`.
#[derive(Debug, Serialize)]
pub(crate) struct Diagnosis {
    /// No finding is a fault.
    pub(crate) healthy: bool,
    pub(crate) findings: Vec<Finding>,
    /// Why the cluster was not asked, if there was a driver to ask for.
    pub(crate) cluster_not_asked: Option<String>,
}

impl Diagnosis {
    /// Without a configuration, no other check is possible.
    pub(crate) fn of_bad_configuration(error: String) -> Diagnosis {
        let fix = "correct it, then run: node-storage-driver-registrar check";
        Diagnosis::new(vec![Finding::fault("config", error, fix)], None)
    }

    pub(crate) async fn of(inputs: &Inputs) -> Diagnosis {
        let mut findings = match daemon::check(inputs) {
            Some(findings) => findings,
            None => check(inputs).await,
        };
        findings.extend(cluster::check(inputs));
        let not_asked = inputs
            .cluster
            .as_ref()
            .and_then(|asked| asked.as_ref().err());
        Diagnosis::new(findings, not_asked.map(ToString::to_string))
    }

    fn new(mut findings: Vec<Finding>, cluster_not_asked: Option<String>) -> Diagnosis {
        findings.sort_by_key(|finding| finding.level);
        let healthy = !has_fault(&findings);
        Diagnosis {
            healthy,
            findings,
            cluster_not_asked,
        }
    }
}

async fn check(inputs: &Inputs) -> Vec<Finding> {
    let kubelets = KubeletFindings::find(inputs);
    let drivers = inputs.drivers();
    let mut node = sandbox::check(inputs);
    node.extend(directories::check(inputs, &kubelets));
    // Without its directories no driver gets any further, and each driver would repeat that.
    let is_blocked = has_fault(&node);
    let mut findings = node;
    let plugins_dir = directories::missing_plugins_dir(inputs, &drivers);
    let has_directory = |id: &&String| plugins_dir.is_none() || !inputs.is_in_plugins_dir(id);
    if !is_blocked {
        for id in drivers.iter().filter(has_directory) {
            for mut finding in registration::check(inputs, &kubelets, id).await {
                finding.driver = Some(id.clone());
                findings.push(finding);
            }
        }
    }
    findings.extend(plugins_dir);
    findings.extend(volumes::check(inputs).await);
    findings.extend(other_links::check(inputs));
    if let Err(error) = &inputs.daemon
        && !findings.iter().any(|finding| finding.check == "daemon")
    {
        findings.push(daemon::no_answer(error));
    }
    findings.extend(idle_directories::check(inputs));
    findings.extend(machine::check(inputs, &drivers, &findings));
    findings.extend(notes::check(inputs, &findings));
    findings
}

fn has_fault(findings: &[Finding]) -> bool {
    let mut findings = findings.iter();
    findings.any(|finding| finding.level == Level::Fault)
}
