//! registry_dir and the kubelet's directory, which a mount or a link may turn into one directory or two.

use super::{Supervisor, Timer};

impl Supervisor {
    /// Where the directories have become one or two, every driver starts again with its socket and its
    /// link where they now belong.
    pub(super) fn look_at_layout(&mut self) {
        if self.layout.holds() {
            self.timers.set(Timer::Layout, None);
            return;
        }
        // A process that swaps the directories all the time is not followed at full speed.
        let now = self.now();
        let set = self.timers.get(Timer::Layout);
        let at = set.unwrap_or_else(|| now + self.layout_pace.disturbed(now));
        let is_early = now < at;
        self.timers.set(Timer::Layout, is_early.then_some(at));
        if is_early {
            return;
        }
        let layout = self.settings.layout();
        let number = if layout.one_directory() {
            "one directory"
        } else {
            "two directories"
        };
        tracing::warn!(
            registry_dir = %layout.registry_dir().display(),
            kubelet_dir = %layout.kubelet_dir().display(),
            "registry_dir and the kubelet's directory are now {number}; every driver is published again"
        );
        let mut records = Vec::new();
        for key in self.keys() {
            // registry_dir may lead elsewhere by now, and the socket be left beside the link.
            if let Some(runner) = self.runners.get(&key)
                && let Some((name, identity)) = runner.driver.serves()
                && self.layout.one_directory()
            {
                let path = self.layout.socket_beside_link(name);
                self.removals.remove(path, identity);
            }
            if let Some(runner) = self.remove_driver(key) {
                // What was done by hand is undone by hand.
                let record = runner.driver.record().by_hand();
                records.push((runner.id, record));
            }
        }
        self.layout = layout;
        for (id, record) in records {
            self.add(&id, record.as_ref());
        }
        self.state_file.changed();
    }
}
