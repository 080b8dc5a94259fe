//! `clean-up`: takes away what a daemon that has ended left on disk. The packages run it when they are
//! removed, after they have stopped the unit, which leaves links and sockets under on_stop = "keep",
//! and after a crash.
//!
//! It runs at the terminal of whoever removes the package, and asks no daemon. What is withdrawn so is
//! not withdrawn by hand: a package that is installed again registers its drivers again.

use super::args::Args;
use super::client::failed;
use super::exit::Exit;
use super::load;
use crate::config::{LogLevel, LogSettings, LogTarget};
use crate::link::layout::Layout;
use crate::link::sweep::{Ours, sweep};
use crate::log;
use crate::runtime::{self, RuntimeDir};
use crate::state::State;
use crate::supervisor::{found_now, names_of};

/// What cannot be removed is told, as the daemon would tell it.
const LOG: LogSettings = LogSettings {
    level: LogLevel::Warn,
    target: LogTarget::Stderr,
};

pub(crate) fn clean_up(args: &Args) -> Result<(), Exit> {
    log::init(&LOG).map_err(failed)?;
    let path = runtime::locate(args.runtime_dir.as_deref());
    // Where there is no directory, no daemon runs. Where there is one, none starts meanwhile.
    let _lock = match path.is_dir() {
        true => Some(RuntimeDir::take(&path).map_err(failed)?),
        false => None,
    };
    let mut ours = Ours::default();
    let mut layouts = Vec::new();
    if let Some(state) = State::load(&runtime::state(&path)) {
        layouts.extend(state.layout);
        let names = state
            .drivers
            .into_values()
            .filter_map(|written| written.record.name);
        ours.names.extend(names);
    }
    // A configuration that has become useless does not keep what the state tells.
    let loaded = load(args);
    if let Ok(loaded) = &loaded {
        let settings = &loaded.settings;
        // Of those that cannot be seen now, the state has the names.
        let found = found_now(settings).unwrap_or_default();
        ours.names.extend(names_of(settings, found));
        layouts.push(Layout::of(settings));
    }
    layouts.dedup();
    for layout in &layouts {
        // What is left there may be another instance's.
        drop(sweep(layout, &ours));
    }
    loaded.map(drop).map_err(Exit::from)
}
