"""A cluster of one node inside the container: etcd, containerd, an API server and a kubelet."""

import collections
import ctypes
import http.client
import json
import re
import socket
import ssl
import subprocess
import threading
import time

from container import eventually
from host import KUBELET
from kubelet_unit import KubeletUnit

NODE = "node-1"
CSI_NODE = f"/apis/storage.k8s.io/v1/csinodes/{NODE}"
# The kubelet wants an address that is not loopback's; this one is for documentation (RFC 5737).
ADDRESS = "192.0.2.1"
PORT = 6443
PROGRAMS = "/opt/kubernetes"
HOME = "/srv/cluster"
CONTAINERD = "/run/containerd/containerd.sock"
AUDIT = f"{HOME}/audit.log"
LOG = "/var/log/kubelet.log"

COMMANDS = {
    "etcd": [
        f"--data-dir={HOME}/etcd",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        # What is lost with the machine may be lost here.
        "--unsafe-no-fsync",
    ],
    "containerd": [f"--config={HOME}/containerd.toml"],
    "kube-apiserver": [
        "--etcd-servers=http://127.0.0.1:2379",
        "--bind-address=127.0.0.1",
        f"--secure-port={PORT}",
        f"--advertise-address={ADDRESS}",
        "--service-cluster-ip-range=198.51.100.0/24",
        f"--cert-dir={HOME}/certificates",
        f"--token-auth-file={HOME}/tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--disable-admission-plugins=ServiceAccount",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={HOME}/service-account.key",
        f"--service-account-signing-key-file={HOME}/service-account.key",
        f"--audit-policy-file={HOME}/audit.yaml",
        f"--audit-log-path={AUDIT}",
    ],
    "kubelet": [
        f"--root-dir={KUBELET}",
        f"--kubeconfig={HOME}/kubeconfig",
        f"--hostname-override={NODE}",
        f"--node-ip={ADDRESS}",
        "--address=127.0.0.1",
        "--read-only-port=0",
        "--container-runtime=remote",
        f"--container-runtime-endpoint=unix://{CONTAINERD}",
        "--cgroup-driver=cgroupfs",
        "--cgroups-per-qos=false",
        "--enforce-node-allocatable=",
        "--runtime-cgroups=/",
        "--kubelet-cgroups=/",
        "--eviction-hard=",
        "--fail-swap-on=false",
        # Five calls a second otherwise: thirty drivers at once would be half a minute's work.
        "--kube-api-qps=100",
        "--kube-api-burst=200",
        "--make-iptables-util-chains=false",
        # The machine's own settings are no business of a test.
        "--protect-kernel-defaults=true",
        "--v=4",
    ],
}

# What a kubelet wants the kernel to be told; here it is told that all is so.
SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}

UNIT = """\
[Service]
Environment=PATH={programs}:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart={programs}/{name} {arguments}
StandardOutput=append:/var/log/{name}.log
StandardError=inherit
KillMode=process
"""

FILES = {
    "tokens.csv": f'admin,admin,1,"system:masters"\nkubelet,system:node:{NODE},2,"system:nodes"\n',
    "containerd.toml": f"""\
version = 2
root = "{HOME}/containerd"
state = "/run/containerd"
[grpc]
address = "{CONTAINERD}"
""",
    # Every write to the two objects that a registration shows in.
    "audit.yaml": """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create, update, patch, delete]
  resources:
  - group: storage.k8s.io
    resources: [csinodes]
  - group: ""
    resources: [nodes, nodes/status]
- level: None
""",
    "kubeconfig": f"""\
apiVersion: v1
kind: Config
clusters: [{{name: here, cluster: {{server: "https://127.0.0.1:{PORT}", insecure-skip-tls-verify: true}}}}]
users: [{{name: kubelet, user: {{token: kubelet}}}}]
contexts: [{{name: here, context: {{cluster: here, user: kubelet}}}}]
current-context: here
""",
}


