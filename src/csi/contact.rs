//! The standing contact with one driver: waits for it, asks it, and notices when it goes.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::answer::Answer;
use super::inquiry::{Acquaintance, Inquiry, Trouble};
use super::turns::Turns;
use crate::backoff::Backoff;
use crate::identity::Identity;
use crate::task::Task;

/// The pause after the first try that failed: bind comes before listen, by microseconds.
const FIRST_RETRY: Duration = Duration::from_millis(1);
/// A driver that stays for so long is well. One that answers and hangs up each time is not, and is
/// asked more and more slowly.
const STEADY: Duration = Duration::from_secs(10);

/// What the contact has to tell.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The driver has come, or come back, and listens on this socket.
    Answered(Answer, Identity),
    /// The driver runs on, and says something else than before.
    Changed(Answer),
    Silent(Trouble),
}

/// A running contact. It ends when this is dropped.
pub(crate) struct Contact {
    pokes: watch::Sender<Pokes>,
    _task: Task,
}

/// Counts of what happened outside: a newer count means "look again".
#[derive(Clone, Copy, Default)]
struct Pokes {
    /// Something changed on the socket's path.
    changes: u64,
    /// A look for what no event tells.
    resyncs: u64,
    /// The driver is to be asked again although nothing changed.
    checks: u64,
}

impl Contact {
    /// Starts to wait for the driver. `tell` is called with each thing heard.
    pub(crate) fn start(
        inquiry: Inquiry,
        turns: Turns,
        retry_max: Duration,
        tell: impl Fn(Heard) + Send + Sync + 'static,
    ) -> Contact {
        let (pokes, seen) = watch::channel(Pokes::default());
        let keeper = Keeper {
            inquiry,
            turns,
            backoff: Backoff::new(FIRST_RETRY, retry_max),
            seen,
            tries: 0,
            last: Pokes::default(),
        };
        Contact {
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

struct Keeper {
    inquiry: Inquiry,
    turns: Turns,
    backoff: Backoff,
    seen: watch::Receiver<Pokes>,
    last: Pokes,
    tries: u32,
}

impl Keeper {
    async fn keep(mut self, tell: impl Fn(Heard)) {
        loop {
            self.last = *self.seen.borrow_and_update();
            match self.turns.take(|| self.inquiry.begin()).await {
                Ok((driver, answer)) => {
                    let begun = Instant::now();
                    tell(Heard::Answered(answer.clone(), driver.identity.clone()));
                    if let Some(trouble) = self.stay_with(driver, answer, &tell).await {
                        tell(Heard::Silent(trouble));
                        if begun.elapsed() >= STEADY {
                            self.tries = 0;
                        }
                        if self.pause(false).await.is_err() {
                            return;
                        }
                    }
                }
                Err(trouble) => {
                    let on_disk = trouble.is_on_disk();
                    tell(Heard::Silent(trouble));
                    if self.pause(on_disk).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Waits for the time to try again. An event is a reason to try at once; a resync is one only
    /// while nothing that can be used is there.
    async fn pause(&mut self, on_disk: bool) -> Result<(), watch::error::RecvError> {
        if self.seen.borrow().changes != self.last.changes {
            self.tries = 0;
            return Ok(());
        }
        let delay = self.backoff.delay(self.tries);
        let rest = async {
            if on_disk {
                std::future::pending::<()>().await;
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
                    if on_disk || now.changes != self.last.changes {
                        self.tries = 0;
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Stays with a driver that answers until it no longer does. `None`: its socket was replaced,
    /// so whoever serves the new one is asked before anything is said.
    async fn stay_with(
        &mut self,
        mut driver: Acquaintance,
        mut answer: Answer,
        tell: &impl Fn(Heard),
    ) -> Option<Trouble> {
        loop {
            tokio::select! {
                () = &mut driver.gone => return Some(Trouble::Gone),
                closed = self.seen.changed() => if closed.is_err() {
                    return Some(Trouble::Gone);
                },
            }
            let now = *self.seen.borrow_and_update();
            match self.inquiry.look() {
                Ok(identity) if identity == driver.identity => {}
                Ok(_) => return None,
                Err(trouble) if trouble.is_absence() => {
                    return Some(Trouble::Removed(self.inquiry.socket.clone()));
                }
                Err(trouble) => return Some(trouble),
            }
            if now.checks != self.last.checks {
                let asked = tokio::select! {
                    answer = self.turns.take(|| self.inquiry.again()) => answer,
                    () = &mut driver.gone => Err(Trouble::Gone),
                };
                match asked {
                    Ok(again) if again == answer => {}
                    Ok(again) => {
                        answer = again.clone();
                        tell(Heard::Changed(again));
                    }
                    Err(trouble @ Trouble::TimedOut { .. }) => {
                        return Some(Trouble::Hung(Box::new(trouble)));
                    }
                    Err(trouble) => return Some(trouble),
                }
            }
            self.last = now;
        }
    }
}
