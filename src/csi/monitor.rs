//! The standing contact with one driver: waits for it, asks it, and notices when it goes.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;
use tokio::time::{Instant, sleep};

use super::error::DriverError;
use super::limiter::ConcurrencyLimiter;
use super::query::{DriverConnection, DriverQuery};
use crate::disk::identity::Identity;
use crate::disk::reach::Hung;
use crate::driver::answer::Answer;
use crate::os::backoff::Backoff;
use crate::os::task::Task;

/// The pause after the first try that failed: bind comes before listen, by microseconds.
const FIRST_RETRY: Duration = Duration::from_millis(1);
/// A driver that stays for so long is well. One that answers and ends each time is not, and is
/// asked more and more slowly.
const STEADY: Duration = Duration::from_secs(10);
/// A server may end connections that are idle or old. One that ends them sooner than this is
/// connected to more and more slowly.
const BRIEF: Duration = Duration::from_secs(1);
/// How soon a driver is asked again whose server has ended a connection. While that goes on, and the
/// answer is the same each time, the answer is not asked for each time: it may cost the driver a call
/// to its cloud. That somebody listens is seen by the next connection.
const ASK_AGAIN: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// What the contact has to tell.
#[derive(Debug)]
pub(crate) enum MonitorReport {
    /// The driver has come, or come back, and listens on this socket.
    Answered(Answer, Identity),
    /// The driver runs on, and says something else than before.
    Changed(Answer),
    Silent(DriverError),
}

/// A running contact. It ends when this is dropped.
pub(crate) struct Monitor {
    pokes: watch::Sender<MonitorSignals>,
    _task: Task,
}

/// Counts of what happened outside: a newer count means "look again".
#[derive(Clone, Copy, Default)]
struct MonitorSignals {
    /// Something changed on the socket's path.
    changes: u64,
    /// A look for what no event tells.
    resyncs: u64,
    /// The driver is to be asked again although nothing changed.
    checks: u64,
}

impl Monitor {
    /// Starts to wait for the driver. `tell` is called with each thing heard.
    pub(crate) fn start(
        inquiry: DriverQuery,
        turns: ConcurrencyLimiter,
        retry_max: Duration,
        tell: impl Fn(MonitorReport) + Send + Sync + 'static,
    ) -> Monitor {
        let (pokes, seen) = watch::channel(MonitorSignals::default());
        let keeper = MonitorTask {
            inquiry,
            turns,
            backoff: Backoff::new(FIRST_RETRY, retry_max),
            seen,
            tries: 0,
            late: false,
            last: MonitorSignals::default(),
        };
        Monitor {
            pokes,
            _task: Task::spawn(keeper.keep(tell)),
        }
    }

    /// Something changed on the way to the socket.
    pub(crate) fn changed(&self) {
        self.pokes.send_modify(|pokes| pokes.changes += 1);
    }

    /// Look at the disk, in case an event was missed.
    pub(crate) fn resync(&self) {
        self.pokes.send_modify(|pokes| pokes.resyncs += 1);
    }

    /// Ask the driver again: it may hang with its connection open.
    pub(crate) fn check(&self) {
        self.pokes.send_modify(|pokes| pokes.checks += 1);
    }
}

struct MonitorTask {
    inquiry: DriverQuery,
    turns: ConcurrencyLimiter,
    backoff: Backoff,
    seen: watch::Receiver<MonitorSignals>,
    last: MonitorSignals,
    tries: u32,
    /// The driver had all the time that NodeGetInfo may take, and was told of.
    late: bool,
}

/// What a driver says that is stayed with. To ask one without a Node service again is of no use
/// before something changes.
#[derive(Clone, PartialEq)]
enum Said {
    Answer(Answer),
    NoNodeService,
}

impl Said {
    fn of(asked: Result<Answer, DriverError>) -> Result<Said, DriverError> {
        match asked {
            Ok(answer) => Ok(Said::Answer(answer)),
            Err(DriverError::NoNodeService) => Ok(Said::NoNodeService),
            Err(trouble) => Err(trouble),
        }
    }

    /// What is told of a driver that has come, and listens on this socket.
    fn came(&self, socket: &Identity) -> MonitorReport {
        match self {
            Said::Answer(answer) => MonitorReport::Answered(answer.clone(), socket.clone()),
            Said::NoNodeService => MonitorReport::Silent(DriverError::NoNodeService),
        }
    }

    /// What is told of a driver that runs on, on this socket, and said this before.
    fn changed(&self, before: &Said, socket: &Identity) -> MonitorReport {
        match (before, self) {
            (Said::Answer(_), Said::Answer(answer)) => MonitorReport::Changed(answer.clone()),
            (Said::NoNodeService, _) | (_, Said::NoNodeService) => self.came(socket),
        }
    }
}

/// What is waited for before the driver is tried again.
enum Until {
    /// The pause is over.
    Delay,
    /// Something changes on disk, or is looked at anew.
    Changed,
    /// The file system answers, or the same.
    Reached(Hung),
}

