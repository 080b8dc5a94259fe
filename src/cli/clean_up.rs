//! `clean-up`: removes the links and sockets that a daemon which has ended left on disk.
//!
//! The packages run it when they are removed, after they have stopped the unit, which leaves links and
//! sockets under on_stop = "keep", and after a crash. It runs on the terminal of the operator who
//! removes the package, and asks no daemon. Drivers whose volumes are in use stay, and it says so. It does
//! not count as `withdraw`: a package that is installed again registers its drivers again.

use std::collections::BTreeMap;
use std::path::Path;

use super::args::Args;
use super::configuration::load;
use super::exit::{Exit, print_error};
use crate::config::{LogLevel, LogSettings, LogTarget, Settings};
use crate::csi::discover::{found_now, names_of};
use crate::disk::directory;
use crate::disk::layout::Layout;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::disk::runtime_dir::{self, RuntimeDir};
use crate::disk::sweep::{Ours, Unclaimed, sweep};
use crate::kubelet::volumes::VolumeReader;
use crate::os::text::{printable, quoted, quoted_path};
use crate::supervisor::saved_state::SavedState;
use crate::systemd::log;

/// Warns of each file that cannot be removed, as the daemon would.
const LOG: LogSettings = LogSettings {
    level: LogLevel::Warn,
    target: LogTarget::Stderr,
};

pub(crate) async fn clean_up(args: &Args) -> Result<(), Exit> {
    log::init(&LOG).map_err(Exit::failed)?;
    let path = runtime_dir::locate(args.runtime_dir.as_deref());
    // Without the directory no daemon runs. With the lock in it, no daemon starts meanwhile.
    let _lock = match path.is_dir() {
        true => Some(RuntimeDir::take_in_turn(&path).map_err(Exit::failed)?),
        false => None,
    };
    let mut ours = Ours::default();
    let mut layouts = Vec::new();
    // A volume below any of these directories counts: the configuration may have changed since the last run.
    let mut roots = Vec::new();
    if let Some(state) = SavedState::load(&runtime_dir::state(&path)) {
        let plugins_registry = state.layout.as_ref().map(Layout::plugins_registry);
        roots.extend(plugins_registry.map(|registry| directory::of(registry).to_owned()));
        roots.extend(state.called_in);
        layouts.extend(state.layout);
        let saved = state.drivers.into_values();
        ours.names
            .extend(saved.filter_map(|saved| saved.record.name));
    }
    // The state names its files even if the configuration is no longer valid.
    let loaded = load(args);
    if let Ok(loaded) = &loaded {
        let settings = &loaded.settings;
        // The state has the names of the drivers that cannot be discovered now.
        let found = found_now(settings, &Reach::now()).unwrap_or_default();
        ours.names.extend(names_of(settings, found));
        layouts.push(settings.layout());
        roots.extend(settings.kubelet_roots());
    }
    layouts.dedup();
    if roots.is_empty() {
        roots = Settings::default().kubelet_roots();
    }
    let volumes = VolumeReader::new(roots, Reach::now()).read().await;
    let is_used = |name: &&DriverName| volumes.of(name).holds();
    ours.in_use = ours.names.iter().filter(is_used).cloned().collect();
    // Two layouts may have the same links, and the second may remove a link that the first leaves.
    let (mut left, mut kept_links) = (BTreeMap::new(), BTreeMap::new());
    for layout in &layouts {
        let swept = sweep(layout, &ours);
        let unowned_links = swept.unowned_links.into_iter();
        left.extend(unowned_links.map(|Unclaimed { name, link }| (link, name)));
        for Unclaimed { name, link } in swept.links_in_use {
            let used = volumes.of(&name).words().unwrap_or_default();
            let words = kept(&link, &layout.socket(&name), &name, &used);
            kept_links.insert(link, words);
        }
    }
    for (link, name) in left.iter().filter(|(link, _)| link.is_symlink()) {
        print_error(&left_behind(link, name));
    }
    kept_links.values().for_each(|words| print_error(words));
    loaded.map(drop).map_err(Exit::from)
}

/// Names the files of a driver in use, and how to finish by hand.
fn kept(link: &Path, socket: &Path, name: &DriverName, used: &str) -> String {
    let [quoted_link, quoted_socket] = [link, socket].map(quoted_path);
    let link = printable(&link.to_string_lossy());
    format!(
        "{link} was not removed, so that the kubelet keeps driver {name}: {used}. Without the driver the kubelet could not unmount its volumes, and their pods would not end. When no volume is in use: rm {quoted_link} {quoted_socket}"
    )
}

/// Names a link that is left, which no other message does.
fn left_behind(link: &Path, name: &DriverName) -> String {
    let shown = printable(&link.to_string_lossy());
    let quoted = quoted(&shown);
    format!(
        "{shown} was not removed: no process serves it, but driver {name} may belong to another registrar; if no other registrar runs on this node: rm {quoted}"
    )
}
