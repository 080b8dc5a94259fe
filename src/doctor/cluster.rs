//! The cluster: it has the drivers as the kubelet registered them.

use jiff::Timestamp;

use super::{Finding, Inputs};
use crate::api::cluster;
use crate::cluster::report::Report;
use crate::grpc::proto::control::Driver;

const CHECK: &str = "cluster";

/// What differs; if the cluster was not asked, what verify told the daemon last.
pub(super) fn check(inputs: &Inputs) -> Vec<Finding> {
    match &inputs.cluster {
        Some(Ok(report)) => findings(report, inputs.shown()),
        Some(Err(_)) | None => known(inputs.shown()),
    }
}

fn known(drivers: &[Driver]) -> Vec<Finding> {
    let lost = drivers
        .iter()
        .filter(|driver| driver.in_cluster == Some(false));
    lost.map(|driver| {
        let found = cluster::reason(driver, Timestamp::now());
        Finding {
            driver: Some(driver.id.clone()),
            ..Finding::fault(
                CHECK,
                found,
                "node-storage-driver-registrar verify --repair",
            )
        }
    })
    .collect()
}

fn findings(report: &Report, shown: &[Driver]) -> Vec<Finding> {
    let node = &report.node;
    let mut findings = Vec::new();
    if !report.node_found && !report.drivers.is_empty() {
        findings.push(Finding::fault(
            CHECK,
            format!("the Node object {node} does not exist"),
            "restart the kubelet, which creates it",
        ));
    }
    if report.stale_owner {
        findings.push(Finding::warning(
            CHECK,
            format!(
                "CSINode {node} belongs to an earlier Node object, and the garbage collector will delete it: the cluster then loses every driver of this node"
            ),
            "systemctl enable --now node-storage-driver-registrar-verify.timer, which restores the drivers then",
        ));
    }
    for driver in &report.drivers {
        let id = shown
            .iter()
            .find(|shown| shown.name.as_ref() == Some(&driver.name));
        for difference in driver.shown() {
            let finding = match difference.what.is_disagreement() {
                true => Finding::fault,
                false => Finding::warning,
            };
            let is_answering = id.is_none_or(|shown| shown.answering);
            let is_loss = difference.what.is_disagreement();
            let words = difference.words(node);
            let fix = match (report.node_found, is_answering) {
                (false, _) if is_loss => {
                    "restart the kubelet, which creates the Node object".to_owned()
                }
                (true, false) if is_loss => format!(
                    "start the driver, then: {}",
                    difference.fix(node, &driver.name)
                ),
                _ => difference.fix(node, &driver.name),
            };
            findings.push(Finding {
                driver: Some(id.map_or(driver.name.clone(), |shown| shown.id.clone())),
                ..finding(CHECK, words, fix)
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::report::{Difference, DriverReport, What};
    use crate::doctor::Level;

    fn report(differences: &[(What, Option<&str>, Option<&str>)]) -> Report {
        let differences = differences
            .iter()
            .map(|(what, driver, cluster)| Difference {
                what: *what,
                driver: driver.map(str::to_owned),
                cluster: cluster.map(str::to_owned),
            });
        let driver = DriverReport {
            name: "a.csi".to_owned(),
            agrees: false,
            repaired: false,
            differences: differences.collect(),
        };
        Report {
            node: "node-1".to_owned(),
            server: "https://here".to_owned(),
            agrees: false,
            node_found: true,
            stale_owner: false,
            drivers: vec![driver],
        }
    }

    #[test]
    fn each_difference_has_its_fix_and_what_is_only_told_is_no_fault() {
        let reannounce = "node-storage-driver-registrar reannounce a.csi";
        let repair = "node-storage-driver-registrar verify --repair";
        let label = "kubectl label node node-1 zone-";
        for (what, driver, cluster, level, fix) in [
            (What::Missing, Some("x"), None, Level::Fault, repair),
            (What::NodeId, Some("x"), Some("y"), Level::Fault, repair),
            (
                What::TopologyKeys,
                Some("zone"),
                None,
                Level::Fault,
                reannounce,
            ),
            (What::Annotation, Some("x"), None, Level::Fault, reannounce),
            (
                What::TopologyLabel,
                Some("zone=a"),
                None,
                Level::Fault,
                reannounce,
            ),
            (
                What::TopologyLabel,
                Some("zone=a"),
                Some("zone=b"),
                Level::Fault,
                label,
            ),
            (
                What::Limit,
                Some("5"),
                Some("8"),
                Level::Warning,
                "nothing, if",
            ),
            (
                What::CsiDriver,
                Some("a.csi"),
                None,
                Level::Warning,
                "kubectl apply",
            ),
        ] {
            let shown = [Driver {
                id: "a".to_owned(),
                name: Some("a.csi".to_owned()),
                answering: true,
                ..Driver::default()
            }];
            let found = findings(&report(&[(what, driver, cluster)]), &shown);
            let [finding] = &found[..] else {
                panic!("{found:?}")
            };
            assert_eq!(finding.level, level, "{finding:?}");
            assert_eq!(finding.driver.as_deref(), Some("a"));
            assert!(finding.fix.contains(fix), "{finding:?}");
        }
    }

    #[test]
    fn what_the_daemon_knows_counts_while_the_cluster_cannot_be_asked() {
        let driver = |in_cluster| Driver {
            phase: "registered".to_owned(),
            reason: "registered by kubelet (pid 1)".to_owned(),
            in_cluster,
            cluster_checked: Some(Timestamp::now().to_string()),
            cluster_difference: "CSINode node-1 does not list it".to_owned(),
            ..Driver::default()
        };
        let found = known(&[driver(Some(true)), driver(None), driver(Some(false))]);
        let [finding] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(finding.level, Level::Fault);
        assert!(
            finding.found.contains("does not list it (checked"),
            "{finding:?}"
        );
    }

    #[test]
    fn a_node_that_is_missing_is_a_fault_and_an_owner_that_is_gone_a_warning() {
        let report = Report {
            node_found: false,
            stale_owner: true,
            ..report(&[])
        };
        let levels: Vec<Level> = findings(&report, &[])
            .iter()
            .map(|found| found.level)
            .collect();
        assert_eq!(levels, [Level::Fault, Level::Warning]);
    }
}
