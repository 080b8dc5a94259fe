//! Which processes systemd runs as kubelets.

use std::path::Path;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;

use super::bus::{Bus, BusError, PRIVATE_SOCKET};

/// A query takes 10 to 30 ms; a systemd that does not answer may not hold up a start or a reload.
const PATIENCE: Duration = Duration::from_secs(2);

/// The units that have a kubelet, as distributions name them: those that ours is ordered before.
const UNITS: [&str; 8] = [
    "kubelet.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "k0scontroller.service",
    "k0sworker.service",
    "snap.microk8s.daemon-kubelite.service",
];

/// The main processes of all kubelets' units that run; none where systemd cannot be asked.
pub(crate) fn main_pids_of_kubelets() -> Vec<u32> {
    ask_aside(Path::new(PRIVATE_SOCKET))
}

/// In a thread of its own: the caller may be within a runtime, where nothing may block on another.
fn ask_aside(systemd: &Path) -> Vec<u32> {
    let asked = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                timeout(PATIENCE, ask(systemd))
                    .await
                    .unwrap_or_else(|late| Err(BusError::Io(late.into())))
            })
        });
        asking.join()
    });
    match asked {
        Ok(Ok(pids)) => pids,
        Ok(Err(error)) => {
            tracing::debug!(%error, "systemd cannot be asked for the kubelet's process");
            Vec::new()
        }
        Err(_) => {
            tracing::warn!("asking systemd for the kubelet's process failed");
            Vec::new()
        }
    }
}

async fn ask(systemd: &Path) -> Result<Vec<u32>, BusError> {
    let mut bus = Bus::connect(systemd).await?;
    let mut pids = Vec::new();
    for unit in UNITS {
        match bus.main_pid(unit).await {
            Ok(0) => {}
            Ok(pid) => pids.push(pid),
            // No such unit, or no service.
            Err(BusError::Error(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::super::bus::tests::{number, systemd};
    use super::*;

    #[test]
    fn the_units_are_those_that_ours_is_ordered_before() {
        let unit = include_str!("../../systemd/node-storage-driver-registrar.service");
        let before = unit.lines().find_map(|line| line.strip_prefix("Before="));
        let before: Vec<&str> = before.unwrap().split(' ').collect();
        assert_eq!(before, UNITS);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_main_processes_of_units_that_run_are_found_from_within_a_runtime() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("private");
        let listener = UnixListener::bind(&path).unwrap();
        let mut replies = vec![(2, number(4711)), (3, Vec::new()), (2, number(4712))];
        replies.resize(UNITS.len(), (2, number(0)));
        tokio::spawn(systemd(listener, replies));
        assert_eq!(ask_aside(&path), [4711, 4712]);
        assert_eq!(ask_aside(&dir.path().join("nowhere")), [] as [u32; 0]);
    }
}
