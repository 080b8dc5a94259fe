//! What came of measuring one figure.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::spread::Spread;

pub(crate) enum Outcome {
    Measured(Spread),
    /// It makes no sense here, and why.
    Senseless(String),
    /// It could not be measured, and why.
    Failed(String),
}

impl Outcome {
    pub(crate) fn of(samples: impl IntoIterator<Item = f64>) -> Outcome {
        Outcome::Measured(Spread::of(samples))
    }

    pub(crate) fn senseless(why: &str) -> Outcome {
        Outcome::Senseless(why.to_owned())
    }

    pub(crate) fn spread(&self) -> Option<&Spread> {
        match self {
            Outcome::Measured(spread) => Some(spread),
            Outcome::Senseless(_) | Outcome::Failed(_) => None,
        }
    }

    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Outcome::Failed(_))
    }
}

/// The parties of the test bed panic when something does not come to be. One row that cannot be
/// measured leaves the others as they are.
pub(crate) fn attempt<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(words)
}

fn words(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(words) => *words,
        Err(panic) => match panic.downcast::<&str>() {
            Ok(words) => (*words).to_owned(),
            Err(_) => "a panic without words".to_owned(),
        },
    }
}
