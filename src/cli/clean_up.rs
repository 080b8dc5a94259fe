//! `clean-up`: takes away what a daemon that has ended left on disk. The packages run it when they are
//! removed, after they have stopped the unit, which leaves links and sockets under on_stop = "keep",
//! and after a crash.
//!
//! It runs at the terminal of whoever removes the package, and asks no daemon. What is withdrawn so is
//! not withdrawn by hand: a package that is installed again registers its drivers again.

use std::collections::BTreeMap;
use std::path::Path;

use super::args::Args;
use super::client::failed;
use super::exit::{Exit, complain};
use super::load;
use crate::config::{LogLevel, LogSettings, LogTarget};
use crate::csi::discover::{found_now, names_of};
use crate::disk::layout::Layout;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::disk::runtime_dir::{self, RuntimeDir};
use crate::disk::sweep::{Ours, Unclaimed, sweep};
use crate::os::text::printable;
use crate::supervisor::state_file::SavedState;
use crate::systemd::log;

/// What cannot be removed is told, as the daemon would tell it.
const LOG: LogSettings = LogSettings {
    level: LogLevel::Warn,
    target: LogTarget::Stderr,
};

pub(crate) fn clean_up(args: &Args) -> Result<(), Exit> {
    log::init(&LOG).map_err(failed)?;
    let path = runtime_dir::locate(args.runtime_dir.as_deref());
    // Where there is no directory, no daemon runs. Where there is one, none starts meanwhile.
    let _lock = match path.is_dir() {
        true => Some(RuntimeDir::take_in_turn(&path).map_err(failed)?),
        false => None,
    };
    let mut ours = Ours::default();
    let mut layouts = Vec::new();
    if let Some(state) = SavedState::load(&runtime_dir::state(&path)) {
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
        let found = found_now(settings, &Reach::now()).unwrap_or_default();
        ours.names.extend(names_of(settings, found));
        layouts.push(Layout::of(settings));
    }
    layouts.dedup();
    // Two layouts may have the same links, and what the first leaves may be removed for the second.
    let mut left = BTreeMap::new();
    for layout in &layouts {
        let unowned_links = sweep(layout, &ours).unowned_links.into_iter();
        left.extend(unowned_links.map(|Unclaimed { name, link }| (link, name)));
    }
    for (link, name) in left.iter().filter(|(link, _)| link.is_symlink()) {
        complain(&told(link, name));
    }
    loaded.map(drop).map_err(Exit::from)
}

/// A link that nobody else would tell of.
fn told(link: &Path, name: &DriverName) -> String {
    let shown = printable(&link.to_string_lossy());
    let quoted = shown.replace('\'', "'\\''");
    format!(
        "{shown} is left: nobody serves it, but driver {name} may be another instance's; if there is no other: rm '{quoted}'"
    )
}
