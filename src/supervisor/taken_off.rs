//! The key of a changed configuration that takes a driver off the node.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use humantime::format_duration;

use super::saved_state::{Origin, SavedDriver};
use super::{Runner, Supervisor};
use crate::config::{DriverSettings, PLUGINS_REGISTRY, Settings, csi_socket};
use crate::disk::directory;
use crate::disk::layout::Layout;
use crate::driver::AdvertisedInfo;

/// A reload takes a driver off the node.
pub(super) enum Removal<'a> {
    /// The configuration does not have the driver any more.
    Gone,
    /// The driver is published in other directories, because of this key.
    Moved(&'a str),
}

impl Supervisor {
    /// Says that a reload has taken a driver off the node, and which key did it. A driver that was not
    /// published loses nothing.
    pub(super) fn tell_removal(&self, old: &Settings, runner: &Runner, removal: &Removal<'_>) {
        let id = &runner.id;
        let (cause, what) = match removal {
            Removal::Gone => (
                self.cause_of_loss(old, runner),
                "taken off the node by the reload",
            ),
            Removal::Moved(cause) => (
                (*cause).to_owned(),
                "taken off the node by the reload, and published again",
            ),
        };
        if runner.driver.links().is_some() {
            tracing::warn!(driver = %id, "{id}: {what}: {cause}");
        } else {
            tracing::info!(driver = %id, "{id}: removed by the reload: {cause}");
        }
    }
}

impl Supervisor {
    /// The key by which a reload has lost a driver.
    pub(super) fn cause_of_loss(&self, old: &Settings, runner: &Runner) -> String {
        let had_table = old.drivers.contains_key(&*runner.id);
        lost(&old.plugins_dir, had_table, &self.settings, &runner.id)
    }

    /// The key by which a restart has lost a driver.
    pub(super) fn cause_of_loss_at_start(&self, id: &str, saved: &SavedDriver) -> String {
        let had_table = saved.origin == Some(Origin::Table);
        let socket = saved.csi_socket.as_deref();
        let plugins_dir = socket.map(|socket| directory::of(directory::of(socket)));
        let plugins_dir = plugins_dir.unwrap_or(&self.settings.plugins_dir);
        lost(plugins_dir, had_table, &self.settings, id)
    }

    /// Says that the configuration no longer has a driver that an earlier run has published.
    pub(super) fn tell_removal_at_start(&self, id: &str, saved: &SavedDriver) {
        if saved.record.link.is_none() {
            return;
        }
        let cause = self.cause_of_loss_at_start(id, saved);
        tracing::warn!(driver = %id, "{id}: taken off the node by the restart: {cause}");
    }
}

impl Runner {
    /// Says what changed settings mean for the registration of a driver.
    pub(super) fn tell_change(&self, new: &DriverSettings, info: &AdvertisedInfo) {
        if self.driver.is_registered() {
            self.tell_announcement(info);
            self.tell_patience(new);
        }
    }

    /// A driver that does not answer is withdrawn earlier than before.
    fn tell_patience(&self, new: &DriverSettings) {
        let (before, after) = (self.settings.withdraw_after, new.withdraw_after);
        let Some(after) = after.filter(|_| before != after && self.driver.is_silent()) else {
            return;
        };
        let (id, after) = (&self.id, format_duration(after));
        tracing::warn!(driver = %id, "{id}: does not respond, and the reload takes it off the node after {after}: withdraw_after has changed");
    }

    /// An announcement takes the driver off the node for a second.
    fn tell_announcement(&self, new: &AdvertisedInfo) {
        let (id, old) = (&self.id, self.driver.advertised());
        if old == new {
            return;
        }
        let cause = if old.endpoint == new.endpoint {
            "supported_versions has changed".to_owned()
        } else {
            changed("endpoint", old.endpoint.display(), new.endpoint.display())
        };
        tracing::warn!(driver = %id, "{id}: the reload announces it again as soon as it responds: {cause}");
    }
}

/// Why the settings do not have this driver any more: a driver that had a table, or that was discovered
/// in `plugins_dir`.
pub(crate) fn lost(plugins_dir: &Path, had_table: bool, new: &Settings, id: &str) -> String {
    if new.drivers.contains_key(id) {
        return format!("[drivers.\"{id}\"] has another driver now");
    }
    let discovery = &new.discovery;
    let missed = if !discovery.enabled {
        "discovery.enabled is false".to_owned()
    } else if discovery.excludes(id) {
        "discovery.exclude contains it".to_owned()
    } else if plugins_dir != new.plugins_dir && !had_table {
        let (from, to) = (plugins_dir.display(), new.plugins_dir.display());
        changed("plugins_dir", from, to)
    } else {
        let socket = csi_socket(&new.plugins_dir, id);
        format!("discovery does not find {}", socket.display())
    };
    if had_table {
        format!("[drivers.\"{id}\"] was removed, and {missed}")
    } else {
        missed
    }
}

