//! One look at the daemon and at the cluster: which drivers are registered, and what the cluster has of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::storage::v1::CSIDriver;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::api_server::{ApiServer, Freshness};
use super::comparison::{
    Objects, Registered, compare, registered, unregistered, waits_for_attachment,
};
use super::kubeconfig;
use super::machine::{Machine, ThisMachine};
use super::memory::Memory;
use super::node_name;
use super::repair::{Decision, decide};
use super::report::{DriverReport, Report};
use super::unasked::Unasked;
use super::verification::{Verification, VerificationError, now};
use crate::config::NodeName;
use crate::csi::query::DriverQuery;
use crate::disk::reach::Reach;
use crate::grpc::proto::control::{ClusterFinding, ClusterReport, Status};
use crate::kubelet::api_access::ApiAccess;

const NODES: &str = "/api/v1/nodes";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
const CSI_DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";

/// How long all drivers together may take to say whether they attach volumes.
const ASKING: Duration = Duration::from_secs(5);

/// How much of a report the daemon takes at once: it takes 64 KiB.
const FINDINGS: usize = 50;
const LONGEST_WORDS: usize = 256;

/// One look at the daemon and at the cluster.
#[derive(Clone)]
pub(crate) struct Look {
    pub(super) drivers: Vec<Registered>,
    pub(crate) report: Report,
    /// The file that led to the API server.
    pub(crate) kubeconfig: PathBuf,
    /// The drivers that are not registered, with their phases.
    pub(crate) others: Vec<(String, String)>,
    /// When the API server was asked.
    asked: Instant,
    /// The machine of the Node.
    machine: Machine,
    /// A Node that is not of this machine for certain may be a mistake: of the operator's who names another one, or in a
    /// kubeconfig of another cluster.
    pub(super) may_be_mistaken: bool,
}

/// What a report tells, and nothing follows from.
#[derive(Default)]
pub(crate) struct Told {
    csi_drivers: BTreeMap<String, Option<CSIDriver>>,
    without_attacher: BTreeSet<String>,
    /// Why it is not known which CSIDriver objects exist.
    pub(crate) unknown: Option<String>,
}

