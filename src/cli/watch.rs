//! `status --watch`: the drivers at each change, also across restarts of the daemon.

use std::time::Duration;

use jiff::{Timestamp, Unit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use super::args::{Args, StatusOptions};
use super::exit::{Exit, print_error};
use super::follower::Follower;
use super::render::paint::BAD;
use super::render::{Screen, put, table, wrap};
use super::selection::{no_driver, select, unknown};
use crate::api::control::ClientError;
use crate::api::{age, status};
use crate::grpc::proto::control::{Status, StatusRequest};

/// The end of the command: Ctrl-C, or `kill`.
struct Interruption {
    interrupt: Signal,
    terminate: Signal,
}

/// The last status, and whether the daemon still answers.
struct View {
    status: Status,
    silence: Option<Silence>,
}

/// The daemon does not answer.
struct Silence {
    since: Timestamp,
    why: ClientError,
}

/// Shows each change that the daemon reports, until a signal comes or the reader has gone.
pub(super) async fn watch(args: &Args, options: &StatusOptions) -> Result<(), Exit> {
    let mut interruption = Interruption::listen()?;
    let mut resized = signal(SignalKind::window_change()).map_err(Exit::failed)?;
    let mut follower = Follower::start(args, StatusRequest { volumes: true });
    let first = tokio::select! {
        first = follower.next() => first?,
        () = interruption.comes() => return Ok(()),
    };
    if let Some(driver) = unknown(&first, &options.drivers).next() {
        return Err(Exit::Failed(no_driver(&first, driver)));
    }
    let mut view = View {
        status: first,
        silence: None,
    };
    let mut screen = Screen::stdout();
    let draws = screen.is_terminal && !options.json;
    let mut is_new = true;
    loop {
        if (is_new || draws) && !view.show(options, &mut screen)? {
            return Ok(());
        }
        tokio::select! {
            news = follower.next() => {
                is_new = news.is_ok();
                match news {
                    Ok(status) => view = View { status, silence: None },
                    Err(why) => view.falls_silent(why, draws),
                }
            }
            () = interruption.comes() => return Ok(()),
            _ = resized.recv(), if draws => screen.was_resized(),
            // Only the ages change: the daemon is not asked.
            () = sleep(view.pause()), if draws => {}
        }
    }
}

impl Interruption {
    /// From now on these signals do not end the process by themselves.
    fn listen() -> Result<Interruption, Exit> {
        Ok(Interruption {
            interrupt: signal(SignalKind::interrupt()).map_err(Exit::failed)?,
            terminate: signal(SignalKind::terminate()).map_err(Exit::failed)?,
        })
    }

    async fn comes(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

impl View {
    /// The daemon does not answer. A terminal shows that above the table; another reader is told once,
    /// on stderr.
    fn falls_silent(&mut self, why: ClientError, draws: bool) {
        if self.silence.is_none() && !draws {
            print_error(&format!("warning: {why}; waiting for the daemon"));
        }
        let since = self.silence.as_ref().map(|silence| silence.since);
        self.silence = Some(Silence {
            since: since.unwrap_or_else(Timestamp::now),
            why,
        });
    }

    /// False when no process reads it any more.
    fn show(&self, options: &StatusOptions, screen: &mut Screen) -> Result<bool, Exit> {
        let shown = select(self.status.clone(), &options.drivers);
        if options.json {
            let json = status::json(&shown).map_err(Exit::failed)?;
            return put(&format!("{json}\n"));
        }
        let now = Timestamp::now();
        let missing = unknown(&self.status, &options.drivers)
            .map(|driver| format!("the daemon no longer has the driver \"{driver}\""));
        let silent = self.silence.iter().map(|silence| silence.words(now));
        let mut lines = Vec::new();
        // Above the table: its end may not fit on the screen.
        for words in silent.chain(missing) {
            let wrapped = wrap(&words, screen.width());
            lines.extend(wrapped.iter().map(|line| screen.paint.paint(BAD, line)));
        }
        if !shown.drivers.is_empty() || options.drivers.is_empty() {
            let is_detailed = !options.drivers.is_empty();
            lines.push(table(
                &shown,
                screen.width(),
                now,
                screen.paint,
                is_detailed,
            ));
        }
        screen.show(&lines.join("\n"))
    }

    /// How long the youngest age stays as it is shown.
    fn pause(&self) -> Duration {
        let now = Timestamp::now();
        let drivers = self.status.drivers.iter();
        let times =
            drivers.flat_map(|driver| [Some(&driver.since), driver.cluster_checked.as_ref()]);
        let ages = times.flatten().map(|time| age(time, now));
        let silence = self.silence.iter().map(|silence| silence.age(now));
        let young = ages.chain(silence).any(|age| age.ends_with('s'));
        Duration::from_secs(if young { 1 } else { 60 })
    }
}

impl Silence {
    fn age(&self, now: Timestamp) -> String {
        age(&self.since.to_string(), now)
    }

    fn words(&self, now: Timestamp) -> String {
        let since = self.since.round(Unit::Second).unwrap_or(self.since);
        let (age, why) = (self.age(now), &self.why);
        format!("the daemon has not answered since {since} ({age}): {why}")
    }
}
