//! The keys whose value is one word out of a few.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error};

/// Serde's own derive would also take a variant's number, which figment makes of
/// `NSDR_LOG__LEVEL=2`.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every word that is allowed.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word as it is written in a file.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = String::deserialize(deserializer)?;
                match word.as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(D::Error::unknown_variant(&word, Self::WORDS)),
                }
            }
        }
    };
}

words! {
    /// What to do when a live foreign socket or link has the place of ours.
    OnLiveOwner {
        /// Leave it and wait for it to go.
        Wait = "wait",
        /// Put ours in its place.
        TakeOver = "take-over",
    }
}

words! {
    /// When systemd is told that the service is ready.
    ReadyWhen {
        /// The daemon watches, and has tried each driver once.
        Started = "started",
        /// Every driver is served and linked.
        Serving = "serving",
        /// Every driver is registered.
        Registered = "registered",
    }
}

words! {
    /// What becomes of the links when the daemon stops.
    OnStop {
        /// Withdraw on `systemctl stop`; keep on a restart, an upgrade or a shutdown.
        Auto = "auto",
        /// Always take them away.
        Withdraw = "withdraw",
        /// Always leave them.
        Keep = "keep",
    }
}

words! {
    /// The least important message that is still logged.
    LogLevel {
        /// Somebody must act.
        Error = "error",
        /// A retry that an operator may care about.
        Warn = "warn",
        /// A state changed.
        Info = "info",
        /// Each step.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

words! {
    /// Where log messages go.
    LogTarget {
        /// The journal under systemd, else stderr.
        Auto = "auto",
        /// The journal, with fields.
        Journald = "journald",
        /// Text on stderr.
        Stderr = "stderr",
        /// One JSON object a line on stderr.
        Json = "json",
    }
}

impl OnLiveOwner {
    pub(crate) fn takes_over(self) -> bool {
        self == Self::TakeOver
    }
}