impl Verification {
    /// The API server's cache may be behind: what differs there is looked at once more.
    pub(super) async fn first_look(&self) -> Result<Look, VerificationError> {
        match self.look(Freshness::Cached).await {
            Ok(look) if look.report.agrees => Ok(look),
            Ok(_) | Err(VerificationError::Unasked(Unasked::OtherMachine { .. })) => {
                self.look(Freshness::Current).await
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn look(&self, freshness: Freshness) -> Result<Look, VerificationError> {
        let status = self.daemon().await?.status().await?;
        let drivers = registered(&status).ok_or(VerificationError::OldDaemon)?;
        let (path, access) = self.access_apart(&status).await?;
        let asked = Instant::now();
        let server = ApiServer::connect(&path, self.timeout).await?;
        let named = || name_of_node(&server, &access);
        let node_name = self.node.get_or_try_init(named).await?;
        let mut objects = Objects {
            node: server.get(NODES, node_name.as_str(), freshness).await?,
            csi_node: server.get(CSI_NODES, node_name.as_str(), freshness).await?,
            ..Objects::default()
        };
        let machine = objects
            .node
            .as_ref()
            .map(|node| ThisMachine::read().of(node));
        let machine = machine.unwrap_or_default();
        // After a boot, and until the kubelet runs, the Node is of the boot before; no driver is registered then.
        if machine == Machine::Other && !drivers.is_empty() {
            return Err(Unasked::OtherMachine {
                node: node_name.as_str().to_owned(),
                kubeconfig: path,
            }
            .into());
        }
        let ask = || self.ask_what_is_told(&server, &drivers);
        let told = self.told.get_or_init(ask).await;
        objects.csi_drivers.clone_from(&told.csi_drivers);
        objects.without_attacher.clone_from(&told.without_attacher);
        let report = compare(node_name.as_str(), server.url(), &drivers, &objects);
        let is_kubelets_own = access.kubeconfig.as_ref() == Some(&path);
        Ok(Look {
            asked,
            machine,
            may_be_mistaken: machine != Machine::This && (self.node_is_named || !is_kubelets_own),
            drivers,
            report,
            kubeconfig: path,
            others: unregistered(&status),
        })
    }

    /// Finds the kubeconfig in another thread: a file system that hangs must not hold up the command.
    async fn access_apart(&self, status: &Status) -> Result<(PathBuf, ApiAccess), Unasked> {
        let named = self.kubeconfig.clone();
        let called = status.kubelet.as_ref().and_then(|kubelet| kubelet.pid);
        let search = spawn_blocking(move || access(named.as_deref(), called));
        match timeout(self.timeout, search).await {
            // A thread ends without a result only when the process does.
            Ok(found) => found.unwrap_or(Err(Unasked::NoKubeconfig)),
            Err(_) => Err(Unasked::SearchHangs(self.timeout)),
        }
    }

    async fn ask_what_is_told(&self, server: &ApiServer, drivers: &[Registered]) -> Told {
        let mut told = Told::default();
        for driver in drivers {
            // The API server refuses other names for an object, and so has none.
            let Some(name) = NodeName::parse(&driver.name) else {
                told.csi_drivers.insert(driver.name.clone(), None);
                continue;
            };
            let object = server.get(CSI_DRIVERS, name.as_str(), Freshness::Cached);
            match object.await {
                Ok(object) => drop(told.csi_drivers.insert(driver.name.clone(), object)),
                Err(why) => {
                    let unknown = format!("which CSIDriver objects exist is not known: {why}");
                    told.unknown = Some(unknown);
                    break;
                }
            }
        }
        told.without_attacher = self.ask_for_attachers(drivers, &told.csi_drivers).await;
        told
    }

    /// The drivers that say that they attach nothing, of those whose CSIDriver object waits for an attachment.
    async fn ask_for_attachers(
        &self,
        drivers: &[Registered],
        csi_drivers: &BTreeMap<String, Option<CSIDriver>>,
    ) -> BTreeSet<String> {
        let mut without = BTreeSet::new();
        let asking = async {
            for driver in drivers
                .iter()
                .filter(|driver| waits_for_attachment(driver, csi_drivers))
            {
                let mut settings = self.settings.driver(&driver.id);
                settings.csi_socket = PathBuf::from(&driver.csi_socket);
                let query = DriverQuery::new(&settings, false, &Reach::now());
                // A driver that does not tell is left out.
                if let Ok(attaching) = query.attaching().await
                    && !attaching.required()
                {
                    without.insert(driver.name.clone());
                }
            }
        };
        if timeout(ASKING, asking).await.is_err() {
            tracing::debug!("not every driver said in time whether it attaches volumes");
        }
        without
    }
}

impl Look {
    pub(super) fn decisions(&self, memory: &Memory) -> Vec<(&Registered, Decision)> {
        decide(
            &self.drivers,
            &self.report,
            self.machine,
            &memory.repairs,
            now(),
        )
    }

    /// This look misses the same registration of the driver.
    pub(super) fn has_lost(&self, driver: &Registered) -> bool {
        let mut pairs = self.drivers.iter().zip(&self.report.drivers);
        pairs.any(|(seen, found)| {
            let is_same = seen.id == driver.id && seen.registrations == driver.registrations;
            is_same && !found.is_in_cluster()
        })
    }

    /// Notes what came of an announcement. A driver that is not registered again is as it was before.
    pub(super) fn mark(&mut self, name: &str, is_repaired: bool, before: &[DriverReport]) {
        let drivers = &mut self.report.drivers;
        if let Some(found) = drivers.iter_mut().find(|found| found.name == name) {
            found.repaired = is_repaired;
            return;
        }
        let lost = before.iter().find(|found| found.name == name);
        drivers.extend(lost.cloned());
        self.report.agrees = false;
    }

    /// The cluster has the driver.
    pub(super) fn has(&self, name: &str) -> bool {
        let mut drivers = self.report.drivers.iter();
        drivers.any(|found| found.name == name && found.is_in_cluster())
    }

    /// What the daemon is told, in parts that it takes.
    pub(super) fn findings(&self) -> Vec<ClusterReport> {
        let node = &self.report.node;
        let pairs = self.drivers.iter().zip(&self.report.drivers);
        let findings = pairs.map(|(driver, found)| {
            let difference = found.disagreement(node, self.report.node_found);
            ClusterFinding {
                driver: driver.id.clone(),
                registrations: driver.registrations,
                in_cluster: found.is_in_cluster(),
                difference: difference.chars().take(LONGEST_WORDS).collect(),
            }
        });
        let mut findings: Vec<ClusterFinding> = findings.collect();
        let mut reports = Vec::new();
        // A report without drivers tells that the cluster was asked.
        while !findings.is_empty() || reports.is_empty() {
            let rest = findings.split_off(findings.len().min(FINDINGS));
            reports.push(ClusterReport {
                drivers: findings,
                age_ms: u64::try_from(self.asked.elapsed().as_millis()).unwrap_or(u64::MAX),
            });
            findings = rest;
        }
        reports
    }
}

async fn name_of_node(server: &ApiServer, access: &ApiAccess) -> Result<NodeName, Unasked> {
    let user = server.user().await?;
    let of_user = user.as_deref().and_then(node_name::of_user);
    of_user.map_or_else(|| node_name::of_host(access.node_name.as_deref()), Ok)
}

/// The kubeconfig, and what the kubelet's command line says. May block.
fn access(named: Option<&Path>, called: Option<u32>) -> Result<(PathBuf, ApiAccess), Unasked> {
    let proc = Path::new("/proc");
    let access = match ApiAccess::find(proc, called) {
        // Two kubelets are no matter for an operator who says which.
        Err(_) if named.is_some() => ApiAccess::default(),
        found => found?,
    };
    let path = kubeconfig::locate(named, &access, proc)?;
    Ok((path, access))
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::grpc::MESSAGE_LIMIT;
    use crate::grpc::proto::control::Driver;

    #[test]
    fn a_report_of_a_thousand_drivers_comes_in_parts() {
        let driver = Driver {
            id: "d".repeat(60),
            name: Some("a.csi".to_owned()),
            phase: "registered".to_owned(),
            registered_node_id: Some("n".repeat(256)),
            ..Driver::default()
        };
        let look = |count| {
            let status = Status {
                drivers: vec![driver.clone(); count],
                ..Status::default()
            };
            let drivers = registered(&status).unwrap();
            Look {
                report: compare("node-1", "https://here", &drivers, &Objects::default()),
                drivers,
                kubeconfig: PathBuf::new(),
                others: Vec::new(),
                asked: Instant::now(),
                machine: Machine::This,
                may_be_mistaken: false,
            }
        };
        let reports = look(1000).findings();
        let all: usize = reports.iter().map(|report| report.drivers.len()).sum();
        assert_eq!(all, 1000);
        assert!(
            reports
                .iter()
                .all(|report| report.encoded_len() < MESSAGE_LIMIT)
        );
        let [empty] = &look(0).findings()[..] else {
            panic!("a look without drivers is no report");
        };
        assert!(empty.drivers.is_empty());
    }
}
