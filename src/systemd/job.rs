//! Why systemd ends us: a stop, a restart, a shutdown, or no job at all.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;

use super::bus::{Bus, BusError, PRIVATE_SOCKET};

/// A query takes 10 to 30 ms; a systemd that does not answer may not keep us from stopping.
const PATIENCE: Duration = Duration::from_secs(2);

/// What systemd is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Our unit is being stopped, and the machine runs on.
    Stop,
    /// Anything else: a restart, a shutdown, a signal with no job behind it.
    Other,
}

/// Asks systemd for the job of the unit that this process belongs to, whatever its name. None when
/// it cannot be asked.
pub(crate) async fn current() -> Option<Job> {
    ask_in_time(Path::new(PRIVATE_SOCKET)).await
}

async fn ask_in_time(systemd: &Path) -> Option<Job> {
    match timeout(PATIENCE, ask(systemd)).await {
        Ok(Ok(job)) => Some(job),
        Ok(Err(error)) => {
            tracing::warn!(%error, "systemd cannot be asked why it ends us");
            None
        }
        Err(_) => {
            tracing::warn!("systemd does not say why it ends us");
            None
        }
    }
}

async fn ask(systemd: &Path) -> Result<Job, BusError> {
    let mut bus = Bus::connect(systemd).await?;
    let unit = bus.unit_of(std::process::id()).await?;
    let (number, job) = bus.job(&unit).await?;
    if number == 0 {
        return Ok(Job::Other);
    }
    let kind = bus
        .text(&job, "org.freedesktop.systemd1.Job", "JobType")
        .await?;
    let manager = "/org/freedesktop/systemd1";
    let state = bus
        .text(manager, "org.freedesktop.systemd1.Manager", "SystemState")
        .await?;
    Ok(meant(&kind, &state))
}

/// What a job of our unit means, in the state that the manager is in.
fn meant(kind: &str, state: &str) -> Job {
    if kind == "stop" && state != "stopping" {
        Job::Stop
    } else {
        Job::Other
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{UnixListener, UnixStream};

    use super::*;

    /// What comes of asking a systemd that takes the connection and then does this.
    async fn asking<W: Future<Output = ()> + Send>(
        manner: impl Fn(UnixStream) -> W + Send + 'static,
    ) -> Option<Job> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("private");
        let listener = UnixListener::bind(&path).unwrap();
        let systemd = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            manner(stream).await;
        });
        let job = ask_in_time(&path).await;
        systemd.abort();
        job
    }

    /// Lets us in, and then says this for as long as we listen.
    async fn repeat(mut stream: UnixStream, words: &[u8]) {
        let mut said = stream.write_all(b"OK 0123456789abcdef\r\n").await;
        while said.is_ok() {
            said = stream.write_all(words).await;
        }
    }

    #[tokio::test]
    async fn a_systemd_that_never_answers_does_not_keep_us_from_stopping() {
        let mute = asking(|mut stream| async move {
            let mut heard = Vec::new();
            drop(stream.read_to_end(&mut heard).await);
        });
        let drop_by_drop = asking(|mut stream| async move {
            while stream.write_all(b"O").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        // A signal without fields or body, for ever: never a reply.
        let signals = asking(|stream| async move {
            repeat(stream, b"l\x04\0\x01\0\0\0\0\x01\0\0\0\0\0\0\0").await;
        });
        let gone = asking(|stream| async move { drop(stream) });
        let answers = tokio::join!(mute, drop_by_drop, signals, gone);
        assert_eq!(answers, (None, None, None, None));
    }

    #[test]
    fn only_a_stop_while_the_machine_runs_on_is_a_stop() {
        assert_eq!(meant("stop", "running"), Job::Stop);
        assert_eq!(meant("stop", "degraded"), Job::Stop);
        assert_eq!(meant("stop", "stopping"), Job::Other);
        for kind in ["restart", "try-restart", "reload-or-start", "start"] {
            assert_eq!(meant(kind, "running"), Job::Other, "{kind}");
        }
    }
}
