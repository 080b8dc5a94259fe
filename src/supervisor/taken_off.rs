//! The key of a changed configuration that takes a driver off the node.

use std::fmt::Display;
use std::path::Path;

use super::{Runner, Supervisor};
use crate::config::{Settings, csi_socket};
use crate::driver::AdvertisedInfo;

/// A reload takes a driver off the node.
pub(super) enum Removal {
    /// The configuration does not have the driver any more.
    Gone,
    /// The driver is published in other directories.
    Moved,
}

impl Supervisor {
    /// Says that a reload has taken a driver off the node, and which key did it. A driver that was not
    /// published loses nothing.
    pub(super) fn tell_removal(&self, old: &Settings, runner: &Runner, removal: &Removal) {
        let (id, new) = (&runner.id, &self.settings);
        let (cause, what) = match removal {
            Removal::Gone => {
                let had_table = old.drivers.contains_key(&**id);
                let cause = lost(&old.plugins_dir, had_table, new, id);
                (cause, "taken off the node by the reload")
            }
            Removal::Moved => (
                moved(old, new),
                "taken off the node by the reload, and published again",
            ),
        };
        if runner.driver.links().is_some() {
            tracing::warn!(driver = %id, "{id}: {what}: {cause}");
        } else {
            tracing::info!(driver = %id, "{id}: {what}: {cause}");
        }
    }
}

impl Runner {
    /// Says that a reload announces a registered driver again, which takes it off the node for a second.
    pub(super) fn tell_announcement(&self, new: &AdvertisedInfo) {
        let (id, old) = (&self.id, self.driver.advertised());
        if !self.driver.is_registered() || old == new {
            return;
        }
        let cause = if old.endpoint == new.endpoint {
            "supported_versions has changed".to_owned()
        } else {
            changed("endpoint", old.endpoint.display(), new.endpoint.display())
        };
        tracing::warn!(driver = %id, "{id}: announced again by the reload: {cause}");
    }
}

/// Why the settings do not have this driver any more: a driver that had a table, or that was discovered
/// in `plugins_dir`.
pub(crate) fn lost(plugins_dir: &Path, had_table: bool, new: &Settings, id: &str) -> String {
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

/// Which of the directories has changed.
fn moved(old: &Settings, new: &Settings) -> String {
    let (before, after) = (&old.kubelet, &new.kubelet);
    let directories = [
        ("registry_dir", &old.registry_dir, &new.registry_dir),
        (
            "kubelet.registry_dir",
            &before.registry_dir,
            &after.registry_dir,
        ),
        (
            "kubelet.sees_registry_as",
            &before.sees_registry_as,
            &after.sees_registry_as,
        ),
    ];
    let is_changed = |(_, from, to): &(_, _, _)| from != to;
    let mut changes = directories.into_iter().filter(is_changed);
    changes.next().map_or_else(
        || "registry_dir and kubelet.registry_dir became one directory, or two".to_owned(),
        |(key, from, to)| changed(key, from.display(), to.display()),
    )
}

pub(crate) fn changed(key: &str, from: impl Display, to: impl Display) -> String {
    format!("{key} has changed from {from} to {to}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let moved_to = settings(|settings| settings.registry_dir = "/s".into());
        assert_eq!(
            moved(&found(), &moved_to),
            "registry_dir has changed from /r to /s"
        );
    }
}
