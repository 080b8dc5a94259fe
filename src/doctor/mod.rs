//! RootSource a driver is not registered: looks at everything on the way from the configuration to the
//! kubelet, in that order, and stops where the chain breaks.
//!
//! It only looks. What it cannot look at, it says.

mod csi_socket;
mod directories;
mod kubelets;
mod machine;
mod registration;
mod sandbox;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;

use self::kubelets::KubeletFindings;
use crate::api::control::ClientError;
use crate::config::Settings;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::{Driver, Status};
use crate::supervisor::found_now;

/// What mends that we may not look.
const AS_ROOT: &str = "run the doctor as root";

/// What was found, the worst first.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Diagnosis {
    pub(crate) findings: Vec<Finding>,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// Where on the way.
    pub(crate) check: &'static str,
    /// The driver's id, where it is about one.
    pub(crate) driver: Option<String>,
    /// What was seen.
    pub(crate) saw: String,
    /// What mends it: a command, where there is one.
    pub(crate) mend: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Fault,
    Warning,
}

/// All that the checks look at.
pub(crate) struct Inputs {
    pub(crate) settings: Settings,
    pub(crate) runtime: PathBuf,
    /// What the daemon says, or why it says nothing.
    pub(crate) daemon: Result<Status, ClientError>,
    /// The proc file system.
    pub(crate) proc: PathBuf,
    pub(crate) reach: Reach,
}

impl Finding {
    pub(crate) fn fault(
        check: &'static str,
        saw: impl Into<String>,
        mend: impl Into<String>,
    ) -> Finding {
        Finding {
            level: Level::Fault,
            check,
            driver: None,
            saw: saw.into(),
            mend: mend.into(),
        }
    }

    pub(crate) fn warning(
        check: &'static str,
        saw: impl Into<String>,
        mend: impl Into<String>,
    ) -> Finding {
        Finding {
            level: Level::Warning,
            ..Finding::fault(check, saw, mend)
        }
    }

    fn no_daemon(why: &ClientError) -> Finding {
        let mend = match why {
            ClientError::NoDaemon(_) => "systemctl start node-storage-driver-registrar",
            ClientError::Forbidden(_) => AS_ROOT,
            _ => "systemctl restart node-storage-driver-registrar",
        };
        Finding::fault("daemon", why.to_string(), mend)
    }

    fn of(self, driver: &str) -> Finding {
        Finding {
            driver: Some(driver.to_owned()),
            ..self
        }
    }
}

impl Diagnosis {
    /// A configuration that cannot be read: nothing else can be looked at.
    pub(crate) fn of_bad_configuration(why: String) -> Diagnosis {
        let mend = "correct it, then run: node-storage-driver-registrar check";
        Diagnosis {
            findings: vec![Finding::fault("config", why, mend)],
        }
    }

    /// Looks at everything.
    pub(crate) async fn of(patient: &Inputs) -> Diagnosis {
        // What else such a user cannot do says nothing about the daemon.
        if let Err(why @ ClientError::Forbidden(_)) = &patient.daemon {
            return Diagnosis {
                findings: vec![Finding::no_daemon(why)],
            };
        }
        if let Some(elsewhere) = patient.daemon_of_other_settings() {
            return elsewhere;
        }
        let kubelets = KubeletFindings::find(patient);
        let drivers = patient.drivers();
        let mut findings = sandbox::check(patient);
        findings.extend(directories::check(patient, &kubelets));
        findings.extend(kubelets.dispute());
        // Without its directories no driver gets any further, and each would repeat that.
        if !findings.iter().any(|finding| finding.level == Level::Fault) {
            for id in &drivers {
                let found = registration::check(patient, &kubelets, id).await;
                findings.extend(found.into_iter().map(|finding| finding.of(id)));
            }
        }
        if let Err(why) = &patient.daemon
            && !findings.iter().any(|finding| finding.check == "daemon")
        {
            findings.push(Finding::no_daemon(why));
        }
        findings.extend(machine::check(patient, &drivers));
        findings.sort_by_key(|finding| finding.level);
        Diagnosis { findings }
    }

    pub(crate) fn is_healthy(&self) -> bool {
        !self
            .findings
            .iter()
            .any(|finding| finding.level == Level::Fault)
    }
}

impl Inputs {
    /// A daemon that was started with flags of its own is not to be measured by this
    /// configuration; what it says itself is all that there is.
    fn daemon_of_other_settings(&self) -> Option<Diagnosis> {
        let status = self.daemon.as_ref().ok()?;
        let difference = self.difference(status)?;
        let saw = format!("{difference}: nothing but its own words was looked at");
        let mend =
            "node-storage-driver-registrar reload, unless it was started with flags of its own";
        let mut findings = vec![Finding::warning("config", saw, mend)];
        let registered = Phase::Registered.as_str();
        let drivers = status.drivers.iter();
        for driver in drivers.filter(|driver| driver.phase != registered) {
            let saw = format!("{}: {}", driver.phase, driver.reason);
            let mend = format!(
                "node-storage-driver-registrar inspect {}",
                driver.csi_socket
            );
            findings.push(Finding::fault("daemon", saw, mend).of(&driver.id));
        }
        findings.sort_by_key(|finding| finding.level);
        Some(Diagnosis { findings })
    }

    /// A directory or a socket that the daemon has elsewhere than this configuration.
    fn difference(&self, status: &Status) -> Option<String> {
        let layout = self.settings.layout();
        let links = &status.kubelet.as_ref()?.registry_dir;
        let ours = layout.kubelet_dir().to_string_lossy();
        if *links != ours {
            return Some(format!(
                "the daemon puts its links into {links}, and this configuration has {ours}"
            ));
        }
        status.drivers.iter().find_map(|driver| {
            let Driver { id, csi_socket, .. } = driver;
            let ours = self.settings.driver(id).csi_socket;
            if *csi_socket != ours.to_string_lossy() {
                let ours = ours.display();
                return Some(format!(
                    "the daemon waits for {csi_socket}, and this configuration has {ours} for {id}"
                ));
            }
            let socket = driver.registration_socket.as_ref()?;
            let name = DriverName::parse(driver.name.as_ref()?).ok()?;
            let ours = layout.socket(&name);
            (*socket != ours.to_string_lossy()).then(|| {
                let ours = ours.display();
                format!("the daemon serves {socket}, and this configuration has {ours}")
            })
        })
    }

    /// Those that are configured, those that the daemon has found by itself, and those that it
    /// would find now. A plugins_dir that cannot be read has none; its drivers' own checks say so.
    fn drivers(&self) -> BTreeSet<String> {
        let mut ids: BTreeSet<String> = self.settings.drivers.keys().cloned().collect();
        if let Ok(status) = &self.daemon {
            ids.extend(status.drivers.iter().map(|driver| driver.id.clone()));
        }
        ids.extend(found_now(&self.settings, &self.reach).unwrap_or_default());
        ids
    }
}