class Cluster(KubeletUnit):
    """The API objects of the node, and what the kubelet did to them."""

    name = "1.20.2"

    def set_up(self):
        """Starts all four, and returns when the kubelet looks at plugins_registry."""
        container = self._container
        container.run("mkdir", "-p", HOME)
        for name, text in FILES.items():
            container.write(f"{HOME}/{name}", text)
        key = subprocess.run(
            ["openssl", "genrsa", "2048"], check=True, capture_output=True, text=True
        ).stdout
        container.write(f"{HOME}/service-account.key", key)
        # The kubelet does not start without one. The kernel's own would be the machine's.
        container.write("/dev/kmsg", "")
        for name, value in SYSCTLS.items():
            container.write(f"{HOME}/sysctl/{name}", f"{value}\n")
            container.run("mount", "--bind", f"{HOME}/sysctl/{name}", f"/proc/sys/{name}")
        subprocess.run(
            ["nsenter", "-t", str(container.leader), "-n",
             "ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"],
            check=True,
        )
        for name, arguments in COMMANDS.items():
            text = UNIT.format(programs=PROGRAMS, name=name, arguments=" ".join(arguments))
            container.write(f"/etc/systemd/system/{name}.service", text)
        self._systemctl("daemon-reload")
        self._systemctl("start", "etcd", "containerd")
        self.start_api_server()
        self.start_kubelet()
        eventually("CSINode is there", lambda: self.get(CSI_NODE))

    def start_api_server(self):
        self._systemctl("start", "kube-apiserver")
        eventually("the API server is ready", self._is_ready)

    def stop_api_server(self):
        self._systemctl("stop", "kube-apiserver")

    def is_watching_since(self, mark):
        return "Plugin Watcher Start" in self._since(LOG, mark)

    # What the cluster has.

    def csi_node(self):
        """The drivers of CSINode by name."""
        found = self.get(CSI_NODE)
        drivers = (found or {"spec": {}})["spec"].get("drivers") or []
        return {
            driver["name"]: {
                "node_id": driver["nodeID"],
                "topology_keys": sorted(driver["topologyKeys"] or []),
                "limit": driver.get("allocatable", {}).get("count", 0),
            }
            for driver in drivers
        }

    def node_ids(self):
        """The annotation that says how each driver calls this node."""
        annotations = self._node()["metadata"].get("annotations", {})
        return json.loads(annotations.get("csi.volume.kubernetes.io/nodeid", "{}"))

    def labels(self):
        return self._node()["metadata"]["labels"]

    def remove_label(self, key):
        self.request("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {key: None}}})

    def _node(self):
        return self.get(f"/api/v1/nodes/{NODE}")

    # What the kubelet did.

    def mark(self):
        """This moment, to ask later what happened since."""
        # The API server writes its line after it has answered.
        before = None
        while before != (before := self._size(AUDIT)):
            time.sleep(0.3)
        return {path: self._size(path) for path in (AUDIT, LOG)}

    def _size(self, path):
        inside = self._container.path(path)
        return inside.stat().st_size if inside.exists() else 0

    def seen_since(self, mark):
        """How often the kubelet did what."""
        writes = self._writes_since(mark)
        return {
            "registrations": sum(self._registrations_since(mark).values()),
            "deregistrations": sum(what == "driver removed" for what in writes),
            "csi_node_writes": sum(what != "node" for what in writes),
            "node_patches": writes.count("node"),
        }

    def _registrations_since(self, mark):
        """The registrations that it began, less those that failed, for each driver."""
        registered = collections.Counter()
        for line in self.lines_since(mark):
            if begun := re.search("Register new plugin with name: (.*) at endpoint: ", line):
                registered[begun[1]] += 1
            elif failed := re.search('/([^/"]*)-reg.sock" failed.*plugin registration failed with err: ', line):
                # One that began before the mark may end after it.
                registered[failed[1]] -= min(registered[failed[1]], 1)
        return registered

    def lines_since(self, mark):
        return self._since(LOG, mark).splitlines()

    def said(self):
        """The end of what it wrote about plugins."""
        words = ("plugin_watcher", "csi_plugin", "operation_generator", "goroutinemap", "nodeinfomanager", "-reg.sock")
        lines = self.lines_since({LOG: 0})
        return [line for line in lines if any(word in line for word in words)][-40:]

    def _writes_since(self, mark):
        """The kubelet's writes in their order: to Node, or to CSINode and what that did there."""
        found = []
        known = 0
        whole = self._since(AUDIT, dict.fromkeys(mark, 0)).encode()
        at = 0
        for line in whole.splitlines(keepends=True):
            at += len(line)
            event = json.loads(line)
            what = event["objectRef"]
            if event["user"]["username"] != f"system:node:{NODE}" or event["responseStatus"]["code"] >= 300:
                continue
            if what["resource"] == "csinodes":
                # The kubelet's every write has the whole object.
                before, known = known, len(event["requestObject"]["spec"].get("drivers") or [])
                written = "driver removed" if known < before else "driver written"
            elif "metadata" in event["requestObject"]:
                written = "node"
            else:
                # A heartbeat, which has nothing but the status.
                continue
            if at > mark[AUDIT]:
                found.append(written)
        return found

    def _since(self, path, mark):
        inside = self._container.path(path)
        if not inside.exists():
            return ""
        with open(inside, "rb") as file:
            file.seek(mark[path])
            # The last line may be half written.
            return file.read().rpartition(b"\n")[0].decode()

    # The API.

    def get(self, path):
        """The object, or nothing where there is none."""
        return self.request("GET", path)

    def request(self, method, path, body=None):
        """A body that is a text is a manifest in YAML."""
        kinds = {"PATCH": "application/merge-patch+json"}
        kind = "application/yaml" if isinstance(body, str) else kinds.get(method, "application/json")
        headers = {"Authorization": "Bearer admin", "Content-Type": kind}
        if kind != "application/yaml" and body is not None:
            body = json.dumps(body)
        connection = http.client.HTTPSConnection("127.0.0.1", PORT)
        connection.sock = _TLS.wrap_socket(self._connect())
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status == 404 and method == "GET":
            return None
        assert answer.status < 300, f"{method} {path}: {answer.status} {text}"
        return json.loads(text)

    def _is_ready(self):
        try:
            return self.get("/api/v1/namespaces/default") is not None
        except (OSError, AssertionError):
            return False

    def _connect(self):
        """A connection made in the container's network, which only one thread of ours enters."""
        result = []

        def connect():
            try:
                with open(f"/proc/{self._container.leader}/ns/net") as namespace:
                    if _LIBC.setns(namespace.fileno(), 0) != 0:
                        raise OSError(ctypes.get_errno(), "setns")
                result.append(socket.create_connection(("127.0.0.1", PORT), timeout=20))
            except OSError as error:
                result.append(error)

        thread = threading.Thread(target=connect)
        thread.start()
        thread.join()
        if isinstance(result[0], OSError):
            raise result[0]
        return result[0]


_LIBC = ctypes.CDLL(None, use_errno=True)
# The API server makes its certificate itself, and nobody else is on this loopback.
_TLS = ssl.create_default_context()
_TLS.check_hostname = False
_TLS.verify_mode = ssl.CERT_NONE
