//! The forecast: what a reload or a restart does to each driver of the daemon that runs.
//!
//! The rules are those of `supervisor/reload.rs` and `supervisor/renaming.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use humantime::format_duration;

use crate::api::volumes;
use crate::config::{DriverSettings, Key, Settings, csi_socket};
use crate::csi::discover::Discoverable;
use crate::disk::directory;
use crate::disk::layout::Layout;
use crate::disk::name::DriverName;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::{Driver, Status};
use crate::supervisor::renaming::{Known, new_ids};
use crate::supervisor::saved_state::{Origin, SavedDriver, SavedState};
use crate::supervisor::taken_off::{Directories, changed, lost};

/// The daemon that runs, as its status and its state file show it.
#[derive(Debug)]
pub(super) struct Running {
    directories: Directories,
    drivers: Vec<RunningDriver>,
}

#[derive(Debug)]
struct RunningDriver {
    id: String,
    name: Option<DriverName>,
    csi_socket: PathBuf,
    endpoint: PathBuf,
    /// What the kubelet was told; none if it has not registered the driver.
    versions: Option<Vec<String>>,
    origin: Origin,
    withdrawn_by_hand: bool,
    /// The kubelet has registered it.
    registered: bool,
    /// It responds now.
    answering: bool,
    /// The volumes in use that keep it on the node, in words.
    kept_by: Option<String>,
}

/// The configuration that would take effect.
pub(super) struct Planned<'a> {
    pub(super) settings: &'a Settings,
    pub(super) layout: &'a Layout,
    /// The ids that discovery finds now. A directory that may hang counts as found.
    pub(super) found: &'a BTreeSet<String>,
}

/// What becomes of a driver.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The kubelet de-registers it, for this reason.
    Withdraw(String),
    /// The kubelet registers it, or registers it again, for this reason.
    Announce(String),
    /// The kubelet notices nothing; with what changes nevertheless.
    LeaveAlone(Option<String>),
}

/// A driver, by the id that it will have, and what becomes of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Forecast {
    id: String,
    fate: Fate,
}

impl Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = &self.id;
        match &self.fate {
            Fate::Withdraw(why) => write!(f, "withdraw       {id}: {why}"),
            Fate::Announce(why) => write!(f, "announce       {id}: {why}"),
            Fate::LeaveAlone(Some(what)) => write!(f, "leave alone    {id}: {what}"),
            Fate::LeaveAlone(None) => write!(f, "leave alone    {id}"),
        }
    }
}

impl Running {
    /// The state file has what the status does not show: where a driver came from, and what the
    /// kubelet was told.
    pub(super) fn of(status: &Status, saved: Option<&SavedState>, settings: &Settings) -> Running {
        let drivers = status.drivers.iter().map(|driver| {
            let saved = saved.and_then(|saved| saved.drivers.get(&driver.id));
            RunningDriver::of(driver, saved, settings)
        });
        Running {
            drivers: drivers.collect(),
            directories: directories(status, saved.and_then(|saved| saved.layout.as_ref())),
        }
    }
}

impl RunningDriver {
    fn of(driver: &Driver, saved: Option<&SavedDriver>, settings: &Settings) -> RunningDriver {
        let record = saved.map(|saved| &saved.record);
        let registration = record.and_then(|record| record.registration.as_ref());
        let socket = PathBuf::from(&driver.csi_socket);
        // A driver whose socket is elsewhere than discovery looks has a table.
        let is_at_home = socket == csi_socket(&settings.plugins_dir, &driver.id);
        let guess = match is_at_home {
            true => Origin::Discovery,
            false => Origin::Table,
        };
        RunningDriver {
            id: driver.id.clone(),
            name: driver.name.clone().and_then(|name| name.try_into().ok()),
            csi_socket: socket,
            endpoint: PathBuf::from(&driver.endpoint),
            versions: registration.map(|registered| registered.advertised.versions.clone()),
            origin: saved.and_then(|saved| saved.origin).unwrap_or(guess),
            withdrawn_by_hand: record.is_some_and(|record| record.withdrawn_by_hand),
            registered: driver.phase == Phase::Registered.as_str(),
            answering: driver.answering,
            kept_by: volumes::of(driver).and_then(|volumes| volumes.words()),
        }
    }
}

