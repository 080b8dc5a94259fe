"""The bed's API server inside the container, on loopback, as test-api-server.service."""

import base64
import json
import re

from container import eventually
from programs import install

NODE = "node-1"
# Not a place that any kubelet has: only a kubelet's command line names it.
KUBECONFIG = "/var/lib/test-cluster/kubelet.conf"
STATE = "/var/lib/test-api-server.json"
REQUESTS = "/var/log/test-api-server.jsonl"
UID = "0b9d4f8e-6f0c-4a6b-9d0e-5f1f2f3a4b5c"
UNIT = f"""\
[Unit]
Description=The test API server
[Service]
ExecStartPre=/bin/rm -f {KUBECONFIG} {REQUESTS}
ExecStart=/opt/bed/test-api-server --state={STATE} --kubeconfig={KUBECONFIG} --node={NODE}
StandardOutput=append:{REQUESTS}
"""
# A process that is called as a kubelet and names a kubeconfig, as the test kubelet does not.
KUBELET_UNIT = f"""\
[Unit]
Description=A kubelet with a kubeconfig
[Service]
ExecStart=/bin/bash -c 'exec -a kubelet /bin/sh -c "sleep infinity; :" --kubeconfig={KUBECONFIG}'
"""


class ApiServer:
    def __init__(self, node):
        self._node = node

    def start(self):
        """Starts it with what the test kubelet has written."""
        install(self._node.container, self._node.programs / "test-api-server")
        self._node.write("/run/systemd/system/test-api-server.service", UNIT)
        self._node.write("/run/systemd/system/with-kubeconfig.service", KUBELET_UNIT)
        self._node.systemctl("daemon-reload")
        self.follow()
        self._node.systemctl("restart", "test-api-server", "with-kubeconfig")
        eventually("it has written the kubeconfig", self._node.path(KUBECONFIG).exists)
        # systemd has started bash by now, which is no kubelet until it has replaced itself.
        eventually("a process with the name of a kubelet runs", self._kubelet_runs)

    def _kubelet_runs(self):
        pid = self._node.show("MainPID", unit="with-kubeconfig")["MainPID"]
        return self._node.run("cat", f"/proc/{pid}/cmdline", check=False).stdout.startswith("kubelet\0")

    def stop(self):
        self._node.systemctl("stop", "test-api-server", "with-kubeconfig")

    def follow(self, without=()):
        """Makes CSINode and Node what the test kubelet has written, without these drivers."""
        written = self._node.kubelet.objects()
        listed = {name: entry for name, entry in written["csi_node"].items() if name not in without}
        drivers = [
            {"name": name, "nodeID": entry["node_id"], "topologyKeys": entry["topology_keys"] or None}
            for name, entry in listed.items()
        ]
        ids = {name: id for name, id in written["node_ids"].items() if name not in without}
        annotations = {"csi.volume.kubernetes.io/nodeid": json.dumps(ids)} if ids else {}
        owner = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": UID}
        state = {
            "csi_node": {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": NODE, "ownerReferences": [owner]},
                "spec": {"drivers": drivers},
            },
            "node": {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": NODE, "uid": UID, "labels": written["labels"], "annotations": annotations},
                "spec": {},
                "status": {"nodeInfo": {"bootID": self._read("/proc/sys/kernel/random/boot_id"),
                                        "machineID": self._read("/etc/machine-id")}},
            },
            "csi_drivers": {
                name: {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSIDriver",
                    "metadata": {"name": name},
                    "spec": {"attachRequired": False},
                }
                for name in written["csi_node"]
            },
        }
        self._node.write(STATE, json.dumps(state))

    def _read(self, path):
        return self._node.run("cat", path).stdout.strip()

    def requests(self):
        return [json.loads(line) for line in self._node.path(REQUESTS).read_text().splitlines()]

    def secrets(self):
        """The kubelet's credentials as any text could have them: encoded in the kubeconfig, and lines of the PEM."""
        kubeconfig = self._node.path(KUBECONFIG).read_text()
        encoded = re.findall(r"client-(?:certificate|key)-data: (\S+)", kubeconfig)
        assert len(encoded) == 2, f"{KUBECONFIG} has {len(encoded)} credentials"
        lines = [line for one in encoded for line in base64.b64decode(one).decode().splitlines()]
        return encoded + [line for line in lines if not line.startswith("---")]
