//! The life of one driver, as a pure state machine: (state, event) → (state, actions).
//!
//! Three sides are kept apart, each in an enum of its own: whether the driver answers
//! (`DriverState`), which files of ours exist ([`file_state`], once for the socket and once for the
//! link), and what the kubelet said (`RegistrationState`). An event changes what is known about one
//! side; `Driver::settle` then looks at all three and says what to do. The [`phase`] is read off the
//! three.
//!
//! Nothing here does I/O or reads a clock. `docs/state-machine.md` draws it.

mod actions;
mod announcer;
pub(crate) mod answer;
pub(crate) mod event;
mod facts;
pub(crate) mod file_state;
mod handover;
pub(crate) mod leaving;
mod machine;
mod pace;
pub(crate) mod phase;
mod reason;
mod record;
pub(crate) mod refusal;
mod registration_state;
mod transitions;

pub(crate) use self::actions::{Actions, Afterwards, Files, Put, Removal, step};
pub(crate) use self::event::{Calling, Event, Seen};
pub(crate) use self::machine::Driver;
pub(crate) use self::record::Record;
pub(crate) use self::registration_state::AdvertisedInfo;

#[cfg(test)]
pub(crate) use self::registration_state::Registration;
#[cfg(test)]
mod tests;
