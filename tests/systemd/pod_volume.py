"""The files of a pod's volume below the kubelet's root directory, without a pod and without a mount."""

import json
import shutil

from host import DRIVER, KUBELET

POD = "0c7b9f56-5a0a-4d0e-8d5c-3f0f6d1f7a21"
POD_DIR = f"{KUBELET}/pods/{POD}"


def set_up_volume(host):
    """As the kubelet does it: root alone may list the directories."""
    directory = host.path(f"{POD_DIR}/volumes/kubernetes.io~csi/data")
    directory.mkdir(parents=True)
    # The registrar does not look at the mount point. A kubelet leaves the directory of a pod that it does not
    # know alone while the mount point exists.
    (directory / "mount").mkdir(mode=0o750)
    for path in [directory, *directory.parents]:
        if path == host.path(KUBELET):
            break
        path.chmod(0o750)
    data = {
        "attachmentID": "csi-1", "driverName": DRIVER, "nodeName": "node-1", "specVolID": "data",
        "volumeHandle": "volume-1", "volumeLifecycleMode": "Persistent",
    }
    (directory / "vol_data.json").write_text(json.dumps(data))


def tear_down_volume(host):
    # A kubelet may remove it at the same time.
    shutil.rmtree(host.path(POD_DIR), ignore_errors=True)
