//! The combinations of keys that cannot work: drivers that clash, paths that grow too long.
//!
//! They only show when all layers are merged.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::error::Problem;
use super::key::Key;
use super::literal;
use super::origin::Origin;
use super::settings::DriverSettings;
use super::value::fits_socket;
use super::{Loaded, RootDir};
use crate::disk::layout::{Layout, LinkAlias};
use crate::disk::name::DriverName;
use crate::disk::nesting::lies_below;

pub(super) fn faults(loaded: &Loaded) -> Vec<Problem> {
    let drivers = &loaded.settings.drivers;
    let layout = loaded.settings.layout();
    let mut problems = too_deep(loaded, &layout);
    if problems.is_empty() {
        let long = |(id, driver): (&String, _)| long_name(loaded, &layout, id, driver);
        problems.extend(drivers.iter().filter_map(long));
    }
    problems.extend(nested(loaded));
    let long = |(id, driver): (&String, _)| long_socket(loaded, id, driver);
    problems.extend(drivers.iter().filter_map(long));
    let socket = |driver: &DriverSettings| Some(driver.csi_socket.display().to_string());
    problems.extend(shared(loaded, "csi_socket", socket));
    problems.extend(shared(loaded, "name", |driver| driver.name.clone()));
    problems
}

/// Directories in which not even the shortest driver name fits.
fn too_deep(loaded: &Loaded, layout: &Layout) -> Vec<Problem> {
    let shortest = DriverName::parse("x").expect("a letter follows the rules for names");
    let kubelet = &loaded.settings.kubelet;
    let (key, dir) = match &kubelet.root_dir {
        RootDir::Path(root) if !loaded.registry_dir_is_given() => ("root_dir", root),
        _ => ("registry_dir", &kubelet.registry_dir),
    };
    let socket = layout.socket(&shortest);
    let link = layout.link(&shortest, LinkAlias::default());
    let places = [
        (Key::of(&["registry_dir"]), layout.registry_dir(), socket),
        (Key::of(&["kubelet", key]), dir, link),
    ];
    let problem = |(key, dir, path): (_, &Path, PathBuf)| {
        let unfit = fits_socket(&path).err()?;
        let reason = format!(
            "leaves no room for a driver's name: {} {unfit}",
            path.display()
        );
        Some(bad_value(loaded, key, dir.display(), reason))
    };
    places.into_iter().filter_map(problem).collect()
}

fn long_name(
    loaded: &Loaded,
    layout: &Layout,
    id: &str,
    driver: &DriverSettings,
) -> Option<Problem> {
    let name = DriverName::parse(driver.name.as_ref()?).ok()?;
    let too_long = layout.check(&name).err()?;
    let key = Key::of(&["drivers", id, "name"]);
    Some(bad_value(loaded, key, name, too_long.to_string()))
}

/// The kubelet looks for sockets and links in all directories below its own, and would find each
/// driver twice.
fn nested(loaded: &Loaded) -> Option<Problem> {
    let settings = &loaded.settings;
    let (ours, kubelets) = (&settings.registry_dir, &settings.kubelet.registry_dir);
    // With root_dir = "auto", this runs again when the root directory is found.
    let is_known = loaded.registry_dir_is_given() || !loaded.needs_kubelet_root();
    if !is_known || !lies_below(ours, kubelets) {
        return None;
    }
    let verb = if ours.starts_with(kubelets) {
        "lies"
    } else {
        "leads"
    };
    let reason = format!(
        "{verb} below {} (kubelet.registry_dir), and the kubelet registers every socket that it \
         finds below that directory; use a directory outside it, or the same directory",
        kubelets.display()
    );
    let key = Key::of(&["registry_dir"]);
    Some(bad_value(loaded, key, ours.display(), reason))
}

/// The check of its layer measured a socket that is set; this measures a derived one.
fn long_socket(loaded: &Loaded, id: &str, driver: &DriverSettings) -> Option<Problem> {
    let unfit = fits_socket(&driver.csi_socket).err()?;
    let key = Key::of(&["drivers", id, "csi_socket"]);
    let reason = format!("follows from plugins_dir and the id, and {unfit}");
    Some(bad_value(loaded, key, driver.csi_socket.display(), reason))
}

/// Drivers that have the same value where each must have its own.
fn shared(
    loaded: &Loaded,
    key: &str,
    value: impl Fn(&DriverSettings) -> Option<String>,
) -> Vec<Problem> {
    let mut first: BTreeMap<String, &str> = BTreeMap::new();
    let mut problems = Vec::new();
    for (id, driver) in &loaded.settings.drivers {
        let Some(value) = value(driver) else { continue };
        if let Some(other) = first.get(&value) {
            let place = origin(loaded, &Key::of(&["drivers", other, key]));
            let other = Key::of(&["drivers", other]);
            let reason = format!("{other} has the same {key} in {place}");
            let key = Key::of(&["drivers", id, key]);
            problems.push(bad_value(loaded, key, value, reason));
        } else {
            first.insert(value, id);
        }
    }
    problems
}

fn bad_value(loaded: &Loaded, key: Key, value: impl Display, reason: String) -> Problem {
    Problem::BadValue {
        origin: origin(loaded, &key),
        key,
        value: literal::string(&value.to_string()),
        reason,
    }
}

/// The layer that sets a key; for a derived key, the layer that has its table.
fn origin(loaded: &Loaded, key: &Key) -> Origin {
    let table = key.parts().split_last().map(|(_, table)| table.to_vec());
    let table = table.and_then(|table| loaded.origins.get(&Key::from(table)));
    let origin = loaded.origins.get(key).or(table);
    origin.cloned().unwrap_or(Origin::BuiltIn)
}
