//! The volumes in use: whether they are known, and whether the kubelet can unmount them.

use std::collections::BTreeMap;

use super::{Finding, Inputs};
use crate::api::{status, volumes};
use crate::disk::directory::LET_US_READ;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::Driver;
use crate::kubelet::volumes::{VolumeReader, VolumeUse};
use crate::os::text::quoted;

const CHECK: &str = "volumes";

pub(super) async fn check(inputs: &Inputs) -> Vec<Finding> {
    if inputs.daemon.is_ok() {
        return of_daemon(inputs.shown());
    }
    let roots = inputs.settings.kubelet_roots();
    let found = VolumeReader::new(roots, inputs.reach.clone()).read().await;
    found.unknown().map(not_known).into_iter().collect()
}

/// What the daemon has found. It may read less than the doctor, in its sandbox.
fn of_daemon(drivers: &[Driver]) -> Vec<Finding> {
    let mut unknown: BTreeMap<&str, Vec<&Driver>> = BTreeMap::new();
    for driver in drivers {
        if let Some(why) = &driver.volumes_unknown {
            unknown.entry(why).or_default().push(driver);
        }
    }
    let unknown = unknown.into_iter().map(|(why, drivers)| Finding {
        driver: match drivers[..] {
            [driver] => Some(driver.id.clone()),
            _ => None,
        },
        ..not_known(why)
    });
    unknown.chain(drivers.iter().filter_map(stuck)).collect()
}

fn not_known(why: &str) -> Finding {
    let found = format!("it is not known which volumes are in use: {why}");
    let fix = format!(
        "let the daemon read it ({LET_US_READ}); for a vol_data.json that is empty or cut, do the steps of docs/volumes.md, \"A damaged vol_data.json\"; until then the registrar keeps the driver on the node, and withdraw needs --force"
    );
    Finding::warning(CHECK, found, fix)
}

/// Volumes that the kubelet cannot unmount at present: their pods stay in Terminating when they are deleted.
fn stuck(driver: &Driver) -> Option<Finding> {
    let found = volumes::of(driver)?;
    if status::can_be_called(driver) || !matches!(found, VolumeUse::InUse { .. }) {
        return None;
    }
    let words = found.words()?;
    let (state, fix) = if driver.phase == Phase::Withdrawn.as_str() {
        let id = quoted(&driver.id);
        let publish = format!("node-storage-driver-registrar publish {id}");
        ("is withdrawn", publish)
    } else if driver.phase == Phase::Registered.as_str() {
        ("does not answer", "start the driver".to_owned())
    } else {
        let fix = "fix what keeps the driver from being registered";
        ("is not registered", fix.to_owned())
    };
    let found = format!(
        "{words}, and the driver {state}: the kubelet cannot unmount them, and a pod that is deleted stays in Terminating"
    );
    Some(Finding {
        driver: Some(driver.id.clone()),
        ..Finding::warning(CHECK, found, fix)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(id: &str, phase: Phase, volumes: Option<u64>) -> Driver {
        Driver {
            id: id.to_owned(),
            phase: phase.to_string(),
            answering: true,
            volumes,
            ..Driver::default()
        }
    }

    #[test]
    fn one_cause_is_one_finding_with_its_file() {
        let unknown = |id: &str, why: &str| Driver {
            volumes_unknown: Some(why.to_owned()),
            ..driver(id, Phase::Registered, None)
        };
        let disk = "cannot read /k/pods: Permission denied";
        let staged = "cannot read /k/plugins/kubernetes.io/csi/c/1/vol_data.json: it is empty";
        let findings = of_daemon(&[
            unknown("a", disk),
            unknown("b", disk),
            unknown("c", staged),
            driver("d", Phase::Registered, Some(1)),
        ]);
        let [of_node, of_driver] = &findings[..] else {
            panic!("{findings:#?}");
        };
        let (of_node, of_driver) = match of_node.driver {
            None => (of_node, of_driver),
            Some(_) => (of_driver, of_node),
        };
        assert!(of_node.found.ends_with(disk), "{of_node:?}");
        assert!(of_node.fix.contains("CAP_DAC_OVERRIDE"), "{of_node:?}");
        // To remove a directory could delete the data of a volume that is still mounted.
        let page = "docs/volumes.md, \"A damaged vol_data.json\"";
        assert!(of_node.fix.contains(page), "{of_node:?}");
        assert!(!of_node.fix.contains("directory"), "{of_node:?}");
        assert_eq!(of_driver.driver.as_deref(), Some("c"));
        assert!(of_driver.found.ends_with(staged), "{of_driver:?}");
    }

    #[test]
    fn volumes_that_the_kubelet_cannot_unmount_are_a_warning_and_others_are_none() {
        let silent = Driver {
            answering: false,
            ..driver("silent", Phase::Registered, Some(1))
        };
        // The kubelet unmounts what it has, whatever CSINode says.
        let lacking = Driver {
            in_cluster: Some(false),
            ..driver("lacking", Phase::Registered, Some(3))
        };
        let findings = of_daemon(&[
            driver("well", Phase::Registered, Some(5)),
            lacking,
            driver("free", Phase::Withdrawn, Some(0)),
            driver("old", Phase::Withdrawn, None),
            driver("withdrawn", Phase::Withdrawn, Some(2)),
            silent,
            driver("lost", Phase::Rejected, Some(1)),
        ]);
        let told: Vec<_> = findings
            .iter()
            .map(|finding| (finding.driver.as_deref().unwrap_or_default(), &*finding.fix))
            .collect();
        assert_eq!(
            told,
            [
                (
                    "withdrawn",
                    "node-storage-driver-registrar publish withdrawn"
                ),
                ("silent", "start the driver"),
                ("lost", "fix what keeps the driver from being registered"),
            ]
        );
        let words = "2 volumes are in use by no known pod, and the driver is withdrawn: ";
        assert!(findings[0].found.starts_with(words), "{findings:#?}");
    }
}