/// Where the daemon has its sockets and links, as far as that is known.
fn directories(status: &Status, saved: Option<&Layout>) -> Directories {
    if let Some(layout) = saved {
        return Directories::of(layout);
    }
    let mut sockets = status.drivers.iter();
    let socket = sockets.find_map(|driver| driver.registration_socket.as_ref());
    let kubelet = status.kubelet.as_ref();
    Directories {
        registry_dir: socket.map(|socket| directory::of(Path::new(socket)).to_owned()),
        plugins_registry: kubelet.map(|kubelet| PathBuf::from(&kubelet.plugins_registry)),
        seen_as: None,
        one_directory: None,
    }
}

/// What a reload with this configuration does, or a restart: a line for each driver, drivers that
/// leave first.
pub(super) fn forecast(running: &Running, planned: &Planned<'_>) -> Vec<Forecast> {
    let Planned {
        settings, found, ..
    } = *planned;
    let discoverable = Discoverable::of(settings);
    let stays = |driver: &RunningDriver| {
        settings.drivers.contains_key(&driver.id)
            || discoverable.has(settings, &driver.id)
                && (driver.origin == Origin::Discovery || found.contains(&driver.id))
    };
    let moved = running.directories.change_to(settings, planned.layout);
    let ids: BTreeMap<String, Option<String>> = if moved.is_some() {
        let ids = running.drivers.iter();
        ids.map(|driver| (driver.id.clone(), stays(driver).then(|| driver.id.clone())))
            .collect()
    } else {
        let known = running.drivers.iter().map(|driver| Known {
            id: driver.id.clone(),
            csi_socket: Some(driver.csi_socket.clone()),
            name: driver.name.clone(),
            stays: stays(driver),
        });
        new_ids(
            settings,
            &discoverable,
            |id| found.contains(id),
            known.collect(),
        )
    };
    let mut fates = Vec::new();
    for driver in &running.drivers {
        let new = ids.get(&driver.id).and_then(Option::as_ref);
        let is_published_there = new.is_some() && driver.answering;
        let in_use = driver.kept_by.as_ref().filter(|_| driver.registered);
        if let (Some(moved), Some(volumes), false) = (&moved, in_use, is_published_there) {
            let words = format!(
                "{moved}; a reload is refused, and a restart leaves its files where they are: {volumes}"
            );
            let id = driver.id.clone();
            fates.push(Forecast {
                id,
                fate: Fate::LeaveAlone(Some(words)),
            });
            continue;
        }
        let fate = match (new, &moved) {
            (None, None) => lose(settings, driver),
            (None, Some(_)) => Fate::Withdraw(why_lost(settings, driver)),
            (Some(_), _) if driver.withdrawn_by_hand => {
                Fate::LeaveAlone(Some("withdrawn until you publish it".to_owned()))
            }
            (Some(id), Some(moved)) => move_to(settings, driver, id, moved),
            (Some(id), None) => change(settings, driver, id),
        };
        let id = new.unwrap_or(&driver.id).clone();
        fates.push(Forecast { id, fate });
    }
    let kept: BTreeSet<&String> = ids.values().flatten().collect();
    let tables = settings.drivers.keys();
    let candidates = found.iter().filter(|id| discoverable.has(settings, id));
    for id in tables.chain(candidates).filter(|id| !kept.contains(id)) {
        let socket = settings.driver(id).csi_socket;
        fates.push(Forecast {
            id: id.clone(),
            fate: Fate::Announce(format!("new, when it answers on {}", socket.display())),
        });
    }
    fates.sort_by_key(|forecast| match forecast.fate {
        Fate::Withdraw(_) => 0,
        Fate::Announce(_) => 1,
        Fate::LeaveAlone(_) => 2,
    });
    fates
}

/// A driver that the settings do not have any more leaves, unless its volumes are in use.
fn lose(settings: &Settings, driver: &RunningDriver) -> Fate {
    let why = why_lost(settings, driver);
    match driver.kept_by.as_ref().filter(|_| driver.registered) {
        Some(volumes) => Fate::LeaveAlone(Some(format!(
            "{why}, and the registration stays until its volumes are unmounted: {volumes}"
        ))),
        None => Fate::Withdraw(why),
    }
}

/// Why the settings do not have this driver any more.
fn why_lost(settings: &Settings, driver: &RunningDriver) -> String {
    let plugins_dir = directory::of(directory::of(&driver.csi_socket));
    let had_table = driver.origin == Origin::Table;
    lost(plugins_dir, had_table, settings, &driver.id)
}

