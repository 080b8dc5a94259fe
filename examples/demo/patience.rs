//! Waits until a condition holds, with a deadline, and measures the time.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any step takes on a working machine.
const DEADLINE: Duration = Duration::from_secs(10);

/// Why the demo ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A step did not succeed in time.
    Late { what: String, seen: String },
    /// Something happened that must not.
    Wrong(String),
    /// The demo itself could not continue.
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
                write!(
                    f,
                    "did not happen within {seconds} s: {what}; last seen: {seen}"
                )
            }
            Failure::Wrong(what) => f.write_str(what),
            Failure::Other(error) => write!(f, "the demo cannot continue: {error}"),
        }
    }
}

/// How often `until` looks.
#[derive(Clone, Copy)]
pub(crate) enum Looks {
    /// For steps of milliseconds: the measured time is at most a tenth of a millisecond too long.
    Closely,
    /// For steps of a second, or where a look itself takes milliseconds.
    AtEase,
}

/// Calls `look` until it succeeds, and returns the time from `start` on.
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
