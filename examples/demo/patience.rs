//! Waiting until something is so, with a deadline and the time that it took.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any step takes on a machine that is not stuck.
const DEADLINE: Duration = Duration::from_secs(10);

/// Why the demo ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A step did not come true in time.
    Late { what: String, seen: String },
    /// Something happened that must not.
    Wrong(String),
    /// The demo itself could not go on.
    Other(String),
}

impl Failure {
    pub(crate) fn other(error: impl fmt::Display) -> Failure {
        Failure::Other(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Late { what, seen } => {
                let seconds = DEADLINE.as_secs();
                write!(f, "not so within {seconds} s: {what}; last seen: {seen}")
            }
            Failure::Wrong(what) => f.write_str(what),
            Failure::Other(error) => write!(f, "the demo cannot go on: {error}"),
        }
    }
}

/// How often it is looked.
#[derive(Clone, Copy)]
pub(crate) enum Looks {
    /// For what takes milliseconds: the measured time is at most a tenth of one too long.
    Closely,
    /// For what takes a second, or where a look itself takes milliseconds.
    AtEase,
}

/// Looks until `look` finds what it wants, and says how long that took from `start` on.
pub(crate) fn until<T>(
    what: &str,
    looks: Looks,
    start: Instant,
    mut look: impl FnMut() -> Result<T, String>,
) -> Result<(T, Duration), Failure> {
    let pause = match looks {
        Looks::Closely => Duration::from_micros(40),
        Looks::AtEase => Duration::from_millis(5),
    };
    loop {
        let found = look();
        let taken = start.elapsed();
        match found {
            Ok(value) => return Ok((value, taken)),
            Err(seen) if taken > DEADLINE => {
                let what = what.to_owned();
                return Err(Failure::Late { what, seen });
            }
            Err(_) => thread::sleep(pause),
        }
    }
}
