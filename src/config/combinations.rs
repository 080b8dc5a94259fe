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
use crate::disk::layout::Layout;
use crate::disk::name::DriverName;
use crate::disk::nesting::lies_below;

pub(super) fn faults(loaded: &Loaded) -> Vec<Problem> {
    let layout = loaded.settings.layout();
    let mut problems = too_deep(loaded, &layout);
    if problems.is_empty() {
        problems.extend(long_names(loaded, &layout));
    }
    problems.extend(nested(loaded));
    problems.extend(long_sockets(loaded));
    let socket = |driver: &DriverSettings| Some(driver.csi_socket.display().to_string());
    problems.extend(shared(loaded, "csi_socket", socket));
    let name = |driver: &DriverSettings| driver.name.as_ref().map(ToString::to_string);
    problems.extend(shared(loaded, "name", name));
    problems
}

/// Directories in which not even the shortest driver name fits.
fn too_deep(loaded: &Loaded, layout: &Layout) -> Vec<Problem> {
    let shortest = DriverName::parse("x").expect("a letter follows the rules for names");
    let kubelet = &loaded.settings.kubelet;
    let (key, dir) = match &kubelet.root_dir {
        RootDir::Path(root) if !plugins_registry_is_given(loaded) => ("root_dir", root),
        _ => ("plugins_registry", &kubelet.plugins_registry),
    };
    let socket = layout.socket(&shortest);
    let link = layout.link(&shortest);
    let places: [(&[&str], _, _); 2] = [
        (&["registry_dir"], layout.registry_dir(), socket),
        (&["kubelet", key], dir, link),
    ];
    let problem = |(key, dir, path): (&[&str], &Path, PathBuf)| {
        let unfit = fits_socket(&path).err()?;
        let path = path.display();
        let reason = format!("leaves no room for a driver's name: {path} {unfit}");
        Some(bad_value(loaded, key, dir.display(), &reason))
    };
    places.into_iter().filter_map(problem).collect()
}

fn long_names(loaded: &Loaded, layout: &Layout) -> impl Iterator<Item = Problem> {
    let drivers = loaded.settings.drivers.iter();
    drivers.filter_map(|(id, driver)| {
        let name = driver.name.as_ref()?;
        let too_long = layout.check(name).err()?.to_string();
        Some(bad_value(loaded, &["drivers", id, "name"], name, &too_long))
    })
}

/// The kubelet looks for sockets and links in all directories below its own, and would find each
/// driver twice.
fn nested(loaded: &Loaded) -> Option<Problem> {
    let settings = &loaded.settings;
    let (ours, kubelets) = (&settings.registry_dir, &settings.kubelet.plugins_registry);
    // With root_dir = "auto", this runs again when the root directory is found.
    let is_known = plugins_registry_is_given(loaded) || !loaded.needs_kubelet_root();
    if !is_known || !lies_below(ours, kubelets) {
        return None;
    }
    let verb = match ours.starts_with(kubelets) {
        true => "lies",
        false => "leads",
    };
    let reason = format!(
        "{verb} below {} (kubelet.plugins_registry), and the kubelet registers every socket that it \
         finds below that directory; use a directory outside it, or the same directory",
        kubelets.display()
    );
    Some(bad_value(
        loaded,
        &["registry_dir"],
        ours.display(),
        &reason,
    ))
}

fn plugins_registry_is_given(loaded: &Loaded) -> bool {
    let key = Key::of(&["kubelet", "plugins_registry"]);
    loaded.origins.contains_key(&key)
}

/// The check of its layer measured a socket that is set; this measures a derived socket.
fn long_sockets(loaded: &Loaded) -> impl Iterator<Item = Problem> {
    let drivers = loaded.settings.drivers.iter();
    drivers.filter_map(|(id, driver)| {
        let unfit = fits_socket(&driver.csi_socket).err()?;
        let reason = format!("follows from plugins_dir and the id, and {unfit}");
        let (key, socket) = (["drivers", id, "csi_socket"], driver.csi_socket.display());
        Some(bad_value(loaded, &key, socket, &reason))
    })
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
            problems.push(bad_value(loaded, &["drivers", id, key], value, &reason));
        } else {
            first.insert(value, id);
        }
    }
    problems
}

fn bad_value(loaded: &Loaded, key: &[&str], value: impl Display, reason: &str) -> Problem {
    let (key, value) = (Key::of(key), literal::string(&value.to_string()));
    Problem::of_key(origin(loaded, &key), &key, &value, reason)
}

/// The layer that sets a key; for a derived key, the layer that has its table.
fn origin<'a>(loaded: &'a Loaded, key: &Key) -> &'a Origin {
    let table = key.parts().split_last().map(|(_, table)| Key::of(table));
    let mut keys = [Some(key), table.as_ref()].into_iter().flatten();
    let origin = keys.find_map(|key| loaded.origins.get(key));
    origin.unwrap_or(&Origin::BuiltIn)
}
