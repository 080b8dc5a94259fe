"""A node inside the container: a kubelet, drivers, and the installed registrar."""

import shutil
import time

from container import eventually
from host import DRIVER, Host, KUBELET, PLUGINS, UNIT
from programs import install
from test_kubelet import TestKubelet

# The kubelet compares once a second; what it has not noticed after two rounds it never will.
UNNOTICED = 2.5

# Before the registrar, so that it ends after it: at a shutdown the link is not in the way of a
# driver that has gone.
DRIVER_UNIT = f"""\
[Unit]
Before={UNIT}
[Service]
ExecStart=/opt/bed/fake-driver {PLUGINS}/%i/csi.sock %i
[Install]
WantedBy=multi-user.target
"""


class Node(Host):
    def __init__(self, container, programs, packages):
        """The packages have names, under which they are attributes: paths inside."""
        super().__init__(container)
        self.kubelet = TestKubelet(container, "1.36")
        self.events = self.kubelet.events
        self.registered = self.kubelet.registered
        self.tell_kubelet = self.kubelet.tell
        self.programs = programs
        self._packages = packages

    def set_up(self):
        """Kubelet and drivers, ready to be started."""
        self.kubelet.set_up(self.programs)
        install(self.container, self.programs / "fake-driver")
        for name, package in self._packages.items():
            inside = f"/opt/packages/{name}/{package.name}"
            self.path(inside).parent.mkdir(parents=True)
            shutil.copy2(package, self.path(inside))
            setattr(self, name, inside)
        self.write("/etc/systemd/system/driver@.service", DRIVER_UNIT)
        self.path(KUBELET).mkdir(parents=True, exist_ok=True)
        self.systemctl("daemon-reload")
        self.systemctl("enable", "--now", "kubelet")

    def installed_version(self):
        return self.run(
            "dpkg-query", "-W", "-f", "${Version}", "node-storage-driver-registrar"
        ).stdout

    def settle(self):
        """One driver, registered, and nothing special: where most checks begin."""
        self.systemctl("start", "kubelet", f"driver@{DRIVER}")
        self.drop_in(None)
        self.configure(f'[drivers."{DRIVER}"]\n')
        self.systemctl("reset-failed", UNIT, check=False)
        self.systemctl("restart", UNIT)
        self.wait_phase("registered")
        eventually("the kubelet has the driver", lambda: self.registered() == {DRIVER})
        self.calm()

    # What the kubelet saw and did.

    def wait_registered(self, driver=DRIVER):
        eventually(f"the kubelet has {driver}", lambda: driver in self.registered())

    def wait_deregistered(self, driver=DRIVER):
        eventually(f"the kubelet lets go of {driver}", lambda: driver not in self.registered(), 15)

    def unnoticed(self, action):
        """Does something that the kubelet must not notice."""
        before = self.kubelet.ledger.read_bytes()
        action()
        time.sleep(UNNOTICED)
        after = self.kubelet.ledger.read_bytes()
        assert after == before, f"the kubelet noticed: {after[len(before):].decode()}"

    def calm(self):
        """Waits until the kubelet has gone a whole round without anything to do."""
        last = None
        while last != (last := self.kubelet.ledger.stat().st_size):
            time.sleep(1.2)

    def up_before_the_kubelet(self):
        """After a boot: the kubelet began when the registrar was up."""
        up = int(self.show("ActiveEnterTimestampMonotonic")["ActiveEnterTimestampMonotonic"])
        began = self.show("ExecMainStartTimestampMonotonic", unit="kubelet.service")
        began = int(began["ExecMainStartTimestampMonotonic"])
        assert 0 < up <= began, f"the registrar was up at {up} us, the kubelet began at {began} us"
