//! What only shows in the sum of all layers: drivers that clash, paths that grow too long.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::driver::DriverSettings;
use super::error::Problem;
use super::key::Key;
use super::literal;
use super::origin::Origin;
use super::value::fits_socket;
use super::{Loaded, RootDir};
use crate::disk::layout::REG_SOCK;
use crate::disk::nesting::lies_below;
use crate::disk::socket::SUN_PATH_MAX;

pub(super) fn find(loaded: &Loaded) -> Vec<Problem> {
    let drivers = &loaded.settings.drivers;
    let rooms = rooms(loaded);
    let mut problems: Vec<_> = rooms
        .iter()
        .filter_map(|room| room.too_small(loaded))
        .collect();
    if problems.is_empty() {
        problems.extend(drivers.iter().filter_map(|(id, driver)| {
            let name = driver.name.as_deref()?;
            long_name(loaded, &rooms, id, name)
        }));
    }
    problems.extend(nested(loaded));
    problems.extend(
        drivers
            .iter()
            .filter_map(|(id, driver)| long_socket(loaded, id, driver)),
    );
    let socket = |driver: &DriverSettings| Some(driver.csi_socket.display().to_string());
    problems.extend(shared(loaded, "csi_socket", socket));
    problems.extend(shared(loaded, "name", |driver| driver.name.clone()));
    problems
}

/// A directory in which a socket or link is named after a driver, and the key that places it.
struct Room<'a> {
    key: &'static str,
    value: &'a Path,
    dir: &'a Path,
    prefix: &'static str,
}

fn rooms(loaded: &Loaded) -> Vec<Room<'_>> {
    let settings = &loaded.settings;
    let ours = &settings.registry_dir;
    let prefix = if settings.layout().one_directory() {
        "."
    } else {
        ""
    };
    let mut rooms = vec![Room {
        key: "registry_dir",
        value: ours,
        dir: ours,
        prefix,
    }];
    let dir = &settings.kubelet.registry_dir;
    match &settings.kubelet.root_dir {
        _ if loaded.registry_dir_is_given() => {
            rooms.push(Room {
                key: "kubelet.registry_dir",
                value: dir,
                dir,
                prefix: "",
            });
        }
        RootDir::Path(root) => {
            rooms.push(Room {
                key: "kubelet.root_dir",
                value: root,
                dir,
                prefix: "",
            });
        }
        // Measured when the root is found.
        RootDir::Auto => {}
    }
    rooms
}

impl Room<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{}{name}{REG_SOCK}", self.prefix))
    }

    fn too_small(&self, loaded: &Loaded) -> Option<Problem> {
        fits_socket(&self.path("x")).err()?;
        let key = Key::dotted(self.key);
        Some(Problem::BadValue {
            origin: loaded.origins.of_key(&key),
            key,
            value: literal::string(&self.value.display().to_string()),
            reason: format!(
                "leaves no room for {}, the path of a socket has at most {SUN_PATH_MAX} bytes",
                self.path("<name>").display()
            ),
        })
    }
}

/// The kubelet looks for sockets and links in all directories below its own, and would find each
/// driver twice.
fn nested(loaded: &Loaded) -> Option<Problem> {
    let settings = &loaded.settings;
    let (ours, kubelets) = (&settings.registry_dir, &settings.kubelet.registry_dir);
    // Compared when the root is found.
    let is_known = loaded.registry_dir_is_given() || !loaded.needs_kubelet_root();
    if !is_known || !lies_below(ours, kubelets) {
        return None;
    }
    let key = Key::dotted("registry_dir");
    let verb = if ours.starts_with(kubelets) {
        "lies"
    } else {
        "leads"
    };
    Some(Problem::BadValue {
        origin: loaded.origins.of_key(&key),
        key,
        value: literal::string(&ours.display().to_string()),
        reason: format!(
            "{verb} below {} (kubelet.registry_dir), and the kubelet registers every socket that \
             it finds below that directory; use a directory outside of it, or that very directory",
            kubelets.display()
        ),
    })
}

/// A socket that is given was measured with its layer; one that is derived is measured here.
fn long_socket(loaded: &Loaded, id: &str, driver: &DriverSettings) -> Option<Problem> {
    let unfit = fits_socket(&driver.csi_socket).err()?;
    Some(Problem::BadValue {
        origin: origin(loaded, id, "csi_socket"),
        key: Key::driver(id, "csi_socket"),
        value: literal::string(&driver.csi_socket.display().to_string()),
        reason: format!("derived from plugins_dir and the id, {unfit}"),
    })
}

fn long_name(loaded: &Loaded, rooms: &[Room<'_>], id: &str, name: &str) -> Option<Problem> {
    let (path, unfit) = rooms.iter().find_map(|room| {
        let path = room.path(name);
        fits_socket(&path).err().map(|unfit| (path, unfit))
    })?;
    Some(Problem::BadValue {
        origin: origin(loaded, id, "name"),
        key: Key::driver(id, "name"),
        value: literal::string(name),
        reason: format!("{} {unfit}", path.display()),
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
        match first.get(&value) {
            None => {
                first.insert(value, id);
            }
            Some(other) => problems.push(Problem::BadValue {
                origin: origin(loaded, id, key),
                key: Key::driver(id, key),
                value: literal::string(&value),
                reason: format!(
                    "{} has the same in {}",
                    Key::driver_table(other),
                    origin(loaded, other, key)
                ),
            }),
        }
    }
    problems
}

/// Where a driver's key is set; a derived one belongs to the file that has the table.
fn origin(loaded: &Loaded, id: &str, key: &str) -> Origin {
    match loaded.origins.get(&Key::driver(id, key)) {
        Some(origin) => origin.clone(),
        None => loaded.origins.of_key(&Key::driver_table(id)),
    }
}
