//! The main processes of the units that have a kubelet.

use tokio::runtime::Builder;

use super::systemctl::{SYSTEMCTL, Systemctl, SystemctlError, in_time};

/// The units that have a kubelet, as distributions name them. Our unit is ordered before them.
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

/// The main processes of the kubelets' units that run; none when systemd does not answer.
pub(crate) fn main_pids_of_kubelets() -> Vec<u32> {
    ask_in_thread(SYSTEMCTL).unwrap_or_else(|error| {
        tracing::debug!(%error, "cannot ask systemd for the kubelet's process");
        Vec::new()
    })
}

/// The caller may be inside a runtime, where no code may block on a second runtime.
fn ask_in_thread(systemctl: Systemctl<'_>) -> Result<Vec<u32>, SystemctlError> {
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(in_time(ask(systemctl)))
        });
        answer.join().expect("asking systemd does not panic")
    })
}

/// A unit that does not exist, or does not run, has the main process 0.
async fn ask(systemctl: Systemctl<'_>) -> Result<Vec<u32>, SystemctlError> {
    let mut question = vec!["show", "--property=MainPID"];
    question.extend(UNITS);
    let answer = systemctl.ask(&question).await?;
    let pids = answer
        .lines()
        .filter_map(|line| line.strip_prefix("MainPID=")?.parse().ok());
    Ok(pids.filter(|pid| *pid != 0).collect())
}

#[cfg(test)]
mod tests {
    use super::super::systemctl::tests::script;
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
        let (_dir, path) = script(
            "[ $3 = kubelet.service ] && [ $# = 10 ] || exit 1; printf 'MainPID=4711\\n\\nMainPID=0\\n\\nMainPID=4712\\n'",
        );
        assert_eq!(ask_in_thread(Systemctl(&path)).unwrap(), [4711, 4712]);
        let missing = ask_in_thread(Systemctl("/nowhere/systemctl"));
        assert!(matches!(missing, Err(SystemctlError::Run(_))));
    }
}
