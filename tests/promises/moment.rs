//! What state.json has of the moment at which it was written: the boot, files, and processes. The state of a release
//! gets that of the running test instead.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

/// Of the running test.
pub(crate) struct Moment<'a> {
    /// The directory of the node.
    pub(crate) root: &'a Path,
    /// The kubelet's process.
    pub(crate) kubelet: u32,
}

impl Moment<'_> {
    /// The state of a release as a daemon of that release would have written it on this node.
    pub(crate) fn fit_state(&self, text: &str) -> Value {
        let state: Value = serde_json::from_str(text).unwrap();
        let registry = state["layout"]["registry_dir"].as_str().unwrap();
        let recorded = registry.strip_suffix("/vdata/storage/plugins_registry");
        let mut state = self.moved(text, recorded.unwrap());
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        state["boot_id"] = boot.trim().into();
        for (path, identity) in state["start_sockets"].as_object_mut().unwrap() {
            *identity = file(Path::new(path));
        }
        let watched = state["layout"]["plugins_registry"]
            .as_str()
            .unwrap()
            .to_owned();
        state["watched"]["directory"] = directory(Path::new(&watched));
        self.fit_process(&mut state["watched"]["by"]);
        for (_, driver) in state["drivers"].as_object_mut().unwrap() {
            let csi_socket = driver["csi_socket"].as_str().unwrap().to_owned();
            // A socket that is gone is of no moment.
            if !driver["csi_seen"].is_null() && Path::new(&csi_socket).exists() {
                driver["csi_seen"] = file(Path::new(&csi_socket));
            }
            self.fit_record(driver, Path::new(&watched));
        }
        state
    }

    fn fit_record(&self, record: &mut Value, links: &Path) {
        if !record["link"].is_null() {
            let name = record["name"].as_str().unwrap();
            record["link"] = file(&links.join(format!("{name}-reg.sock")));
        }
        if record["registration"].is_object() {
            self.fit_process(&mut record["registration"]["kubelet"]);
        }
    }

    fn fit_process(&self, process: &mut Value) {
        if !process.is_null() {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.kubelet)).unwrap();
            // The name may have spaces. The start time is the 22nd field, and the state the third.
            let after_name = stat.rsplit_once(") ").unwrap().1;
            let started: u64 = after_name.split(' ').nth(19).unwrap().parse().unwrap();
            *process = json!({"pid": self.kubelet, "started": started});
        }
    }

    /// The same with the paths of this node.
    fn moved(&self, text: &str, recorded: &str) -> Value {
        let text = text.replace(recorded, self.root.to_str().unwrap());
        serde_json::from_str(&text).unwrap()
    }
}

/// A file as the state has it.
fn file(path: &Path) -> Value {
    let found = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let mut identity = json!({
        "device": found.dev(), "inode": found.ino(),
        "changed_s": found.ctime(), "changed_ns": found.ctime_nsec(),
    });
    if let Ok(born) = found.created() {
        let since = born.duration_since(UNIX_EPOCH).unwrap().as_nanos();
        identity["born"] = u64::try_from(since).unwrap().into();
    }
    if found.is_symlink() {
        identity["target"] = fs::read_link(path).unwrap().to_str().unwrap().into();
    }
    identity
}

/// A directory as the state has it: its change time moves with each entry.
fn directory(path: &Path) -> Value {
    let found = fs::metadata(path).unwrap();
    let born = found.created().ok().map(|born| {
        let since = born.duration_since(UNIX_EPOCH).unwrap();
        json!({"secs_since_epoch": since.as_secs(), "nanos_since_epoch": since.subsec_nanos()})
    });
    json!({"device": found.dev(), "inode": found.ino(), "born": born})
}