/// In other directories every driver begins again: it is published when it answers.
fn move_to(settings: &Settings, driver: &RunningDriver, id: &str, moved: &str) -> Fate {
    let wrong_name = wrong_name(&settings.driver(id), driver, id);
    let when = match (wrong_name, driver.answering) {
        (Some(wrong_name), _) => wrong_name,
        (None, true) => return Fate::Announce(moved.to_owned()),
        (None, false) => "announced when it responds".to_owned(),
    };
    let why = format!("{moved}; {when}");
    match driver.registered {
        true => Fate::Withdraw(why),
        false => Fate::LeaveAlone(Some(why)),
    }
}

/// The daemon refuses the answers of a driver that reports another name than its table pins. Another socket
/// may have a driver with that name.
fn wrong_name(new: &DriverSettings, driver: &RunningDriver, id: &str) -> Option<String> {
    let (name, wanted) = (driver.name.as_ref()?, new.name.as_ref()?);
    let is_wrong = driver.csi_socket == new.csi_socket && name != wanted;
    let key = Key::of(&["drivers", id, "name"]);
    is_wrong.then(|| {
        format!(
            "it reports the name \"{name}\", so that it counts as not responding until it reports \"{wanted}\" ({key})"
        )
    })
}

/// What changes for a driver that stays in its directories.
fn change(settings: &Settings, driver: &RunningDriver, id: &str) -> Fate {
    let new = settings.driver(id);
    let renamed = (id != driver.id).then(|| format!("was {}", driver.id));
    let key = |key: &str| Key::of(&["drivers", id, key]).to_string();
    let wrong_name = wrong_name(&new, driver, id);
    let announced = if driver.endpoint != new.endpoint {
        let key = key_of_endpoint(settings, &new, id);
        let (from, to) = (driver.endpoint.display(), new.endpoint.display());
        Some(changed(&key, from, to))
    } else if let (Some(old), Some(wanted)) = (&driver.name, &new.name)
        && old != wanted
    {
        Some(changed(&key("name"), old, wanted))
    } else {
        let versions = driver.versions.as_ref();
        versions
            .filter(|versions| **versions != new.supported_versions)
            .map(|from| {
                let to = new.supported_versions.join(", ");
                changed(&key("supported_versions"), from.join(", "), to)
            })
    };
    // The daemon announces only a driver that answers.
    if let Some(why) = announced.filter(|_| wrong_name.is_none()) {
        let renamed = renamed.map(|was| format!(" ({was})")).unwrap_or_default();
        let when = match driver.answering {
            true => "",
            false => ", when it responds",
        };
        return Fate::Announce(format!("{why}{renamed}{when}"));
    }
    let elsewhere = (driver.csi_socket != new.csi_socket)
        .then(|| format!("called on {} from now on", new.csi_socket.display()));
    let changes: Vec<String> = renamed.into_iter().chain(elsewhere).collect();
    let changes = (!changes.is_empty()).then(|| changes.join(", "));
    let silence = silence(&new, driver, wrong_name);
    let all: Vec<String> = changes.into_iter().chain(silence).collect();
    Fate::LeaveAlone((!all.is_empty()).then(|| all.join("; ")))
}

/// What becomes of a registration whose driver does not respond.
fn silence(
    new: &DriverSettings,
    driver: &RunningDriver,
    wrong_name: Option<String>,
) -> Option<String> {
    let is_silent = !driver.answering || wrong_name.is_some();
    let after = new
        .withdraw_after
        .filter(|_| is_silent && driver.registered);
    let withdrawn = after.map(|after| {
        let after = format_duration(after);
        format!(
            "is withdrawn when that has lasted {after} (withdraw_after), unless its volumes are in use"
        )
    });
    match (wrong_name, withdrawn) {
        (Some(name), Some(withdrawn)) => Some(format!("{name}; it {withdrawn}")),
        (Some(name), None) => Some(name),
        (None, Some(withdrawn)) => Some(format!("it does not respond, and {withdrawn}")),
        (None, None) => None,
    }
}

/// The key that the endpoint follows from.
fn key_of_endpoint(settings: &Settings, new: &DriverSettings, id: &str) -> String {
    if new.endpoint != new.csi_socket {
        Key::of(&["drivers", id, "endpoint"]).to_string()
    } else if new.csi_socket == csi_socket(&settings.plugins_dir, id) {
        "the endpoint, by plugins_dir,".to_owned()
    } else {
        Key::of(&["drivers", id, "csi_socket"]).to_string()
    }
}

#[cfg(test)]
mod tests;
