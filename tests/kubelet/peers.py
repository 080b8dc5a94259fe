"""CSI drivers and their registrars, as processes inside the container (tests/foreign/server.go)."""

import base64
import json

import wire

SERVER = "/opt/peers/server"
HOME = "/srv/peers"

GET_INFO = "/pluginregistration.Registration/GetInfo"
NOTIFY = "/pluginregistration.Registration/NotifyRegistrationStatus"
NODE_GET_INFO = "/csi.v1.Node/NodeGetInfo"
PUBLISH = "/csi.v1.Node/NodePublishVolume"
UNPUBLISH = "/csi.v1.Node/NodeUnpublishVolume"

UNAVAILABLE = 14


class Server:
    """One process: a transient unit that answers as its script says, and writes down who called."""

    def __init__(self, container, unit, socket):
        self.socket = socket
        self._container = container
        self._unit = unit
        self._answers = {}

    def start(self):
        self._write_script()
        self._container.run("mkdir", "-p", self.socket.rpartition("/")[0])
        self._container.run(
            "systemd-run", "--quiet", f"--unit={self._unit}", "--collect", SERVER,
            f"--socket={self.socket}", f"--script={self._file('script')}", f"--record={self._file('record')}",
        )
        self._wait()
        return self

    def stop(self):
        """An orderly end: the socket goes as well."""
        self._container.run("systemctl", "stop", self._unit, check=False)

    def kill(self):
        """As by kill -9: the socket stays, and nobody listens on it."""
        self._container.run("systemctl", "kill", "--signal=KILL", self._unit)
        # Its name is free only when systemd has seen the end.
        self.stop()

    def restart(self):
        self.kill()
        return self.start()

    def answer(self, method, message=b"", **more):
        """What a method is answered with from now on."""
        self._set(method, message, **more)
        self._write_script()

    def _set(self, method, message=b"", **more):
        self._answers[method] = {"Message": base64.b64encode(message).decode()} | more

    def calls(self):
        """What was called so far, in order, with time and request."""
        path = self._container.path(self._file("record"))
        if not path.exists():
            return []
        whole, _, _ = path.read_text().rpartition("\n")
        calls = [json.loads(line) for line in whole.splitlines()]
        for call in calls:
            call["Request"] = base64.b64decode(call["Request"] or "")
        return calls

    def called(self, method):
        return sum(call["Method"] == method for call in self.calls())

    def _file(self, kind):
        return f"{HOME}/{self._unit}.{kind}"

    def _write_script(self):
        # In one step: the server reads it at each call.
        script = self._file("script")
        self._container.write(f"{script}.new", json.dumps(self._answers))
        self._container.path(f"{script}.new").rename(self._container.path(script))

    def _wait(self):
        listens = f"until grep -q -x '.* {self.socket}' /proc/net/unix; do sleep 0.02; done"
        self._container.run("sh", "-c", listens)


class Driver(Server):
    """A driver; whatever of it is changed holds from the next call on."""

    def __init__(self, container, name, socket, node_id="node-1", limit=0, topology=None):
        super().__init__(container, f"driver-{name}", socket)
        self.name = name
        self.be(node_id, limit, topology)

    def be(self, node_id="node-1", limit=0, topology=None):
        """Says this of the node from now on."""
        self.entry = {"node_id": node_id, "topology_keys": sorted(topology or {}), "limit": limit}
        self.topology = topology or {}
        segments = wire.mapping(1, self.topology)
        self._info = wire.string(1, node_id) + wire.number(2, limit)
        if topology:
            self._info += wire.embedded(3, segments)
        self._set("/csi.v1.Identity/GetPluginInfo", wire.string(1, self.name) + wire.string(2, "1.2.3"))
        self._set("/csi.v1.Identity/GetPluginCapabilities")
        self._set("/csi.v1.Identity/Probe")
        self._set("/csi.v1.Node/NodeGetCapabilities")
        self._set(PUBLISH, Mount=4)
        self._set(UNPUBLISH, Unmount=2)
        self.answer(NODE_GET_INFO, self._info)

    def fail_node_get_info(self):
        self.answer(NODE_GET_INFO, Code=UNAVAILABLE, Error="the disk array does not answer")

    def delay_node_get_info(self, seconds):
        self.answer(NODE_GET_INFO, self._info, Delay=seconds)

    def hold_node_get_info(self):
        """Takes the call, and answers when it is released."""
        self._container.write(self._file("held"), "")
        self.answer(NODE_GET_INFO, self._info, Until=self._file("held"))

    def recover(self):
        """Answers as it should, also those that wait."""
        self._container.path(self._file("held")).unlink(missing_ok=True)
        self.answer(NODE_GET_INFO, self._info)


class Plugin(Server):
    """A registrar of the simplest kind, as the kubelet sees it."""

    def __init__(self, container, unit, socket, name, endpoint, versions=("1.0.0",), kind="CSIPlugin"):
        super().__init__(container, unit, socket)
        info = wire.string(1, kind) + wire.string(2, name)
        if endpoint:
            info += wire.string(3, endpoint)
        self.info = info + b"".join(wire.string(4, version) for version in versions)
        self._set(GET_INFO, self.info)
        self.answer(NOTIFY)