/// Where a daemon has its sockets and links, as far as that is known.
#[derive(Debug)]
pub(crate) struct Directories {
    pub(crate) registry_dir: Option<PathBuf>,
    pub(crate) plugins_registry: Option<PathBuf>,
    pub(crate) seen_as: Option<PathBuf>,
    pub(crate) one_directory: Option<bool>,
}

impl Directories {
    pub(crate) fn of(layout: &Layout) -> Directories {
        Directories {
            registry_dir: Some(layout.registry_dir().to_owned()),
            plugins_registry: Some(layout.plugins_registry().to_owned()),
            seen_as: Some(layout.seen_as().to_owned()),
            one_directory: Some(layout.one_directory()),
        }
    }

    /// The key that moves every driver, if the sockets and links would be elsewhere.
    pub(crate) fn change_to(&self, settings: &Settings, layout: &Layout) -> Option<String> {
        let follows = |from: &Option<PathBuf>| {
            let registry = Path::new(PLUGINS_REGISTRY);
            let to = settings.kubelet_root().join(registry);
            from.as_ref().is_some_and(|from| from.ends_with(registry))
                && layout.plugins_registry() == to
        };
        let parent = |from: &PathBuf| directory::of(from).to_owned();
        let root = self.plugins_registry.as_ref().map(parent);
        // The operator did not write what follows from root_dir.
        let kubelet = match follows(&self.plugins_registry) {
            true => ("kubelet.root_dir", &root, settings.kubelet_root()),
            false => (
                "kubelet.plugins_registry",
                &self.plugins_registry,
                layout.plugins_registry(),
            ),
        };
        let places = [
            ("registry_dir", &self.registry_dir, layout.registry_dir()),
            kubelet,
            ("kubelet.sees_registry_as", &self.seen_as, layout.seen_as()),
        ];
        let change = places.into_iter().find_map(|(key, from, to)| {
            let from = from.as_deref().filter(|from| *from != to)?;
            Some(changed(key, from.display(), to.display()))
        });
        change.or_else(|| {
            let was_one = self.one_directory?;
            let became = (was_one != layout.one_directory()).then_some(match was_one {
                true => "two directories",
                false => "one directory",
            })?;
            Some(format!(
                "registry_dir and kubelet.plugins_registry became {became}"
            ))
        })
    }
}

pub(crate) fn changed(key: &str, from: impl Display, to: impl Display) -> String {
    format!("{key} has changed from {from} to {to}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RootDir;

    fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
        let mut settings = Settings {
            plugins_dir: "/p".into(),
            registry_dir: "/r".into(),
            ..Settings::default()
        };
        settings.discovery.enabled = true;
        change(&mut settings);
        settings
    }

    #[test]
    fn the_key_that_takes_a_driver_off_the_node_is_named() {
        let found = || settings(|_| {});
        let declared = settings(|settings| {
            let driver = settings.driver("a");
            settings.drivers.insert("a".to_owned(), driver);
        });
        let off = || settings(|settings| settings.discovery.enabled = false);
        let excluding = settings(|settings| settings.discovery.exclude = vec!["a*".to_owned()]);
        let elsewhere = settings(|settings| settings.plugins_dir = "/q".into());
        for (old, new, why) in [
            (found(), off(), "discovery.enabled is false"),
            (found(), excluding, "discovery.exclude contains it"),
            (found(), elsewhere, "plugins_dir has changed from /p to /q"),
            (
                declared.clone(),
                off(),
                "[drivers.\"a\"] was removed, and discovery.enabled is false",
            ),
            (
                declared,
                found(),
                "[drivers.\"a\"] was removed, and discovery does not find /p/a/csi.sock",
            ),
        ] {
            let had_table = old.drivers.contains_key("a");
            assert_eq!(lost(&old.plugins_dir, had_table, &new, "a"), why);
        }
        let given_away = settings(|settings| {
            let driver = settings.driver("a");
            settings.drivers.insert("a".to_owned(), driver);
        });
        assert_eq!(
            lost(Path::new("/p"), true, &given_away, "a"),
            "[drivers.\"a\"] has another driver now"
        );
        let rooted = |root: &str| {
            settings(|settings| {
                settings.kubelet.root_dir = RootDir::Path(root.into());
                settings.kubelet.plugins_registry = Path::new(root).join("plugins_registry");
            })
        };
        let moved = |old: &Settings, new: &Settings| {
            Directories::of(&old.layout()).change_to(new, &new.layout())
        };
        assert_eq!(moved(&found(), &found()), None);
        assert_eq!(
            moved(&rooted("/a"), &rooted("/b")).unwrap(),
            "kubelet.root_dir has changed from /a to /b"
        );
        let moved_to = settings(|settings| settings.registry_dir = "/s".into());
        assert_eq!(
            moved(&found(), &moved_to).unwrap(),
            "registry_dir has changed from /r to /s"
        );
    }
}
