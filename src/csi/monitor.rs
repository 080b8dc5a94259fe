//! The monitor of a driver: waits for the driver, asks it, and notices when it goes.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::error::DriverError;
use super::limiter::ConcurrencyLimiter;
use super::query::DriverQuery;
use crate::disk::identity::Identity;
use crate::disk::reach::Hung;
use crate::driver::answer::Answer;
use crate::grpc::idle_connection::IdleConnection;
use crate::os::backoff::Backoff;
use crate::os::task::Task;

/// The pause after the first failure: bind comes before listen, by microseconds.
const FIRST_RETRY: Duration = Duration::from_millis(1);
/// A driver that stays this long is healthy. A driver that answers and ends each time is not, and
/// is asked more and more slowly.
const STEADY: Duration = Duration::from_secs(10);
/// A server may close connections that are idle or old. If it closes them sooner than this, the
/// monitor connects more and more slowly.
const BRIEF: Duration = Duration::from_secs(1);
/// How soon the monitor asks a driver again after its server has closed a connection. While that
/// goes on with the same answer each time, the monitor does not ask each time: an answer may cost
/// the driver a call to its cloud. The next connection shows that a process listens.
const ASK_AGAIN: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// A change that the monitor noticed.
#[derive(Debug)]
pub(crate) enum MonitorReport {
    /// The driver has come, or come back, and listens on this socket.
    Answered(Answer, Identity),
    /// The driver still runs, and its answer has changed.
    Changed(Answer),
    Silent(DriverError),
}

/// A running monitor. It ends when this is dropped.
pub(crate) struct Monitor {
    signals: watch::Sender<MonitorSignals>,
    _task: Task,
}

/// Counts of events outside. A new count means "look again".
#[derive(Clone, Copy, Default)]
struct MonitorSignals {
    /// Something changed on the socket's path.
    changes: u64,
    /// Ask the driver again although nothing changed.
    checks: u64,
}

struct MonitorTask<T> {
    query: DriverQuery,
    limiter: ConcurrencyLimiter,
    backoff: Backoff,
    report: T,
    signals: watch::Receiver<MonitorSignals>,
    /// The signals that the task has acted on.
    seen: MonitorSignals,
    retries: u32,
    /// NodeGetInfo took longer than its deadline, and the monitor has reported that.
    late: bool,
}

/// The answer of a driver that the monitor stays with. None means a driver without a Node service:
/// it is useless to ask that driver again before something changes.
type Reply = Option<Answer>;

/// Why the monitor no longer stays with a driver.
enum Gone {
    /// Another socket is in its place. The monitor asks the process behind the new socket before it
    /// reports anything.
    Replaced,
    Lost(DriverError),
}

impl Monitor {
    /// Starts to wait for the driver, and calls `report` with each change.
    pub(crate) fn start(
        query: DriverQuery,
        limiter: ConcurrencyLimiter,
        retry_max: Duration,
        report: impl Fn(MonitorReport) + Send + Sync + 'static,
    ) -> Monitor {
        let (sender, signals) = watch::channel(MonitorSignals::default());
        let mut task = MonitorTask {
            query,
            limiter,
            backoff: Backoff::new(FIRST_RETRY, retry_max),
            report,
            signals,
            seen: MonitorSignals::default(),
            retries: 0,
            late: false,
        };
        Monitor {
            signals: sender,
            _task: Task::spawn(async move {
                loop {
                    task.wait_and_stay().await;
                }
            }),
        }
    }

    /// Something changed on the socket's path.
    pub(crate) fn changed(&self) {
        self.signals.send_modify(|signals| signals.changes += 1);
    }

    /// Look at the disk, in case an event was missed.
    pub(crate) fn resync(&self) {
        self.signals.send_modify(|_| ());
    }

    /// Ask the driver again: it may hang with its connection open.
    pub(crate) fn check(&self) {
        self.signals.send_modify(|signals| signals.checks += 1);
    }
}

