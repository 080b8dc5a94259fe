//! Choices: the values that are a word out of a list.

use figment::error::Kind;
use figment::value::Value;
use serde::de::{Deserializer, IntoDeserializer};
use serde::{Deserialize, Serialize};

/// What to do when another live process has a socket or a link in the place of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLiveOwner {
    /// Wait until the other process has gone.
    #[default]
    Wait,
    /// Replace its socket or link.
    TakeOver,
}

impl OnLiveOwner {
    pub(crate) fn takes_over(self) -> bool {
        self == Self::TakeOver
    }
}

/// When the daemon tells systemd that it is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadyWhen {
    /// The daemon watches, and has called each driver once.
    #[default]
    Started,
    /// Each driver has its registration socket and its link.
    Serving,
    /// Each driver is registered.
    Registered,
}

/// What happens to sockets and links when the daemon stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnStop {
    /// Withdraw on `systemctl stop`; keep on a restart, an upgrade or a shutdown.
    #[default]
    Auto,
    /// Always remove them.
    Withdraw,
    /// Always keep them.
    Keep,
}

/// The least important message that is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// An operator must act.
    Error,
    /// A retry that an operator may care about.
    Warn,
    /// A state changed.
    #[default]
    Info,
    /// Each step.
    Debug,
    /// Everything.
    Trace,
}

/// Where log messages go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogTarget {
    /// The journal under systemd, else stderr.
    #[default]
    Auto,
    /// The journal, with fields.
    Journald,
    /// Text on stderr.
    Stderr,
    /// A JSON object for each line on stderr.
    Json,
}

/// Reads a choice from its word only: serde's derive also takes the number of a variant, and
/// figment makes a number of `NSDR_LOG__LEVEL=2`.
pub(super) fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<T, D::Error> {
    T::deserialize(String::deserialize(d)?.into_deserializer())
}

/// The words of a choice. Serde lists them when it meets another word.
pub(crate) fn words<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    match Value::from("")
        .deserialize::<T>()
        .map_err(|error| error.kind)
    {
        Err(Kind::UnknownVariant(_, words)) => words,
        _ => &[],
    }
}