impl Until {
    fn after(trouble: &DriverError) -> Until {
        match trouble.hung() {
            Some(hung) => Until::Reached(hung.clone()),
            None if trouble.is_on_disk() => Until::Changed,
            None => Until::Delay,
        }
    }
}

/// Why a driver is no longer stayed with.
enum Left {
    /// Its socket was replaced, so whoever serves the new one is asked before anything is said.
    Replaced,
    Lost(DriverError),
}

impl MonitorTask {
    async fn keep(mut self, tell: impl Fn(MonitorReport)) {
        // It ends when nobody is left to poke it.
        while self.wait_and_stay(&tell).await.is_ok() {}
    }

    /// Asks the driver, stays with it if it answers, and waits for the time to ask again.
    async fn wait_and_stay(&mut self, tell: &impl Fn(MonitorReport)) -> Result<(), RecvError> {
        self.last = *self.seen.borrow_and_update();
        let met = match self.inquiry.look().await {
            Ok(identity) => {
                let met = self.begin(&identity, tell).await?;
                let Some(met) = met else { return Ok(()) };
                met.map(|(held, said)| (identity, held, said))
            }
            Err(trouble) => Err(trouble),
        };
        let (trouble, until) = match met {
            Ok((identity, held, said)) => {
                let begun = Instant::now();
                self.late = false;
                tell(said.came(&identity));
                let left = self.stay_with(&identity, held, said, tell).await?;
                let Left::Lost(trouble) = left else {
                    return Ok(());
                };
                if begun.elapsed() >= STEADY {
                    self.tries = 0;
                }
                let until = match Until::after(&trouble) {
                    // The next look tells what is there now.
                    Until::Changed => Until::Delay,
                    until => until,
                };
                (trouble, until)
            }
            Err(trouble) => {
                let until = Until::after(&trouble);
                (trouble, until)
            }
        };
        self.late = trouble.is_node_info_late();
        tell(MonitorReport::Silent(trouble));
        self.pause(until).await
    }

    /// None when the socket was replaced before the driver had answered.
    async fn begin(
        &mut self,
        identity: &Identity,
        tell: &impl Fn(MonitorReport),
    ) -> Result<Option<Result<(DriverConnection, Said), DriverError>>, RecvError> {
        let (inquiry, late) = (&self.inquiry, self.late);
        let slow = |trouble| {
            if !late {
                tell(MonitorReport::Silent(trouble));
            }
        };
        let asked = self.turns.take(|| inquiry.begin(slow));
        let asked = undisturbed(&mut self.seen, inquiry, identity, asked).await?;
        Ok(asked.map(|asked| {
            let (held, answer) = asked?;
            Ok((held, Said::of(answer)?))
        }))
    }

