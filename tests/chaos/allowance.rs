//! How much the faults of a round may cost the cluster.

use bed::kubelet::Counts;

use crate::disk::Disk;
use crate::fault::{DRIVERS, Fault, Need, Place, Squatter, Victim};

/// Registrations and de-registrations that the faults so far explain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowance {
    registrations: usize,
    deregistrations: usize,
    /// Drivers that may be unregistered at this moment: a fault during a registration may undo it.
    moving: usize,
}

impl Allowance {
    pub(crate) fn add(&mut self, fault: Fault) {
        let (registrations, deregistrations) = cost(fault);
        self.spend(registrations, deregistrations);
    }

    /// So often the registrar started without its state file, and knew of no registration.
    pub(crate) fn add_oblivious_starts(&mut self, starts: usize) {
        for _ in 0..starts {
            self.spend(DRIVERS, DRIVERS);
        }
    }

    fn spend(&mut self, registrations: usize, deregistrations: usize) {
        self.registrations += self.moving + registrations;
        self.deregistrations += self.moving + deregistrations;
        self.moving = (self.moving + registrations).min(DRIVERS);
    }

    /// So many drivers restarted to be healthy again.
    pub(crate) fn add_recoveries(&mut self, drivers: usize) {
        if self.moving > 0 {
            self.registrations += drivers;
            self.deregistrations += drivers;
        }
    }

    /// Why the cluster has seen too many changes.
    pub(crate) fn check(self, counts: Counts) -> Result<(), String> {
        let seen = (counts.registrations, counts.deregistrations);
        if seen.0 <= self.registrations && seen.1 <= self.deregistrations {
            return Ok(());
        }
        Err(format!(
            "the kubelet registered and de-registered {seen:?} times, and the faults justify ({}, {})",
            self.registrations, self.deregistrations
        ))
    }
}

/// Registrations and de-registrations that a single fault causes, as in the table of docs/survival.md.
fn cost(fault: Fault) -> (usize, usize) {
    match fault {
        // The cluster gets another limit when the driver restarts with it, which happens in the calm.
        Fault::DriverRenamed(_)
        | Fault::DriverOtherNodeId(_)
        | Fault::DriverMoves(_)
        | Fault::DriverOtherLimit(_) => (1, 1),
        Fault::KubeletKilled | Fault::KubeletRestarts(_) => (DRIVERS, 0),
        Fault::Deleted(Victim::PluginsRegistry) => (DRIVERS, DRIVERS),
        // A kubelet that dials a foreign socket may reach the registrar's socket once that is back, and
        // sees only then that the link has changed.
        Fault::Squatted(Place::Link(_), Squatter::Living | Squatter::Dead)
        | Fault::NoSpace(Disk::Kubelet, Need::Dead(_))
        | Fault::ReadOnly(Disk::Kubelet, Need::Dead(_)) => (2, 2),
        Fault::Deleted(Victim::Link(_))
        | Fault::Squatted(Place::Link(_), _)
        | Fault::EventsLost(_)
        | Fault::NotifyLost => (1, 1),
        _ => (0, 0),
    }
}
