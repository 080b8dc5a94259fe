//! The job that systemd runs for our unit: a stop, or anything else.

use std::fs;

use super::systemctl::{SYSTEMCTL, Systemctl, SystemctlError, in_time};

/// The reason why systemd ends us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// systemd stops our unit, and the machine keeps running.
    Stop,
    /// A restart, a shutdown of the machine, or a signal without a job.
    Other,
}

/// Asks systemd for the job of the unit that this process belongs to, whatever the unit's name is.
/// None when systemd does not answer.
pub(crate) async fn current() -> Option<Job> {
    let job = ask(SYSTEMCTL, "/proc/self/cgroup").await;
    job.inspect_err(|error| tracing::warn!(%error, "cannot ask systemd for the job of this unit"))
        .ok()
}

async fn ask(systemctl: Systemctl<'_>, cgroups: &str) -> Result<Job, SystemctlError> {
    let cgroups = fs::read_to_string(cgroups).map_err(|_| SystemctlError::NoUnit)?;
    let unit = unit_of(&cgroups).ok_or(SystemctlError::NoUnit)?;
    in_time(async {
        let jobs = systemctl
            .ask(&["list-jobs", "--no-legend", "--full"])
            .await?;
        let Some(kind) = kind_of_job(&jobs, unit) else {
            return Ok(Job::Other);
        };
        // Not `is-system-running`, which prints a state also when systemd does not answer.
        let state = systemctl.ask(&["show", "--property=SystemState"]).await?;
        Ok(meaning(kind, state.trim_end()))
    })
    .await
}

/// The unit is the last service or scope in the path of our cgroup, below the slices and above the
/// groups that the unit may have made itself: `0::/system.slice/x.service`, on cgroup v1
/// `1:name=systemd:/system.slice/x.service`.
fn unit_of(cgroups: &str) -> Option<&str> {
    let mut paths = cgroups.lines().filter_map(|line| {
        let (_, group) = line.split_once(':')?;
        group
            .strip_prefix(':')
            .or_else(|| group.strip_prefix("name=systemd:"))
    });
    let is_unit = |name: &&str| name.ends_with(".service") || name.ends_with(".scope");
    let name = paths.find_map(|path| path.rsplit('/').find(is_unit))?;
    // systemd puts a `_` before a name that the kernel could take for one of its own files.
    Some(name.strip_prefix('_').unwrap_or(name))
}

/// A line has the number of a job, its unit, its type and its state.
fn kind_of_job<'a>(jobs: &'a str, unit: &str) -> Option<&'a str> {
    jobs.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        (fields.next() == Some(unit)).then(|| fields.next())?
    })
}

/// The meaning of a job of our unit, in the state that systemd is in.
fn meaning(kind: &str, state: &str) -> Job {
    if kind == "stop" && state != "SystemState=stopping" {
        Job::Stop
    } else {
        Job::Other
    }
}

#[cfg(test)]
mod tests {
    use super::super::systemctl::tests::script;
    use super::*;

    const CGROUPS: &str = "0::/system.slice/registrar.service\n";

    /// What comes of asking a systemctl that runs these lines.
    async fn asking(lines: &str) -> Result<Job, SystemctlError> {
        let (dir, path) = script(lines);
        let cgroups = dir.path().join("cgroup");
        fs::write(&cgroups, CGROUPS).unwrap();
        ask(Systemctl(&path), cgroups.to_str().unwrap()).await
    }

    #[tokio::test]
    async fn a_systemd_that_never_answers_does_not_keep_us_from_stopping() {
        let mute = asking("exec sleep 60");
        let drop_by_drop = asking("while echo . && sleep 0.05; do :; done");
        let only_jobs =
            asking("[ $1 = show ] && exec sleep 60; echo '  7 registrar.service stop running'");
        let (mute, drop_by_drop, only_jobs) = tokio::join!(mute, drop_by_drop, only_jobs);
        for late in [mute, drop_by_drop, only_jobs] {
            assert!(matches!(late, Err(SystemctlError::TimedOut)), "{late:?}");
        }
    }

    #[tokio::test]
    async fn a_systemctl_that_fails_or_is_missing_is_no_answer() {
        let failed = asking("echo Failed to connect to bus >&2; exit 1").await;
        assert_eq!(
            failed.unwrap_err().to_string(),
            "systemctl list-jobs --no-legend --full failed: Failed to connect to bus"
        );
        let cgroups = tempfile::NamedTempFile::new().unwrap();
        fs::write(cgroups.path(), CGROUPS).unwrap();
        let cgroups = cgroups.path().to_str().unwrap();
        let missing = ask(Systemctl("/nowhere/systemctl"), cgroups).await;
        assert!(matches!(missing, Err(SystemctlError::Run(_))));
        fs::write(cgroups, "0::/\n").unwrap();
        let no_unit = ask(Systemctl("/nowhere/systemctl"), cgroups).await;
        assert!(matches!(no_unit, Err(SystemctlError::NoUnit)));
    }

    #[tokio::test]
    async fn the_job_of_our_own_unit_counts() {
        let with = async |jobs: &str, state: &str| {
            let answers = format!(
                "case $1 in list-jobs) echo '{jobs}' ;; show) echo SystemState={state} ;; esac"
            );
            asking(&answers).await
        };
        let ours = "  12 other.service restart waiting\n   7 registrar.service stop running";
        assert_eq!(with(ours, "running").await.unwrap(), Job::Stop);
        assert_eq!(with(ours, "stopping").await.unwrap(), Job::Other);
        let others = "12 registrar.service.d stop running\n13 my-registrar.service stop running";
        assert_eq!(with(others, "running").await.unwrap(), Job::Other);
        let none = "No jobs running.";
        assert_eq!(with(none, "running").await.unwrap(), Job::Other);
    }

    #[tokio::test]
    async fn a_systemctl_that_systemd_ends_together_with_us_is_run_again() {
        let killed_once = "[ -e $0.killed ] || { touch $0.killed; kill -TERM $$; }; echo '7 registrar.service stop running'";
        assert_eq!(asking(killed_once).await.unwrap(), Job::Stop);
    }

    #[test]
    fn the_unit_is_found_on_either_version_of_cgroups() {
        let cases = [
            ("0::/system.slice/a.service\n", Some("a.service")),
            ("0::/system.slice/a.service/made-by-it\n", Some("a.service")),
            ("0::/system.slice/_memory.service\n", Some("memory.service")),
            ("0::/system.slice/run-7.scope\n", Some("run-7.scope")),
            (
                "0::/machine.slice/m.scope/payload/system.slice/a.service\n",
                Some("a.service"),
            ),
            (
                "4:memory:/x.service\n1:name=systemd:/system.slice/a@b.service\n",
                Some("a@b.service"),
            ),
            (
                "1:name=systemd:/system.slice/a.service\n0::/\n",
                Some("a.service"),
            ),
            ("0::/init\n", None),
            ("", None),
        ];
        for (cgroups, unit) in cases {
            assert_eq!(unit_of(cgroups), unit, "{cgroups}");
        }
    }

    #[test]
    fn only_a_stop_while_the_machine_runs_on_is_a_stop() {
        assert_eq!(meaning("stop", "SystemState=running"), Job::Stop);
        assert_eq!(meaning("stop", "SystemState=degraded"), Job::Stop);
        assert_eq!(meaning("stop", "SystemState=stopping"), Job::Other);
        for kind in ["restart", "try-restart", "reload-or-start", "start"] {
            assert_eq!(meaning(kind, "SystemState=running"), Job::Other, "{kind}");
        }
    }
}