impl<T: Fn(MonitorReport)> MonitorTask<T> {
    /// Asks the driver, stays with it if it answers, and waits until the next try is due.
    async fn wait_and_stay(&mut self) {
        self.seen = *self.signals.borrow_and_update();
        let (error, is_on_disk) = match self.ask().await {
            Ok(None) => return,
            Ok(Some((socket, held, reply))) => {
                let begun = Instant::now();
                self.late = false;
                (self.report)(came(&reply, &socket));
                let Err(gone) = self.stay_with(&socket, held, reply).await;
                let Gone::Lost(error) = gone else { return };
                if begun.elapsed() >= STEADY {
                    self.retries = 0;
                }
                // The next look shows what exists now.
                (error, false)
            }
            Err(error) => {
                let is_on_disk = error.is_on_disk();
                (error, is_on_disk)
            }
        };
        self.late = error.is_node_info_late();
        let hung = error.hung().cloned();
        (self.report)(MonitorReport::Silent(error));
        self.pause(hung, is_on_disk).await;
    }

    /// None when the socket was replaced before the driver answered.
    async fn ask(&mut self) -> Result<Option<(Identity, IdleConnection, Reply)>, DriverError> {
        let socket = self.query.look().await?;
        let (query, report, late) = (&self.query, &self.report, self.late);
        let slow = |error| {
            if !late {
                report(MonitorReport::Silent(error));
            }
        };
        let asked = self.limiter.run(|| query.hold_and_ask(slow));
        let Ok(asked) = undisturbed(&mut self.signals, query, &socket, asked).await else {
            return Ok(None);
        };
        let (held, answer) = asked?;
        Ok(Some((socket, held, reply(answer)?)))
    }

    /// Waits until the next try is due: after a delay, after a file system that `hung` responds
    /// again, or, if the fault `is_on_disk`, after a change there. A change ends the wait at once;
    /// a resync does so only while no usable socket exists.
    async fn pause(&mut self, hung: Option<Hung>, is_on_disk: bool) {
        let delay = self.backoff.delay(self.retries);
        let is_delay = hung.is_none() && !is_on_disk;
        let rest = async move {
            match hung {
                Some(hung) => hung.over().await,
                None if is_on_disk => pending().await,
                None => {}
            }
            sleep(delay).await;
        };
        tokio::pin!(rest);
        while self.signals.borrow().changes == self.seen.changes {
            tokio::select! {
                () = &mut rest => {
                    self.retries = self.retries.saturating_add(1);
                    return;
                }
                () = next(&mut self.signals) => if !is_delay { break },
            }
        }
        self.retries = 0;
    }

    /// Stays with a driver as long as it answers.
    async fn stay_with(
        &mut self,
        socket: &Identity,
        mut held: IdleConnection,
        mut reply: Reply,
    ) -> Result<Infallible, Gone> {
        let (mut brief, mut same, mut asked) = (0, 0, Instant::now());
        loop {
            let ended = tokio::select! {
                () = &mut held.ended => true,
                () = next(&mut self.signals) => false,
            };
            let now = *self.signals.borrow_and_update();
            is_same(&self.query, socket).await?;
            // A server may close an idle connection while its driver runs. A driver that accepts no
            // new connection has gone.
            if ended {
                if held.since.elapsed() < BRIEF {
                    let rest = sleep(self.backoff.delay(brief));
                    brief = brief.saturating_add(1);
                    undisturbed(&mut self.signals, &self.query, socket, rest).await?;
                } else {
                    brief = 0;
                }
                held = self.query.hold().await.map_err(Gone::Lost)?;
            }
            let is_due = ended && asked.elapsed() >= ASK_AGAIN.delay(same);
            if is_due || now.checks != self.seen.checks {
                let again = self.limiter.run(|| self.query.ask());
                let again = undisturbed(&mut self.signals, &self.query, socket, again).await?;
                let again = self::reply(again).map_err(|error| match error {
                    DriverError::TimedOut { .. } => Gone::Lost(DriverError::Hung(Box::new(error))),
                    _ => Gone::Lost(error),
                })?;
                if again == reply {
                    same = same.saturating_add(1);
                } else {
                    (self.report)(match (&reply, &again) {
                        (Some(_), Some(answer)) => MonitorReport::Changed(answer.clone()),
                        (None, _) | (_, None) => came(&again, socket),
                    });
                    (reply, same) = (again, 0);
                }
                asked = Instant::now();
            }
            self.seen = now;
        }
    }
}

fn reply(answer: Result<Answer, DriverError>) -> Result<Reply, DriverError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(DriverError::NoNodeService) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The report of a driver that has come, and listens on this socket.
fn came(reply: &Reply, socket: &Identity) -> MonitorReport {
    match reply {
        Some(answer) => MonitorReport::Answered(answer.clone(), socket.clone()),
        None => MonitorReport::Silent(DriverError::NoNodeService),
    }
}

