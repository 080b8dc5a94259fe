"""A node with a kubelet, drivers and the registrar as its package installs it."""

import contextlib
import shutil
import time

from container import eventually
from host import CONFIG, DRIVER, Host, KUBELET, PLUGINS, PROGRAM, REGISTRY, RUNTIME, UNIT
from peers import Driver

VERIFY_PROGRAM = "/usr/lib/node-storage-driver-registrar/verify"
PLUGINS_REGISTRY = f"{KUBELET}/plugins_registry"

# The registrar's shortest pause is 3 s, and the kubelet compares once a second: what has not happened by
# then does not follow from what was done.
QUIET = 4.5


def is_silent(status):
    """Whether the registrar says of a driver that it does not respond."""
    return "not responding" in (status["reason"] or "")


class Scene(Host):
    def __init__(self, container, cluster, source, binary):
        super().__init__(container)
        self.cluster = cluster
        # What the kubelet did: for the events of the table, and in plugins_registry.
        self.rows = {}
        self.cases = {}
        self._source = source
        self._binary = binary
        self._drivers = []

    def install(self):
        """What the packages install, from the files that they are made of."""
        self.path(CONFIG).mkdir(parents=True)
        self.path(f"{CONFIG}/config.d").mkdir()
        shutil.copy(self._source / "config/config.toml", self.path(f"{CONFIG}/config.toml"))
        for unit in (self._source / "systemd").glob("*.*"):
            shutil.copy(unit, self.path(f"/etc/systemd/system/{unit.name}"))
        self.install_binary()
        verify = self.path(VERIFY_PROGRAM)
        verify.parent.mkdir(parents=True)
        shutil.copy2(self._binary.with_name("verify"), verify)
        self.systemctl("daemon-reload")

    def install_binary(self, more=b""):
        """As a package manager does it: a new file takes the old one's place."""
        new = self.path(f"{PROGRAM}.new")
        new.write_bytes(self._binary.read_bytes() + more)
        new.chmod(0o755)
        new.rename(self.path(PROGRAM))

    def begin(self, config=None, start=True):
        """Nothing but what is shipped: no driver, no table, no memory of either."""
        # A story that failed may have left them otherwise.
        self.cluster.release_kubelet()
        self.cluster.start_kubelet()
        self.cluster.start_api_server()
        self.systemctl("stop", UNIT)
        for driver in self._drivers:
            driver.stop()
        self._drivers.clear()
        self.run("rm", "-rf", PLUGINS, REGISTRY, RUNTIME)
        # A volume that a failed story has left keeps its driver.
        self.run("find", PLUGINS_REGISTRY, "-mindepth", "1", "-delete")
        for file in self.path(f"{CONFIG}/config.d").glob("*.toml"):
            file.unlink()
        if config:
            self.write(f"{CONFIG}/config.d/50-test.toml", config)
        eventually("no driver is left in CSINode", lambda: not self.cluster.csi_node(), 15)
        for label in self.cluster.labels():
            if label.startswith("topology."):
                self.cluster.remove_label(label)
        self._begun = self.cluster.mark()
        if start:
            self.systemctl("start", UNIT)

    def kill(self):
        """As by kill -9; systemd starts the registrar again."""
        pid = self.pid()
        self.systemctl("kill", "--signal=KILL", UNIT)
        eventually("systemd starts it again", lambda: self.is_active() and self.pid() not in (0, pid))

    def driver(self, name=DRIVER, directory=None, **says):
        """A driver, started."""
        driver = Driver(self.container, name, f"{PLUGINS}/{directory or name}/csi.sock", **says)
        self._drivers.append(driver)
        return driver.start()

    def registered(self, *drivers):
        """These drivers, and nobody else, are what the cluster has, and the registrar agrees."""
        for driver in drivers:
            self.wait_listed(driver)
        names = {driver.name for driver in drivers}
        assert set(self.cluster.csi_node()) == set(self.cluster.node_ids()) == names, self.cluster.csi_node()
        phases = {driver["name"]: driver["phase"] for driver in self.status()["drivers"] if driver["name"]}
        assert phases == dict.fromkeys(names, "registered"), phases
        # A kubelet that finds a link without a socket never looks again, until the link is another one.
        stumbled = self.cluster.stumbled_since(self._begun)
        assert not stumbled, stumbled

    def wait_listed(self, driver):
        """The cluster has the driver as it is, and the registrar says so."""
        eventually(
            f"CSINode has {driver.name} with {driver.entry}",
            lambda: self.cluster.csi_node().get(driver.name) == driver.entry,
        )
        eventually(
            f"{driver.name} is registered",
            lambda: self.status_of(driver.name).get("phase") == "registered", 15,
        )
        assert self.cluster.node_ids()[driver.name] == driver.entry["node_id"], self.cluster.node_ids()
        labels = self.cluster.labels()
        assert driver.topology.items() <= labels.items(), labels

    def lose(self, driver):
        """Ends a registered driver, and waits until the registrar has noticed."""
        driver.stop()
        self.wait_status("the driver is missed", is_silent, driver.name)

    def wait_unlisted(self, name=DRIVER):
        eventually(f"CSINode lets go of {name}", lambda: name not in self.cluster.csi_node(), 15)
        eventually("the annotation too", lambda: name not in self.cluster.node_ids(), 5)

    def status_of(self, name=DRIVER):
        """What `status --json` says of a driver, by the name that it has in the cluster."""
        drivers = (self.status() or {"drivers": []})["drivers"]
        return next((driver for driver in drivers if driver["name"] == name), {})

    def wait_status(self, what, wanted, name=DRIVER, patience=30):
        """Waits until the status of a driver is so, and gives it back."""
        def found():
            status = self.status_of(name)
            return status if status and wanted(status) else None

        return eventually(f"{name}: {what}", found, patience)

    def calm(self):
        """Waits until nothing more follows."""
        mark = self.cluster.mark()
        last, since = None, time.monotonic()
        while time.monotonic() - since < QUIET:
            if last != (last := self.cluster.seen_since(mark)):
                since = time.monotonic()
            time.sleep(0.2)

    def nothing_since(self, mark):
        """Neither the kubelet nor the cluster has noticed anything, and nothing follows."""
        self.calm()
        seen = self.cluster.seen_since(mark)
        assert not any(seen.values()), seen

    @contextlib.contextmanager
    def row(self, words, driver, registrations=0, deregistrations=0, writes=0, is_real_only=False):
        """An event of the table: the driver is registered in the end, and this is what it may cost. Without
        figures, neither the kubelet nor the cluster notices anything. The test kubelet has no API server, and
        does not go through an event that needs one."""
        mark = self.cluster.mark()
        begun = time.monotonic()
        yield
        eventually(
            f"the kubelet registers {driver.name}",
            lambda: self.cluster.seen_since(mark)["registrations"] >= registrations, 90,
        )
        self.wait_listed(driver)
        seconds = time.monotonic() - begun
        self.calm()
        seen = self.cluster.seen_since(mark)
        cost = (seen["registrations"], seen["deregistrations"], seen["csi_node_writes"] + seen["node_patches"])
        self.rows[words] = {"check": self.check, "cost": cost, "seconds": seconds, "is_real_only": is_real_only}
        assert cost == (registrations, deregistrations, writes), f"{cost}: {seen}"
        self.wait_listed(driver)

    def note_case(self, words, outcome):
        self.cases[words] = {"check": self.check, "outcome": outcome}

    def report(self):
        super().report()
        print("".join(f"    {line[:300]}\n" for line in self.cluster.said()), end="", flush=True)
