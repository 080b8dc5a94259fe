"""What a kubelet does with plugins_registry, without any registrar of ours: calls and outcomes.

The real kubelet and the test kubelet go through the same cases, and compare.py demands the same of both. A case
has names of its own, so that several happen at once.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import wire
from check import check
from container import eventually
from peers import Driver, GET_INFO, NODE_GET_INFO, NOTIFY, Plugin
from scene import PLUGINS_REGISTRY

# Longer than the second pause of a kubelet that tries again (0.5 s, 1 s), and than two of its rounds.
SETTLES = 6
AGAIN = ", again and again"
HOME = "/srv/watched"
ZONE = "topology.watched.test/zone"

_cases = []
_at_start = []


def case(words):
    """A function makes the case; what the kubelet does from then on is the outcome."""
    return lambda function: _cases.append((words, function))


def at_start(words):
    """The same for what is there when the kubelet starts."""
    return lambda function: _at_start.append((f"at the kubelet's start: {words}", function))


class Case:
    """A driver and its registration socket, for one case."""

    def __init__(self, scene, number):
        self.name = f"case{number}.watched.test"
        self._container = scene.container
        self._cluster = scene.cluster
        self._servers = []
        self._before = 0
        self.path = lambda name: scene.path(f"{PLUGINS_REGISTRY}/{name}")
        self.link = self.path(f"{self.name}-reg.sock")
        self.socket = f"{HOME}/{self.name}/reg.sock"

    def driver(self, **says):
        return self._start(Driver(self._container, self.name, f"{HOME}/{self.name}/csi.sock", **says))

    def plugin(self, socket=None, endpoint=None, **says):
        socket = socket or self.socket
        endpoint = f"{HOME}/{self.name}/csi.sock" if endpoint is None else endpoint
        unit = f"plugin-{self.name}-{len(self._servers)}"
        return self._start(Plugin(self._container, unit, socket, self.name, endpoint, **says))

    def both(self, **says):
        """A driver that works, and a registration socket for it that works."""
        self.driver(**says)
        return self.plugin()

    def registered(self, **says):
        """The same, linked, and registered by the kubelet."""
        plugin = self.both(**says)
        self.link.symlink_to(self.socket)
        self.wait_registered()
        self.begin()
        return plugin

    def wait_registered(self):
        eventually(f"{self.name} is registered", lambda: self.told() and self.is_listed())

    def told(self):
        """Whether the kubelet has said yes since the case began."""
        return "Notify(true)" in self.calls()[self._before :]

    def begin(self):
        """What comes from now on is the case."""
        self._before = len(self.calls())

    def rename_over(self):
        """Another link takes the link's place."""
        new = self.path(f".{self.name}")
        new.symlink_to(self.socket)
        new.rename(self.link)

    def stop(self):
        for server in self._servers:
            server.stop()
        if not self.link.is_symlink():
            # One that was renamed away is still registered, until the kubelet sees its name go.
            self.link.symlink_to(self.socket)
        for path in (self.link, self.link.with_name(f"second-{self.link.name}"), self.path(self.name)):
            if path.is_dir() and not path.is_symlink():
                for inner in path.iterdir():
                    inner.unlink()
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
        eventually(f"{self.name} is gone", lambda: not self.is_listed())

    def is_listed(self):
        return self.name in self._cluster.csi_node()

    def is_over(self):
        """Not in the middle of a registration."""
        calls = self.calls()[self._before :]
        return not calls or calls[-1].startswith("Notify") or _told(calls).endswith(AGAIN)

    def calls(self):
        """The kubelet's calls to either, in their order."""
        calls = [call for server in self._servers for call in server.calls()]
        return [_words(call) for call in sorted(calls, key=lambda call: call["Time"])]

    def outcome(self):
        """What the kubelet did, and what came of it."""
        time.sleep(SETTLES)
        eventually(f"the kubelet is done with {self.name}", self.is_over)
        listed = "listed" if self.is_listed() else "not listed"
        return f"{_told(self.calls()[self._before:])}: {listed}"

    def _start(self, server):
        self._servers.append(server)
        return server.start()