    /// Waits for the time to try again. An event is a reason to try at once; a resync is one only
    /// while nothing that can be used is there.
    async fn pause(&mut self, until: Until) -> Result<(), RecvError> {
        if self.seen.borrow().changes != self.last.changes {
            self.tries = 0;
            return Ok(());
        }
        let delay = self.backoff.delay(self.tries);
        let is_delay = matches!(until, Until::Delay);
        let rest = async move {
            match until {
                Until::Delay => {}
                Until::Changed => std::future::pending().await,
                Until::Reached(hung) => hung.over().await,
            }
            sleep(delay).await;
        };
        tokio::pin!(rest);
        loop {
            tokio::select! {
                () = &mut rest => {
                    self.tries = self.tries.saturating_add(1);
                    return Ok(());
                }
                closed = self.seen.changed() => {
                    closed?;
                    let now = *self.seen.borrow_and_update();
                    if !is_delay || now.changes != self.last.changes {
                        self.tries = 0;
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Stays with a driver that answers until it no longer does.
    async fn stay_with(
        &mut self,
        identity: &Identity,
        mut held: DriverConnection,
        mut said: Said,
        tell: &impl Fn(MonitorReport),
    ) -> Result<Left, RecvError> {
        let (mut brief, mut same, mut asked) = (0, 0, Instant::now());
        loop {
            let ended = tokio::select! {
                () = &mut held.ended => true,
                closed = self.seen.changed() => closed.map(|()| false)?,
            };
            let now = *self.seen.borrow_and_update();
            if let Some(left) = self.left(identity).await {
                return Ok(left);
            }
            // That a server closes an idle connection says nothing. That nobody takes the next one
            // does.
            if ended {
                if held.since.elapsed() < BRIEF {
                    let rest = sleep(self.backoff.delay(brief));
                    brief = brief.saturating_add(1);
                    let rested = undisturbed(&mut self.seen, &self.inquiry, identity, rest).await?;
                    if rested.is_none() {
                        return Ok(self.left(identity).await.unwrap_or(Left::Replaced));
                    }
                } else {
                    brief = 0;
                }
                held = match self.inquiry.hold().await {
                    Ok(held) => held,
                    Err(trouble) => return Ok(Left::Lost(trouble)),
                };
            }
            let is_due = ended && asked.elapsed() >= ASK_AGAIN.delay(same);
            if is_due || now.checks != self.last.checks {
                let again = self.turns.take(|| self.inquiry.again());
                let again = undisturbed(&mut self.seen, &self.inquiry, identity, again).await?;
                let Some(again) = again else {
                    return Ok(self.left(identity).await.unwrap_or(Left::Replaced));
                };
                match Said::of(again) {
                    Ok(again) if again == said => same = same.saturating_add(1),
                    Ok(again) => {
                        tell(again.changed(&said, identity));
                        (said, same) = (again, 0);
                    }
                    Err(trouble @ DriverError::TimedOut { .. }) => {
                        return Ok(Left::Lost(DriverError::Hung(Box::new(trouble))));
                    }
                    Err(trouble) => return Ok(Left::Lost(trouble)),
                }
                asked = Instant::now();
            }
            self.last = now;
        }
    }

    /// None while the socket is the one that the driver answered on.
    async fn left(&self, identity: &Identity) -> Option<Left> {
        match self.inquiry.look().await {
            Ok(found) if found == *identity => None,
            Ok(_) => Some(Left::Replaced),
            Err(trouble) if trouble.is_absence() => {
                let removed = DriverError::Removed(self.inquiry.path().to_owned());
                Some(Left::Lost(removed))
            }
            Err(trouble) => Some(Left::Lost(trouble)),
        }
    }
}

/// Does the work while the socket is the same. None when it is another one, or none, before that is
/// done: whoever was asked there may never answer.
async fn undisturbed<T>(
    seen: &mut watch::Receiver<MonitorSignals>,
    inquiry: &DriverQuery,
    identity: &Identity,
    work: impl Future<Output = T>,
) -> Result<Option<T>, RecvError> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Ok(Some(done)),
            closed = seen.changed() => closed?,
        }
        match inquiry.look().await {
            Ok(found) if found == *identity => {}
            // It may be the same: nobody can tell, and whoever was asked may still answer.
            Err(trouble) if trouble.hung().is_some() => {}
            Ok(_) | Err(_) => return Ok(None),
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
    use crate::api::metrics::Operations;
    use crate::config::{DriverSettings, Settings};
    use crate::disk::reach::Reach;

    const SOON: Duration = Duration::from_secs(20);

    /// A contact with the driver, and what it has to tell.
    fn contact(
        driver: &FakeDriver,
        node_info_timeout: Duration,
    ) -> (Monitor, mpsc::UnboundedReceiver<MonitorReport>) {
        let settings = DriverSettings {
            csi_socket: driver.path().to_owned(),
            request_timeout: Duration::from_millis(200),
            node_info_timeout,
            ..Settings::default().driver("a")
        };
        let (heard, hearing) = mpsc::unbounded_channel();
        let inquiry = DriverQuery::new(&settings, Operations::new(), &Reach::default());
        let contact = Monitor::start(
            inquiry,
            ConcurrencyLimiter::new(),
            settings.retry_max,
            move |news| {
                heard.send(news).unwrap();
            },
        );
        (contact, hearing)
    }

    fn driver(dir: &TempDir) -> FakeDriver {
        FakeDriver::start(dir.path().join("csi.sock"), Behaviour::named("a"))
    }

    async fn next(hearing: &mut mpsc::UnboundedReceiver<MonitorReport>) -> MonitorReport {
        timeout(SOON, hearing.recv()).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_driver_that_answers_slowly_when_it_is_checked_does_not_hang() {
        let dir = tempfile::tempdir().unwrap();
        let mut driver = driver(&dir);
        let (contact, mut hearing) = contact(&driver, Duration::from_secs(60));
        assert!(matches!(
            next(&mut hearing).await,
            MonitorReport::Answered(..)
        ));
        let mut slow = Behaviour::named("a").taking(Call::NodeGetInfo, Duration::from_millis(500));
        slow.node_id = "another".to_owned();
        driver.change(slow);
        contact.check();
        let MonitorReport::Changed(answer) = next(&mut hearing).await else {
            panic!("the driver counts as one that hangs");
        };
        assert_eq!(answer.node_id, "another");
    }

    #[tokio::test]
    async fn a_driver_that_takes_longer_than_node_info_timeout_when_it_is_checked_hangs() {
        let dir = tempfile::tempdir().unwrap();
        let mut driver = driver(&dir);
        let (contact, mut hearing) = contact(&driver, Duration::from_millis(400));
        assert!(matches!(
            next(&mut hearing).await,
            MonitorReport::Answered(..)
        ));
        driver.change(Behaviour::named("a").hanging_on(Call::NodeGetInfo));
        contact.check();
        let MonitorReport::Silent(trouble) = next(&mut hearing).await else {
            panic!("the driver counts as one that answers");
        };
        assert!(trouble.to_string().contains("hangs"), "{trouble}");
    }
}