/// Waits for the next signal.
async fn next(signals: &mut watch::Receiver<MonitorSignals>) {
    if signals.changed().await.is_err() {
        // The monitor was dropped, which aborts this task.
        pending().await
    }
}

/// Checks that the driver's socket is still the same.
async fn is_same(query: &DriverQuery, socket: &Identity) -> Result<(), Gone> {
    match query.look().await {
        Ok(found) if found == *socket => Ok(()),
        Ok(_) => Err(Gone::Replaced),
        Err(error) if error.is_absence() => {
            let removed = DriverError::Removed(query.path().to_owned());
            Err(Gone::Lost(removed))
        }
        Err(error) => Err(Gone::Lost(error)),
    }
}

/// Does the work as long as the socket stays the same: the process behind a socket that was removed
/// or replaced may never answer.
async fn undisturbed<D>(
    signals: &mut watch::Receiver<MonitorSignals>,
    query: &DriverQuery,
    socket: &Identity,
    work: impl Future<Output = D>,
) -> Result<D, Gone> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Ok(done),
            () = next(signals) => {}
        }
        match is_same(query, socket).await {
            // The socket may still be the same, and the driver may still answer.
            Err(Gone::Lost(error)) if error.hung().is_some() => {}
            gone => gone?,
        }
    }
}

#[cfg(test)]
mod tests {
    use bed::driver::Call;
    use bed::{Behaviour, FakeDriver};
    use tempfile::TempDir;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;
    use crate::config::{DriverSettings, Settings};
    use crate::disk::reach::Reach;

    const SOON: Duration = Duration::from_secs(20);

    /// A monitor of the driver, and its reports.
    fn monitor(
        driver: &FakeDriver,
        node_info_timeout: Duration,
    ) -> (Monitor, mpsc::UnboundedReceiver<MonitorReport>) {
        let settings = DriverSettings {
            csi_socket: driver.path().to_owned(),
            request_timeout: Duration::from_millis(200),
            node_info_timeout,
            ..Settings::default().driver("a")
        };
        let (report, reports) = mpsc::unbounded_channel();
        let query = DriverQuery::new(&settings, false, &Reach::default());
        let monitor = Monitor::start(
            query,
            ConcurrencyLimiter::new(),
            settings.retry_max,
            move |change| {
                report.send(change).unwrap();
            },
        );
        (monitor, reports)
    }

    fn driver(dir: &TempDir) -> FakeDriver {
        FakeDriver::start(dir.path().join("csi.sock"), Behaviour::named("a"))
    }

    async fn next(reports: &mut mpsc::UnboundedReceiver<MonitorReport>) -> MonitorReport {
        timeout(SOON, reports.recv()).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_driver_that_answers_slowly_when_it_is_checked_does_not_hang() {
        let dir = tempfile::tempdir().unwrap();
        let mut driver = driver(&dir);
        let (monitor, mut reports) = monitor(&driver, Duration::from_secs(60));
        assert!(matches!(
            next(&mut reports).await,
            MonitorReport::Answered(..)
        ));
        let mut slow = Behaviour::named("a").taking(Call::NodeGetInfo, Duration::from_millis(500));
        slow.node_id = "another".to_owned();
        driver.change(slow);
        monitor.check();
        let MonitorReport::Changed(answer) = next(&mut reports).await else {
            panic!("the driver counts as hanging");
        };
        assert_eq!(answer.node_id, "another");
    }

    #[tokio::test]
    async fn a_driver_that_takes_longer_than_node_info_timeout_when_it_is_checked_hangs() {
        let dir = tempfile::tempdir().unwrap();
        let mut driver = driver(&dir);
        let (monitor, mut reports) = monitor(&driver, Duration::from_millis(400));
        assert!(matches!(
            next(&mut reports).await,
            MonitorReport::Answered(..)
        ));
        driver.change(Behaviour::named("a").hanging_on(Call::NodeGetInfo));
        monitor.check();
        let MonitorReport::Silent(error) = next(&mut reports).await else {
            panic!("the driver counts as answering");
        };
        assert!(error.to_string().contains("hangs"), "{error}");
    }
}
