//! The files of a kubelet about its volumes: where they are, and what they say.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bed::Node;
use serde_json::Value;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn each_kind_of_volume_has_its_file_where_a_kubelet_puts_it() {
    let node = Node::new();
    let volumes = node.volumes();
    let below = |path: &str| node.kubelet_root().join(path);
    let pod = volumes.pod("uid-1", "pv-1", "a.csi", "h1");
    assert_eq!(
        pod.file(),
        below("pods/uid-1/volumes/kubernetes.io~csi/pv-1/vol_data.json")
    );
    let inline = volumes.inline("uid-1", "scratch", "a.csi");
    let old = volumes.staged_before_1_24("pv-1", "a.csi", "h1");
    let staged = below("plugins/kubernetes.io/csi");
    assert_eq!(old.file(), staged.join("pv/pv-1/vol_data.json"));
    let new = volumes.staged_from_1_24("abc", "a.csi", "h1");
    assert_eq!(new.file(), staged.join("a.csi/abc/vol_data.json"));
    let block = volumes.block("uid-2", "pv-2", "a.csi", "h2");
    let devices = staged.join("volumeDevices/pv-2");
    assert_eq!(block.file(), devices.join("data/vol_data.json"));
    let link = below("pods/uid-2/volumeDevices/kubernetes.io~csi/pv-2");
    assert_eq!(fs::read_link(link).unwrap(), devices.join("dev/uid-2"));
    for (volume, handle) in [
        (&pod, "h1"),
        (&inline, "csi-uid-1-scratch"),
        (&old, "h1"),
        (&new, "h1"),
        (&block, "h2"),
    ] {
        let data: Value = serde_json::from_slice(&fs::read(volume.file()).unwrap()).unwrap();
        assert_eq!(data["driverName"], "a.csi");
        assert_eq!(data["volumeHandle"], handle);
        assert_eq!(mode(&volume.file()), 0o644);
        assert_eq!(mode(volume.path()), 0o750);
    }
    volumes.remove_pod("uid-1");
    assert!(!pod.file().exists() && new.file().exists());
    volumes.remove_all();
    assert!(!new.file().exists() && volumes.pods().is_dir());
}
