//! Finds why a driver is not registered: checks each stage from the configuration to the kubelet, in
//! that order, and stops for each driver at the first stage that fails.
//!
//! The doctor changes nothing, and says which checks it could not make.

mod csi_socket;
mod daemon;
mod directories;
mod finding;
mod inputs;
mod kubelets;
mod machine;
mod registration;
mod sandbox;

use serde::Serialize;

use self::finding::AS_ROOT;
pub(crate) use self::finding::{Finding, Level};
pub(crate) use self::inputs::Inputs;
use self::kubelets::KubeletFindings;

/// All findings, the faults first. As JSON it is the output of `doctor`.
#[derive(Debug, Serialize)]
pub(crate) struct Diagnosis {
    /// No finding is a fault.
    pub(crate) healthy: bool,
    pub(crate) findings: Vec<Finding>,
}

impl Diagnosis {
    /// Without a configuration there is nothing else to check.
    pub(crate) fn of_bad_configuration(error: String) -> Diagnosis {
        let fix = "correct it, then run: node-storage-driver-registrar check";
        Diagnosis::new(vec![Finding::fault("config", error, fix)])
    }

    pub(crate) async fn of(inputs: &Inputs) -> Diagnosis {
        Diagnosis::new(match daemon::check(inputs) {
            Some(findings) => findings,
            None => check(inputs).await,
        })
    }

    fn new(mut findings: Vec<Finding>) -> Diagnosis {
        findings.sort_by_key(|finding| finding.level);
        let healthy = !has_fault(&findings);
        Diagnosis { healthy, findings }
    }
}

async fn check(inputs: &Inputs) -> Vec<Finding> {
    let kubelets = KubeletFindings::find(inputs);
    let drivers = inputs.drivers();
    let mut findings = sandbox::check(inputs);
    findings.extend(directories::check(inputs, &kubelets));
    findings.extend(kubelets.dispute());
    // Without its directories no driver gets any further, and each driver would repeat that.
    if !has_fault(&findings) {
        for id in &drivers {
            for mut finding in registration::check(inputs, &kubelets, id).await {
                finding.driver = Some(id.clone());
                findings.push(finding);
            }
        }
    }
    if let Err(error) = &inputs.daemon
        && !findings.iter().any(|finding| finding.check == "daemon")
    {
        findings.push(daemon::no_answer(error));
    }
    findings.extend(machine::check(inputs, &drivers));
    findings
}

fn has_fault(findings: &[Finding]) -> bool {
    let mut findings = findings.iter();
    findings.any(|finding| finding.level == Level::Fault)
}
