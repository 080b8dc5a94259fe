//! Waiting for a condition with a deadline, in place of sleeps.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

const LOOK_AGAIN: Duration = Duration::from_millis(3);

/// The result of a look: `bool`, `Option<T>`, or `Result<T, text>`, where the text says what was seen
/// instead.
pub trait Seen {
    /// The result of [`eventually`].
    type Value;
    /// The value, or what was seen in its place.
    fn seen(self) -> Result<Self::Value, String>;
}

impl Seen for bool {
    type Value = ();
    fn seen(self) -> Result<(), String> {
        self.then_some(()).ok_or_else(|| "false".to_owned())
    }
}

impl<T> Seen for Option<T> {
    type Value = T;
    fn seen(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing".to_owned())
    }
}

impl<T, E: Display> Seen for Result<T, E> {
    type Value = T;
    fn seen(self) -> Result<T, String> {
        self.map_err(|error| error.to_string())
    }
}

/// Looks every few milliseconds until the look succeeds, and returns what it found.
///
/// Panics after `deadline` with `what` and what the last look saw.
#[track_caller]
pub fn eventually<S: Seen>(what: &str, deadline: Duration, look: impl FnMut() -> S) -> S::Value {
    eventually_every(LOOK_AGAIN, what, deadline, look)
}

/// The same with this pause between two looks, for looks that cost more.
#[track_caller]
pub fn eventually_every<S: Seen>(
    pause: Duration,
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> S,
) -> S::Value {
    let start = Instant::now();
    loop {
        // Read before the look: a look that began in time counts.
        let late = start.elapsed() >= deadline;
        match look().seen() {
            Ok(value) => return value,
            Err(last) if late => panic!("not within {deadline:?}: {what}; last seen: {last}"),
            Err(_) => thread::sleep(pause),
        }
    }
}

/// Checks that the condition holds at no look during the whole of `during`.
#[track_caller]
pub fn never(what: &str, during: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while start.elapsed() < during {
        assert!(!condition(), "after {:?}: {what}", start.elapsed());
        thread::sleep(LOOK_AGAIN);
    }
}

/// Checks that the look succeeds each time during the whole of `during`.
#[track_caller]
pub fn stays<S: Seen>(what: &str, during: Duration, mut look: impl FnMut() -> S) {
    let start = Instant::now();
    while start.elapsed() < during {
        if let Err(last) = look().seen() {
            panic!(
                "no longer after {:?}: {what}; seen: {last}",
                start.elapsed()
            );
        }
        thread::sleep(LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_what_the_look_found() {
        let mut looks = 0;
        let found = eventually("three looks", Duration::from_secs(5), || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, 3);
    }

    #[test]
    #[should_panic(expected = "not within 10ms: a full moon; last seen: half a moon")]
    fn says_what_it_saw_last() {
        eventually("a full moon", Duration::from_millis(10), || {
            Err::<(), _>("half a moon")
        });
    }

    #[test]
    #[should_panic(expected = "no longer after")]
    fn notices_when_something_does_not_stay() {
        let start = Instant::now();
        stays("young", Duration::from_secs(5), || {
            start.elapsed() < Duration::from_millis(10)
        });
    }
}
