//! state.json: what must survive the daemon. It is trusted only when it is whole, ours and of this boot.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use super::cluster_word::ClusterView;
use crate::disk::boot_file::{self, BootFile};
use crate::disk::identity::Identity;
use crate::disk::layout::Layout;
use crate::driver::Record;
use crate::kubelet::known::KnownKubelets;
use crate::kubelet::watched::Watched;
use crate::os::boot;

/// Raised when an older program could no longer read the file.
const FORMAT: u32 = 1;

/// The content of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedState {
    format: u32,
    /// None where it could not be read.
    #[serde(default)]
    boot_id: Option<String>,
    /// The sockets by which a kubelet shows that it has started, as they were.
    #[serde(default)]
    pub(crate) start_sockets: BTreeMap<PathBuf, Identity>,
    /// The directory that the kubelet watches.
    #[serde(default)]
    pub(crate) watched: Option<Watched>,
    /// The root of the kubelet that last told how a registration went.
    #[serde(default)]
    pub(crate) called_in: Option<PathBuf>,
    /// Where the sockets and links of these drivers are.
    #[serde(default)]
    pub(crate) layout: Option<Layout>,
    /// When verify last reported. Not known for a file of an earlier version.
    #[serde(default, deserialize_with = "if_valid")]
    pub(crate) cluster_checked: Option<SavedTime>,
    pub(crate) drivers: BTreeMap<String, SavedDriver>,
}

/// One driver in the file, with what tells it apart from another driver of its id or its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedDriver {
    #[serde(flatten)]
    pub(crate) record: Record,
    /// Not known for a file of an earlier version, or if a later version has a word of its own for it.
    #[serde(default, deserialize_with = "if_valid")]
    pub(crate) origin: Option<Origin>,
    /// Where the driver was expected.
    #[serde(default)]
    pub(crate) csi_socket: Option<PathBuf>,
    /// That socket as it was when the driver last came.
    #[serde(default)]
    pub(crate) csi_seen: Option<Identity>,
    /// What the status showed of it. Not known for a file of an earlier version.
    #[serde(default)]
    pub(crate) shown: Option<Shown>,
}

/// What the status showed of a driver: a restart of the daemon is no event in the life of a driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) phase: String,
    /// When the phase was entered, RFC 3339.
    pub(crate) since: String,
    #[serde(default)]
    pub(crate) counts: Counts,
    /// Not known for a file of an earlier version.
    #[serde(default, deserialize_with = "if_valid")]
    pub(crate) cluster: ClusterView,
}

/// A time, as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct SavedTime(pub(crate) Timestamp);

/// How often things happened to a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    pub(crate) registrations: u64,
    pub(crate) rejections: u64,
    pub(crate) announcements: u64,
    pub(crate) link_repairs: u64,
    /// The driver stopped answering, or restarted.
    pub(crate) disconnects: u64,
}

/// Where a driver came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// A table of the configuration names it.
    Table,
    /// It was found in plugins_dir.
    Discovery,
}

impl TryFrom<String> for SavedTime {
    type Error = jiff::Error;

    fn try_from(text: String) -> Result<SavedTime, jiff::Error> {
        text.parse().map(SavedTime)
    }
}

impl From<SavedTime> for String {
    fn from(SavedTime(time): SavedTime) -> String {
        time.to_string()
    }
}

impl SavedDriver {
    /// What is left of it in other directories: that an operator has withdrawn the driver.
    pub(crate) fn by_hand(self) -> Option<SavedDriver> {
        let record = self.record.by_hand()?;
        Some(SavedDriver { record, ..self })
    }
}

impl BootFile for SavedState {
    const FORMAT: u32 = FORMAT;

    fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }
}

impl SavedState {
    pub(crate) fn new(
        kubelets: &KnownKubelets,
        layout: &Layout,
        cluster_checked: Option<SavedTime>,
        drivers: BTreeMap<String, SavedDriver>,
    ) -> SavedState {
        SavedState {
            format: FORMAT,
            boot_id: boot::id().map(str::to_owned),
            start_sockets: kubelets.saved_start_sockets(),
            watched: kubelets.watched(),
            called_in: kubelets.called_in.clone(),
            layout: Some(layout.clone()),
            cluster_checked,
            drivers,
        }
    }

    /// Reads what an earlier run wrote. A file that cannot be trusted counts as none.
    pub(crate) fn load(path: &Path) -> Option<SavedState> {
        // A write that was cut short leaves a file behind, and the next write may be far away.
        if let Err(error) = boot_file::remove_staged(path) {
            tracing::warn!(%error, path = %path.display(), "cannot remove a temporary file");
        }
        let read = boot_file::read(path).inspect_err(|why| {
            tracing::warn!(path = %path.display(), %why, "the state file is not trusted");
        });
        read.ok().flatten()
    }

    /// The root directory of the kubelet that last told an earlier run of this boot, or this run, how
    /// a registration went.
    pub(crate) fn kubelet_root(path: &Path) -> Option<PathBuf> {
        SavedState::peek(path)?.called_in
    }

    /// What the file says, for a command that changes nothing. A file that cannot be trusted counts as
    /// none.
    pub(crate) fn peek(path: &Path) -> Option<SavedState> {
        boot_file::read(path).ok().flatten()
    }

    /// Replaces the file.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        boot_file::write(path, self)
    }
}

/// What is only shown must not cost the registrations beside it: a value that is not as we write it counts as none.
fn if_valid<'de, D, T>(source: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = serde_json::Value::deserialize(source)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests {
    use super::*;

    /// What an earlier version wrote has no word of the cluster; what is not as we write it counts as none. The
    /// driver beside it counts all the same.
    #[test]
    fn a_bad_word_of_the_cluster_costs_nothing_else() {
        const GOOD: &str = r#"{"word":{"registrations":1,"in_cluster":false,"difference":"so","checked":"2026-03-02T10:00:00Z"},"missing_since":"2026-03-02T09:00:00Z"}"#;
        let shown = |cluster: &str| {
            let text = format!(
                r#"{{"phase":"registered","since":"s","counts":{{"registrations":1}}{cluster}}}"#
            );
            serde_json::from_str::<Shown>(&text).unwrap()
        };
        let good = shown(&format!(",\"cluster\":{GOOD}"));
        assert_ne!(good.cluster, ClusterView::default());
        let written = serde_json::to_value(&good).unwrap();
        assert_eq!(
            written["cluster"],
            serde_json::from_str::<serde_json::Value>(GOOD).unwrap()
        );
        let bad = [
            GOOD.replace("2026-03-02T10", "yesterday"),
            GOOD.replace("false", "\"no\""),
            GOOD.replace("{\"registrations\":1", "{\"registrations\":-1"),
            "[1, 2]".to_owned(),
            "\"so\"".to_owned(),
            "null".to_owned(),
        ];
        let bad = bad.map(|bad| format!(",\"cluster\":{bad}"));
        for cluster in bad.iter().map(String::as_str).chain([""]) {
            let read = shown(cluster);
            assert_eq!(read.cluster, ClusterView::default(), "{cluster}");
            assert_eq!(read.counts.registrations, 1);
        }
        let checked = |value: &str| {
            let text = format!(r#"{{"format":1,"drivers":{{}},"cluster_checked":{value}}}"#);
            let state: SavedState = serde_json::from_str(&text).unwrap();
            state.cluster_checked.is_some()
        };
        assert!(checked("\"2026-03-02T10:00:00Z\""));
        for bad in ["\"yesterday\"", "1", "null", "{}"] {
            assert!(!checked(bad), "{bad}");
        }
    }
}
