"""A cluster of one node inside the container: etcd, containerd, an API server and a kubelet."""

import collections
import contextlib
import json
import re
import subprocess
import time

import credentials
from api_client import ApiClient, PORT
from container import eventually
from host import KUBELET
from kubelet_unit import KubeletUnit

NODE = "node-1"
NODE_PATH = f"/api/v1/nodes/{NODE}"
CSI_NODE = f"/apis/storage.k8s.io/v1/csinodes/{NODE}"
AGENT = "node-storage-driver-registrar/"
KUBELET_USER = f"system:node:{NODE}"
TOKEN = "kubelet-c1d9f03a"
NODE_IDS = "csi.volume.kubernetes.io/nodeid"
API_SERVER = "kube-apiserver"
# The kubelet wants an address that is not loopback's; this one is for documentation (RFC 5737).
ADDRESS = "192.0.2.1"
PROGRAMS = "/opt/kubernetes"
HOME = "/srv/cluster"
CONTAINERD = "/run/containerd/containerd.sock"
KUBECONFIG = f"{HOME}/kubeconfig"
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
    API_SERVER: [
        "--etcd-servers=http://127.0.0.1:2379",
        "--bind-address=127.0.0.1",
        f"--secure-port={PORT}",
        f"--advertise-address={ADDRESS}",
        "--service-cluster-ip-range=198.51.100.0/24",
        f"--cert-dir={HOME}/certificates",
        f"--client-ca-file={HOME}/client-ca.pem",
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
        f"--kubeconfig={KUBECONFIG}",
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

# The API server waits for up to a minute for its open watches to end.
UNIT = """\
[Service]
TimeoutStopSec=15s
Environment=PATH={programs}:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart={programs}/{name} {arguments}
StandardOutput=append:/var/log/{name}.log
StandardError=inherit
KillMode=process
"""

FILES = {
    "containerd.toml": f"""\
version = 2
root = "{HOME}/containerd"
state = "/run/containerd"
[grpc]
address = "{CONTAINERD}"
""",
    # Every write to the two objects that a registration shows in, and every question of verify.
    "audit.yaml": f"""\
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
- level: Metadata
  verbs: [get, list, watch, create]
  users: ["{KUBELET_USER}"]
  resources:
  - group: storage.k8s.io
    resources: [csinodes, csidrivers]
  - group: authentication.k8s.io
    resources: [selfsubjectreviews]
  - group: ""
    resources: [nodes]
- level: None
""",
}

# As kubeadm and the kubelet's own rotation write it, or with a token.
USERS = {
    "certificate": f"client-certificate: {credentials.CURRENT}, client-key: {credentials.CURRENT}",
    "token": f"token: {TOKEN}",
}


class Cluster(KubeletUnit):
    """The API objects of the node, and what the kubelet did to them."""

    name = "1.20.2"

    def __init__(self, container):
        super().__init__(container)
        client = ApiClient(container)
        self.get = client.get
        self.request = client.request

    def set_up(self):
        """Starts all four, and returns when the kubelet looks at plugins_registry."""
        container = self._container
        container.run("mkdir", "-p", HOME)
        for name, text in FILES.items():
            container.write(f"{HOME}/{name}", text)
        self._authority = credentials.Authority()
        container.write(f"{HOME}/client-ca.pem", self._authority.certificate)
        self.rotate_certificate("kubelet-client-1.pem")
        self.write_kubeconfig("certificate")
        self.write_tokens()
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
        self._systemctl("start", API_SERVER)
        eventually("the API server is ready", self._is_ready)

    def _is_ready(self):
        try:
            return self.get("/api/v1/namespaces/default") is not None
        except (OSError, AssertionError):
            return False

    def stop_api_server(self):
        self._systemctl("stop", API_SERVER)

    def kill_api_server(self):
        """As by kill -9."""
        self._signal("KILL", API_SERVER)
        eventually("the API server has ended", lambda: not self._is_active(API_SERVER))

    @contextlib.contextmanager
    def held_api_server(self):
        """It takes connections, as the kernel does that for it, and answers nothing."""
        self._signal("STOP", API_SERVER)
        try:
            yield
        finally:
            self._signal("CONT", API_SERVER)

    # Who the kubelet is to the API server.

    def write_kubeconfig(self, identity, authority=f"{HOME}/certificates/apiserver.crt"):
        """The kubelet's, with one of its identities. A kubelet that runs has read it."""
        text = f"""\
apiVersion: v1
kind: Config
clusters: [{{name: here, cluster: {{server: "https://127.0.0.1:{PORT}", certificate-authority: {authority}}}}}]
users: [{{name: kubelet, user: {{{USERS[identity]}}}}}]
contexts: [{{name: here, context: {{cluster: here, user: kubelet}}}}]
current-context: here
"""
        self._container.write(KUBECONFIG, text, mode=0o600)

    def rotate_certificate(self, name, authority=None):
        """The kubelet gets another certificate: of the authority that the API server knows, or of another one."""
        certificate = (authority or self._authority).client(KUBELET_USER, "system:nodes")
        credentials.rotate(self._container, certificate, name)

    def write_tokens(self, kubelet=TOKEN):
        """The API server reads them when it starts."""
        text = f'admin,admin,1,"system:masters"\n{kubelet},{KUBELET_USER},2,"system:nodes"\n'
        self._container.write(f"{HOME}/tokens.csv", text)

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
        annotations = self.node()["metadata"].get("annotations", {})
        return json.loads(annotations.get(NODE_IDS, "{}"))

    def labels(self):
        return self.node()["metadata"]["labels"]

    def remove_label(self, key):
        self.set_label(key, None)

    def node(self):
        return self.get(NODE_PATH)

    # What somebody does to it behind the kubelet's back.

    def set_label(self, key, value):
        self.request("PATCH", NODE_PATH, {"metadata": {"labels": {key: value}}})

    def annotate_node_ids(self, ids):
        """The annotation that says how each driver calls this node; None takes it off."""
        text = None if ids is None else json.dumps(ids)
        self.request("PATCH", NODE_PATH, {"metadata": {"annotations": {NODE_IDS: text}}})

    def set_machine(self, **ids):
        """What the Node says of its machine; a kubelet that runs corrects it."""
        self.request("PATCH", f"{NODE_PATH}/status", {"status": {"nodeInfo": ids}})

    def unlist(self, name):
        """Takes a driver out of CSINode, and returns what CSINode had of it."""
        found = self.get(CSI_NODE)
        drivers = found["spec"]["drivers"]
        listed = next(driver for driver in drivers if driver["name"] == name)
        drivers.remove(listed)
        self.request("PUT", CSI_NODE, found)
        return listed

    def list_driver(self, listed):
        """Puts a driver into CSINode. The API server refuses a change of one that is listed."""
        found = self.get(CSI_NODE)
        found["spec"]["drivers"] = (found["spec"].get("drivers") or []) + [listed]
        self.request("PUT", CSI_NODE, found)

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
        for event, is_since in self._audited(mark):
            if event["level"] != "Request" or event["responseStatus"]["code"] >= 300:
                continue
            written = event.get("requestObject", {})
            is_csi_node = event["objectRef"]["resource"] == "csinodes"
            if is_csi_node:
                # Every write has the whole object, also those that are not the kubelet's; a deletion has none.
                before, known = known, len(written.get("spec", {}).get("drivers") or [])
            if not is_since or event["user"]["username"] != KUBELET_USER:
                continue
            if is_csi_node:
                found.append("driver removed" if known < before else "driver written")
            elif "metadata" in written:
                found.append("node")
            # Or else it is a heartbeat, which has nothing but the status.
        return found

    def asked_since(self, mark):
        """The questions of verify, each with the code of its answer."""
        return [
            f"{event['verb']} {event['objectRef']['resource']}: {event['responseStatus']['code']}"
            for event, is_since in self._audited(mark)
            # The kubelet has the same identity.
            if is_since and event["level"] == "Metadata" and event["userAgent"].startswith(AGENT)
        ]

    def _audited(self, mark):
        """Every line of the audit log, each with whether it came after the mark."""
        at = 0
        for line in self._since(AUDIT, dict.fromkeys(mark, 0)).encode().splitlines(keepends=True):
            at += len(line)
            yield json.loads(line), at > mark[AUDIT]

    def _since(self, path, mark):
        inside = self._container.path(path)
        if not inside.exists():
            return ""
        with open(inside, "rb") as file:
            file.seek(mark[path])
            # The last line may be half written.
            return file.read().rpartition(b"\n")[0].decode()