def _words(call):
    """A call in a word."""
    names = {GET_INFO: "GetInfo", NODE_GET_INFO: "NodeGetInfo"}
    if call["Method"] != NOTIFY:
        return names.get(call["Method"], call["Method"])
    # RegistrationStatus: plugin_registered is field 1, and left out when false.
    return "Notify(true)" if call["Request"][:2] == b"\x08\x01" else "Notify(false)"


def _told(calls):
    """A sequence that goes on and on is told once."""
    if not calls:
        return "nothing"
    for period in range(1, len(calls)):
        again = calls[:period] * (len(calls) // period + 1)
        if again[: len(calls)] == calls:
            return ", ".join(calls[:period]) + AGAIN
    return ", ".join(calls)


@case("a link to a socket that listens")
def _(it):
    it.both()
    it.link.symlink_to(it.socket)


@case("a socket, without a link")
def _(it):
    it.driver()
    it.plugin(socket=f"{PLUGINS_REGISTRY}/{it.link.name}")


@case("a link to nothing; then the socket comes")
def _(it):
    it.driver()
    it.link.symlink_to(it.socket)
    time.sleep(2)
    it.plugin()


@case("a link to a socket that nobody listens on; then somebody does")
def _(it):
    plugin = it.both()
    plugin.kill()
    it.link.symlink_to(it.socket)
    time.sleep(2)
    plugin.start()


@case("a link whose name begins with a dot")
def _(it):
    it.both()
    it.link = it.path(f".{it.link.name}")
    it.link.symlink_to(it.socket)


@case("a link to a directory with a socket in it")
def _(it):
    it.both()
    it.path(it.name).symlink_to(f"{HOME}/{it.name}")


@case("a directory with a link to a socket in it")
def _(it):
    it.both()
    it.path(it.name).mkdir()
    time.sleep(2)
    (it.path(it.name) / "reg.sock").symlink_to(it.socket)


@case("registered; then the socket is bound anew")
def _(it):
    it.registered().restart()


@case("registered; then another link is renamed over the link")
def _(it):
    it.registered()
    it.rename_over()


@case("registered; then the link is removed and made again")
def _(it):
    it.registered()
    it.link.unlink()
    it.link.symlink_to(it.socket)


@case("registered; then the link is touched")
def _(it):
    it.registered()
    it._container.run("touch", "--no-dereference", f"{PLUGINS_REGISTRY}/{it.link.name}")


@case("registered; then the link is removed")
def _(it):
    it.registered()
    it.link.unlink()


@case("registered; then the link is renamed out of the directory")
def _(it):
    it.registered()
    it.link.rename(it.path(f"../{it.link.name}"))


@case("registered; then a second link for the same name")
def _(it):
    it.registered()
    it.link.with_name(f"second-{it.link.name}").symlink_to(it.socket)


@case("registered; then a second link that says a higher version")
def _(it):
    it.registered()
    second = f"{HOME}/{it.name}/second.sock"
    it.plugin(socket=second, versions=["1.1.0"])
    it.link.with_name(f"second-{it.link.name}").symlink_to(second)


@case("registered; then a second link is refused, and removed")
def _(it):
    it.registered()
    it.link.with_name(f"second-{it.link.name}").symlink_to(it.socket)
    time.sleep(2)
    it.link.with_name(f"second-{it.link.name}").unlink()
    time.sleep(2)
    it.begin()


@case("GetInfo fails")
def _(it):
    it.both().answer(GET_INFO, Code=14, Error="not now")
    it.link.symlink_to(it.socket)


@case("GetInfo takes 1.5 s")
def _(it):
    plugin = it.both()
    plugin.answer(GET_INFO, plugin.info, Delay=1.5)
    it.link.symlink_to(it.socket)


@case("GetInfo says a version that the kubelet does not know")
def _(it):
    it.driver()
    it.plugin(versions=["7.0.0"])
    it.link.symlink_to(it.socket)


@case("GetInfo says no version")
def _(it):
    it.driver()
    it.plugin(versions=[])
    it.link.symlink_to(it.socket)


@case("GetInfo says a type that the kubelet does not know")
def _(it):
    it.driver()
    it.plugin(kind="Unknown")
    it.link.symlink_to(it.socket)


@case("GetInfo says no endpoint; the driver is on the registration socket")
def _(it):
    plugin = it.plugin(endpoint="")
    plugin.answer(NODE_GET_INFO, wire.string(1, "node-1"))
    it.link.symlink_to(it.socket)


@case("NodeGetInfo fails; then it works")
def _(it):
    driver = it.driver()
    driver.fail_node_get_info()
    it.plugin()
    it.link.symlink_to(it.socket)
    time.sleep(3)
    driver.recover()


@case("NodeGetInfo says no node id")
def _(it):
    it.both(node_id="")
    it.link.symlink_to(it.socket)


@case("NodeGetInfo takes 3 s")
def _(it):
    it.driver().delay_node_get_info(3)
    it.plugin()
    it.link.symlink_to(it.socket)


@case("the driver does not listen")
def _(it):
    it.driver().stop()
    it.plugin()
    it.link.symlink_to(it.socket)


@case("a topology value that is not the label's")
def _(it):
    it.registered(topology={ZONE: "z1"})
    it.link.unlink()
    it._servers[0].be(topology={ZONE: "z2"})
    time.sleep(3)
    it.begin()
    it.link.symlink_to(it.socket)


@case("Notify(true) is answered with an error")
def _(it):
    it.both().answer(NOTIFY, Code=13, Error="no")
    it.link.symlink_to(it.socket)


@case("Notify(true) is not answered")
def _(it):
    it.both().answer(NOTIFY, Delay=60)
    it.link.symlink_to(it.socket)


@at_start("a link to a socket that listens")
def _(it):
    it.registered()


@at_start("a socket, without a link")
def _(it):
    it.driver()
    it.plugin(socket=f"{PLUGINS_REGISTRY}/{it.link.name}")
    it.wait_registered()


@at_start("a directory with a socket in it")
def _(it):
    it.driver()
    it.plugin(socket=f"{PLUGINS_REGISTRY}/{it.name}/reg.sock")
    it.wait_registered()


@at_start("a link to a directory with a socket in it")
def _(it):
    it.both()
    it.path(it.name).symlink_to(f"{HOME}/{it.name}")


@check
def plugins_registry_is_watched(scene):
    scene.begin(start=False)
    begun = [(words, function, Case(scene, number)) for number, (words, function) in enumerate(_cases)]

    def tell(words, function, it):
        function(it)
        scene.note_case(words, it.outcome())
        it.stop()

    # In their order, whichever comes to its end first.
    for words, _ in _cases:
        scene.note_case(words, "not told to the end: not listed")
    # Some at a time: where many drivers come and go within a second, the kubelet's own writes to CSINode
    # get in each other's way, and it gives some of them up.
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda each: tell(*each), begun))


@check
def what_is_in_plugins_registry_when_the_kubelet_starts_is_found(scene):
    scene.begin(start=False)
    begun = [(words, function, Case(scene, f"-start{number}")) for number, (words, function) in enumerate(_at_start)]
    for _, function, it in begun:
        function(it)
        it.begin()
    scene.cluster.stop_kubelet()
    scene.cluster.start_kubelet()
    with ThreadPoolExecutor(len(begun)) as pool:
        outcomes = list(pool.map(lambda each: each[2].outcome(), begun))
    for (words, _, it), outcome in zip(begun, outcomes):
        scene.note_case(words, outcome)
        if it.is_listed() and not it.told():
            # The kubelet does not know it, and would leave it in CSINode for ever.
            it.begin()
            it.rename_over()
            it.wait_registered()
            scene.note_case(f"{words}; then another link is renamed over the link", it.outcome())
        it.stop()
