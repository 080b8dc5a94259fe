//! The cluster's word: what the program verify last found in the cluster about a driver.
//!
//! A report is no event: it changes no driver, and only what is shown of it. It holds for the registration that
//! it is about, and for no longer.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::saved_state::SavedTime;
use super::{Runner, Supervisor};
use crate::api::{age, cluster};
use crate::grpc::proto::control::{ClusterFinding, ClusterReport};
use crate::os::text::printable;
use crate::systemd::journal::message_id;

/// What is known from the cluster about a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterView {
    /// None if nothing is known of the present registration.
    pub(super) word: Option<ClusterWord>,
    /// Since when the cluster does not have the driver. A new registration does not end that, because it may
    /// not help: only the cluster's word does.
    missing_since: Option<SavedTime>,
}

/// What verify found about one registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClusterWord {
    /// Which registration of the driver: how many there were.
    registrations: u64,
    pub(super) in_cluster: bool,
    /// In words that follow "but"; empty if nothing differs.
    pub(super) difference: String,
    /// When the cluster was asked.
    pub(super) checked: SavedTime,
}

impl Supervisor {
    /// Takes what verify found. A finding about another registration than the present one says nothing.
    pub(super) fn cluster_reported(&mut self, report: ClusterReport) {
        let now = Timestamp::now();
        let age = SignedDuration::from_millis(report.age_ms.try_into().unwrap_or(i64::MAX));
        let asked = SavedTime(now.saturating_sub(age).unwrap_or(now));
        // A report that comes late must not replace a newer one. A time that is still to come is of a clock that was set
        // back since.
        let is_late = |checked: SavedTime| asked.0 < checked.0 && checked.0 <= now;
        if !self.cluster_checked.is_some_and(is_late) {
            self.cluster_checked = Some(asked);
        }
        self.state_file.changed();
        for finding in report.drivers {
            let key = self.key_of(&finding.driver);
            let runner = key.and_then(|key| self.runners.get_mut(&key));
            let Some((key, runner)) = key.zip(runner) else {
                let driver = printable(&finding.driver);
                tracing::debug!(%driver, "verify reports a driver that does not exist");
                continue;
            };
            let word = runner.cluster.word.as_ref();
            if word.is_some_and(|word| is_late(word.checked)) {
                let id = &runner.id;
                tracing::debug!(driver = %id, "{id}: verify reports what is older than the last report");
            } else if runner.is_registration(finding.registrations) {
                runner.cluster_found(finding, asked);
                self.queue.mark(key);
            } else {
                let id = &runner.id;
                tracing::debug!(driver = %id, "{id}: verify reports an earlier registration");
            }
        }
    }
}

impl Runner {
    /// The driver is registered, and this is its number of registrations.
    pub(super) fn is_registration(&self, registrations: u64) -> bool {
        self.driver.is_registered() && self.counts.registrations == registrations
    }

    fn cluster_found(&mut self, finding: ClusterFinding, asked: SavedTime) {
        let (id, in_cluster) = (&self.id, finding.in_cluster);
        let difference = printable(&finding.difference);
        let is_news = self
            .cluster
            .word
            .as_ref()
            .is_none_or(|word| word.in_cluster);
        match (in_cluster, self.cluster.missing_since) {
            // A new registration that did not help is told again.
            (false, since) if since.is_none() || is_news => {
                self.cluster.missing_since = since.or(Some(asked));
                let (message_id, loss) = (message_id::NOT_IN_CLUSTER, cluster::loss(&difference));
                tracing::warn!(message_id, driver = %id, "{id}: registered by the kubelet, but {loss}");
            }
            (true, Some(since)) => {
                self.cluster.missing_since = None;
                let after = age(&since.0.to_string(), asked.0);
                tracing::info!(driver = %id, "{id}: in the cluster again after {after}");
            }
            (false, _) | (true, None) => {}
        }
        self.cluster.word = Some(ClusterWord {
            registrations: finding.registrations,
            in_cluster,
            difference,
            checked: asked,
        });
    }

    /// Forgets the cluster's word about a registration that has ended.
    pub(super) fn forget_old_word(&mut self) {
        let word = self.cluster.word.take();
        self.cluster.word = word.filter(|word| self.is_registration(word.registrations));
    }
}
