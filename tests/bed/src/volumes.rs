//! The files of a kubelet about the volumes that it has set up.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// The node's name in the files.
const NODE: &str = "node-1";

/// The volumes below the root directory of a kubelet, written as the kubelet writes them: files 0644 in
/// directories 0750. Beside each file is the empty directory on which the kubelet would mount the volume.
#[derive(Debug, Clone)]
pub struct KubeletVolumes {
    root: PathBuf,
}

/// The directory of a volume, with its vol_data.json.
#[derive(Debug, Clone)]
pub struct VolumeDir {
    directory: PathBuf,
}

impl KubeletVolumes {
    /// Makes the `pods` directory, which every kubelet has.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        let volumes = Self { root: root.into() };
        make(&volumes.pods());
        volumes
    }

    /// The kubelet's root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of the pods.
    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// The directory of the staged volumes.
    pub fn staged(&self) -> PathBuf {
        self.root.join("plugins/kubernetes.io/csi")
    }

    /// Where the volume of a pod is or would be.
    pub fn pod_dir(&self, pod: &str, volume: &str) -> VolumeDir {
        let below = format!("{pod}/volumes/kubernetes.io~csi/{volume}");
        VolumeDir::at(self.pods().join(below))
    }

    /// A file-system volume of a pod.
    pub fn pod(&self, pod: &str, volume: &str, driver: &str, handle: &str) -> VolumeDir {
        let mut data = data(driver, handle);
        data.extend(of_pod(volume, driver));
        data.insert("volumeLifecycleMode".into(), "Persistent".into());
        self.pod_dir(pod, volume).write(data, "mount")
    }

    /// An inline volume of a pod: no file says that it is staged, and its handle is made up by the kubelet.
    pub fn inline(&self, pod: &str, volume: &str, driver: &str) -> VolumeDir {
        let mut data = data(driver, &format!("csi-{pod}-{volume}"));
        data.extend(of_pod(volume, driver));
        data.insert("volumeLifecycleMode".into(), "Ephemeral".into());
        self.pod_dir(pod, volume).write(data, "mount")
    }

    /// A staged volume, as kubelets before 1.24 write it.
    pub fn staged_before_1_24(&self, pv: &str, driver: &str, handle: &str) -> VolumeDir {
        let directory = self.staged().join("pv").join(pv);
        VolumeDir::at(directory).write(data(driver, handle), "globalmount")
    }

    /// A staged volume, as kubelets from 1.24 on write it. `hash` is the name of its directory; the kubelet
    /// takes the SHA-256 of the handle.
    pub fn staged_from_1_24(&self, hash: &str, driver: &str, handle: &str) -> VolumeDir {
        let directory = self.staged().join(driver).join(hash);
        VolumeDir::at(directory).write(data(driver, handle), "globalmount")
    }

    /// A block volume that a pod uses. The value is the directory of the volume, which all its pods share;
    /// a device would be at `dev/POD` in it.
    pub fn block(&self, pod: &str, pv: &str, driver: &str, handle: &str) -> VolumeDir {
        let devices = self.pods().join(pod);
        let devices = devices.join("volumeDevices/kubernetes.io~csi");
        make(&devices);
        let directory = self.staged().join("volumeDevices").join(pv);
        symlink(directory.join("dev").join(pod), devices.join(pv)).unwrap();
        make(&directory.join("dev"));
        let mut data = data(driver, handle);
        data.extend(of_pod(pv, driver));
        VolumeDir::at(directory.join("data")).write(data, "")
    }

    /// Removes a pod with all its volumes; those that are staged stay.
    pub fn remove_pod(&self, pod: &str) {
        fs::remove_dir_all(self.pods().join(pod)).unwrap();
    }

    /// Removes every volume, of pods and staged.
    pub fn remove_all(&self) {
        for directory in [self.pods(), self.staged()] {
            for entry in fs::read_dir(directory).into_iter().flatten() {
                fs::remove_dir_all(entry.unwrap().path()).unwrap();
            }
        }
    }
}

impl VolumeDir {
    fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The directory, in which the kubelet's file is.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// The kubelet's file.
    pub fn file(&self) -> PathBuf {
        self.directory.join("vol_data.json")
    }

    /// Makes the directory without a file in it.
    #[must_use]
    pub fn made(self) -> Self {
        make(&self.directory);
        self
    }

    /// Writes this text to the kubelet's file, whatever it is.
    pub fn put(&self, text: impl AsRef<[u8]>) {
        make(&self.directory);
        fs::write(self.file(), text).unwrap();
        fs::set_permissions(self.file(), Permissions::from_mode(0o644)).unwrap();
    }

    /// Removes the directory, as the kubelet does when it has unmounted the volume.
    pub fn remove(&self) {
        fs::remove_dir_all(&self.directory).unwrap();
    }

    fn write(self, data: Map<String, Value>, mount_point: &str) -> Self {
        make(&self.directory.join(mount_point));
        // The kubelet's encoder ends the file with a line feed.
        self.put(format!("{}\n", Value::Object(data)));
        self
    }
}

/// What the file of a staged volume has.
fn data(driver: &str, handle: &str) -> Map<String, Value> {
    let data = json!({"driverName": driver, "volumeHandle": handle});
    data.as_object().cloned().unwrap_or_default()
}

/// What the file of a pod's volume has beside that.
fn of_pod(volume: &str, driver: &str) -> Map<String, Value> {
    let attachment = format!("csi-{volume}-{driver}");
    let data = json!({"specVolID": volume, "attachmentID": attachment, "nodeName": NODE});
    data.as_object().cloned().unwrap_or_default()
}

fn make(directory: &Path) {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o750);
    builder.create(directory).unwrap();
}
