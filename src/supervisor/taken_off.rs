//! The key of a changed configuration that takes a driver off the node.

use std::fmt::Display;
use std::path::Path;

use humantime::format_duration;

use super::saved_state::{Origin, SavedDriver};
use super::{Runner, Supervisor};
use crate::config::{DriverSettings, PLUGINS_REGISTRY, Settings, csi_socket};
use crate::disk::directory;
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
            tracing::info!(driver = %id, "{id}: removed by the reload: {cause}");
        }
    }
}

impl Supervisor {
    /// Says that the configuration no longer has a driver that an earlier run has published.
    pub(super) fn tell_removal_at_start(&self, id: &str, saved: &SavedDriver) {
        if saved.record.link.is_none() {
            return;
        }
        let had_table = saved.origin == Some(Origin::Table);
        let socket = saved.csi_socket.as_deref();
        let plugins_dir = socket.map(|socket| directory::of(directory::of(socket)));
        let plugins_dir = plugins_dir.unwrap_or(&self.settings.plugins_dir);
        let cause = lost(plugins_dir, had_table, &self.settings, id);
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

/// Which of the directories has changed.
fn moved(old: &Settings, new: &Settings) -> String {
    let (before, after) = (&old.kubelet, &new.kubelet);
    let roots = [old.kubelet_root(), new.kubelet_root()];
    let registries = [&before.registry_dir, &after.registry_dir];
    let [from, to] = roots;
    // The operator did not write what follows from root_dir.
    if from != to && registries == roots.map(|root| root.join(PLUGINS_REGISTRY)).each_ref() {
        return changed("kubelet.root_dir", from.display(), to.display());
    }
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
                settings.kubelet.registry_dir = Path::new(root).join("plugins_registry");
            })
        };
        assert_eq!(
            moved(&rooted("/a"), &rooted("/b")),
            "kubelet.root_dir has changed from /a to /b"
        );
        let moved_to = settings(|settings| settings.registry_dir = "/s".into());
        assert_eq!(
            moved(&found(), &moved_to),
            "registry_dir has changed from /r to /s"
        );
    }
}
