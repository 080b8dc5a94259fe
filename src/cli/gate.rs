//! The gate: the state that `status` and `wait` require of the node before they return 0.

use super::args::{Args, WaitState};
use super::configuration;
use super::exit::Exit;
use super::selection::{find, no_driver};
use super::unapplied::unapplied;
use crate::api::status;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::{Driver, Status};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Clone, Copy)]
pub(super) struct Gate<'a> {
    /// The state that each driver must have reached.
    pub(super) state: WaitState,
    /// Ids or names; empty for all drivers.
    pub(super) drivers: &'a [String],
    /// The daemon must also have no problem and be of this program's version, and it must have read the
    /// configuration on disk. This is about the node, whichever drivers are named.
    pub(super) strict: bool,
}

impl Gate<'_> {
    /// Why the daemon falls short, a text for each reason; empty if it does not.
    pub(super) fn shortfalls(&self, status: &Status) -> Vec<String> {
        let all_ready = self.drivers.is_empty() && self.state == WaitState::Ready;
        let mut shortfalls = if all_ready {
            status::shortfalls(status, self.strict)
        } else {
            let notes = status.problems.iter().filter(|_| self.strict).cloned();
            self.lacking(status).into_iter().chain(notes).collect()
        };
        shortfalls.extend(self.other_version(status));
        shortfalls
    }

    /// The daemon is of another version than this program, and must not be.
    pub(super) fn other_version(&self, status: &Status) -> Option<String> {
        other_version(status).filter(|_| self.strict)
    }

    /// Why the configuration that is on disk now is not the configuration of a daemon that `accepted` its
    /// own at this time, in seconds since 1970: the daemon would refuse it, or has not read it yet.
    pub(super) async fn other_configuration(&self, args: &Args, accepted: f64) -> Option<String> {
        if !self.strict {
            return None;
        }
        match configuration::accepted(args).await {
            Ok(on_disk) => unapplied(&on_disk.changes, accepted),
            Err(Exit::Config(why)) => Some(format!(
                "the daemon would refuse the configuration on disk: {why}"
            )),
            // A file system that hangs says nothing about the configuration.
            Err(Exit::Failed(why)) => {
                Some(format!("cannot check the configuration on disk: {why}"))
            }
            Err(Exit::No | Exit::CommandLine(_) | Exit::Usage(_) | Exit::Unavailable(_)) => None,
        }
    }

    /// The drivers that have not reached the state, each with its reason.
    fn lacking(&self, status: &Status) -> Vec<String> {
        let explain =
            |driver: &Driver| (!self.has_reached(driver)).then(|| status::explain(driver));
        let named = |wanted: &String| match find(status, wanted) {
            Some(driver) => explain(driver),
            None => Some(no_driver(status, wanted)),
        };
        match self.drivers {
            // At least one driver must exist.
            [] if status.drivers.is_empty() => status::unready_drivers(status),
            [] => status.drivers.iter().filter_map(explain).collect(),
            drivers => drivers.iter().filter_map(named).collect(),
        }
    }

    /// A driver without a Node service is excused only where no driver is named: an operator who names it
    /// expects it to be ready.
    fn has_reached(&self, driver: &Driver) -> bool {
        match self.state {
            WaitState::Ready => status::is_ready(driver),
            WaitState::Registered => driver.phase == Phase::Registered.as_str(),
            WaitState::Serving => driver.serving,
        }
    }
}

/// The daemon is of another version than this program: after an upgrade the old process still runs.
pub(super) fn other_version(status: &Status) -> Option<String> {
    (status.version != VERSION).then(|| {
        format!(
            "the daemon runs version {}, and this program is version {VERSION}: systemctl restart node-storage-driver-registrar",
            status.version
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(id: &str, phase: Phase, answering: bool, serving: bool) -> Driver {
        Driver {
            id: id.to_owned(),
            phase: phase.to_string(),
            reason: "so".to_owned(),
            answering,
            serving,
            ..Driver::default()
        }
    }

    /// `b` is registered and does not answer, `c` is serving and not yet registered.
    fn status() -> Status {
        Status {
            version: VERSION.to_owned(),
            drivers: vec![
                driver("a", Phase::Registered, true, true),
                driver("b", Phase::Registered, false, false),
                driver("c", Phase::WaitingForKubelet, true, true),
            ],
            ..Status::default()
        }
    }

    fn shortfalls(
        state: WaitState,
        drivers: &[&str],
        strict: bool,
        status: &Status,
    ) -> Vec<String> {
        let drivers: Vec<String> = drivers.iter().map(|driver| (*driver).to_owned()).collect();
        let gate = Gate {
            state,
            drivers: &drivers,
            strict,
        };
        gate.shortfalls(status)
    }

    #[test]
    fn each_state_has_its_drivers_that_fall_short() {
        use WaitState::{Ready, Registered, Serving};
        let (b, c) = ("b: registered: so", "c: waiting-for-kubelet: so");
        for (state, lacking) in [
            (Ready, vec![b, c]),
            (Registered, vec![c]),
            (Serving, vec![b]),
        ] {
            assert_eq!(shortfalls(state, &[], false, &status()), lacking);
            assert_eq!(shortfalls(state, &["a"], false, &status()), [""; 0]);
            assert_eq!(
                shortfalls(state, &["c", "b", "a"], false, &status()).len(),
                lacking.len()
            );
            let unknown = shortfalls(state, &["x"], false, &status());
            assert_eq!(unknown, ["the daemon has no driver \"x\"; it has a, b, c"]);
            let none = Status {
                drivers: vec![],
                ..status()
            };
            let words = "no drivers are configured or discovered";
            assert_eq!(shortfalls(state, &[], false, &none), [words]);
        }
    }

    #[test]
    fn a_driver_without_a_node_service_counts_only_where_it_is_named() {
        let mut controller = status();
        controller.drivers = vec![Driver {
            without_node_service: true,
            ..driver("a", Phase::WaitingForDriver, true, false)
        }];
        assert_eq!(
            shortfalls(WaitState::Ready, &[], true, &controller),
            [""; 0]
        );
        assert_eq!(
            shortfalls(WaitState::Ready, &["a"], false, &controller),
            ["a: waiting-for-driver: so"]
        );
    }

    #[test]
    fn strict_wants_no_note_and_the_version_of_this_program() {
        let old = Status {
            version: "0.0.1".to_owned(),
            problems: vec!["so it is".to_owned()],
            ..status()
        };
        for state in [WaitState::Ready, WaitState::Registered, WaitState::Serving] {
            assert_eq!(shortfalls(state, &["a"], false, &old), [""; 0]);
            let strict = shortfalls(state, &["a"], true, &old);
            assert_eq!(strict.len(), 2, "{strict:?}");
            assert_eq!(strict[0], "so it is");
            assert!(strict[1].contains("version 0.0.1"), "{strict:?}");
        }
        let old = Status {
            drivers: vec![driver("a", Phase::Registered, true, true)],
            ..old
        };
        assert_eq!(shortfalls(WaitState::Ready, &[], true, &old).len(), 2);
        assert_eq!(shortfalls(WaitState::Ready, &[], false, &old), [""; 0]);
    }
}
