"""A node inside the container: a kubelet, drivers, and the installed registrar."""

import json
import shutil
import time

from container import eventually

UNIT = "node-storage-driver-registrar.service"
PROGRAM = "/usr/bin/node-storage-driver-registrar"
CONFIG = "/etc/node-storage-driver-registrar"
RUNTIME = "/run/node-storage-driver-registrar"
PLUGINS = "/vdata/storage/plugins"
REGISTRY = "/vdata/storage/plugins_registry"
KUBELET = "/var/lib/kubelet"
LEDGER = "/var/log/test-kubelet.jsonl"
DRIVER = "local.csi.paas.cucloud"

# The kubelet compares once a second; what it has not noticed after two rounds it never will.
UNNOTICED = 2.5

KUBELET_UNIT = f"""\
[Unit]
Description=The test kubelet
[Service]
ExecStartPre=/bin/sh -c 'test -p /run/test-kubelet || mkfifo /run/test-kubelet'
ExecStart=/bin/sh -c 'exec /opt/bed/test-kubelet {KUBELET} 1.36 0<>/run/test-kubelet >>{LEDGER}'
[Install]
WantedBy=multi-user.target
"""

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


class Node:
    def __init__(self, container, programs, deb, next_deb, rpm, next_rpm):
        self.container = container
        self.run = container.run
        self.path = container.path
        self.write = container.write
        self._programs = programs
        self._packages = {"deb": deb, "next_deb": next_deb, "rpm": rpm, "next_rpm": next_rpm}

    def set_up(self):
        """Kubelet and drivers, ready to be started."""
        self.path("/opt/bed").mkdir(parents=True)
        for program in ("test-kubelet", "fake-driver"):
            shutil.copy2(self._programs / program, self.path("/opt/bed"))
        for name, package in self._packages.items():
            inside = f"/opt/packages/{name}/{package.name}"
            self.path(inside).parent.mkdir(parents=True)
            shutil.copy2(package, self.path(inside))
            setattr(self, name, inside)
        self.write("/etc/systemd/system/kubelet.service", KUBELET_UNIT)
        self.write("/etc/systemd/system/driver@.service", DRIVER_UNIT)
        self.path(KUBELET).mkdir(parents=True, exist_ok=True)
        self.systemctl("daemon-reload")
        self.systemctl("enable", "--now", "kubelet")

    def systemctl(self, *arguments, check=True):
        return self.run("systemctl", *arguments, check=check)

    def show(self, *properties, unit=UNIT):
        """Properties of a unit, as a dictionary."""
        lines = self.systemctl("show", unit, "-p", ",".join(properties)).stdout.splitlines()
        return dict(line.split("=", 1) for line in lines)

    def is_active(self):
        return self.show("ActiveState")["ActiveState"] == "active"

    def pid(self):
        return int(self.show("MainPID")["MainPID"])

    def status_line(self):
        return self.show("StatusText")["StatusText"]

    def installed_version(self):
        return self.run(
            "dpkg-query", "-W", "-f", "${Version}", "node-storage-driver-registrar"
        ).stdout

    def configure(self, text, name="50-test.toml"):
        """One file in config.d; None takes it away."""
        if text is None:
            self.path(f"{CONFIG}/config.d/{name}").unlink(missing_ok=True)
        else:
            # A driver that loses its table would be found by itself, which is another check.
            tables_only = "[discovery]\nenabled = false\n" if name == "50-test.toml" else ""
            self.write(f"{CONFIG}/config.d/{name}", text + tables_only)

    def drop_in(self, text, name="50-test.conf"):
        """A drop-in of the unit; None takes it away."""
        inside = f"/etc/systemd/system/{UNIT}.d/{name}"
        if text is None:
            self.path(inside).unlink(missing_ok=True)
        else:
            self.write(inside, text)
        self.systemctl("daemon-reload")

    def status(self):
        """What `status --json` says, or None without a daemon."""
        out = self.run(PROGRAM, "status", "--json", check=False).stdout
        return json.loads(out) if out else None

    def phase(self, driver=DRIVER):
        drivers = (self.status() or {"drivers": []})["drivers"]
        return next((one["phase"] for one in drivers if one["id"] == driver), None)

    def wait_phase(self, phase, driver=DRIVER):
        eventually(f"{driver} is {phase}", lambda: self.phase(driver) == phase)

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

    def events(self):
        """The kubelet's events since it was first started, as (name, fields)."""
        path = self.path(LEDGER)
        if not path.exists():
            return []
        found = []
        # The kubelet may be in the middle of a line.
        whole, _, _ = path.read_text().rpartition("\n")
        for line in whole.splitlines():
            record = json.loads(line).get("Entry", {}).get("Record")
            if record is None:
                continue
            event = record["event"]
            found.append((event, {}) if isinstance(event, str) else next(iter(event.items())))
        return found

    def registered(self):
        """The drivers that the kubelet has now."""
        drivers = set()
        for event, fields in self.events():
            if event == "Started":
                drivers.clear()
            elif event == "Register":
                drivers.add(fields["name"])
            elif event == "Deregister":
                drivers.discard(fields["name"])
        return drivers

    def wait_registered(self, driver=DRIVER):
        eventually(f"the kubelet has {driver}", lambda: driver in self.registered())

    def wait_deregistered(self, driver=DRIVER):
        eventually(f"the kubelet lets go of {driver}", lambda: driver not in self.registered(), 15)

    def unnoticed(self, action):
        """Does something that the kubelet must not notice."""
        before = self.path(LEDGER).read_bytes()
        action()
        time.sleep(UNNOTICED)
        after = self.path(LEDGER).read_bytes()
        assert after == before, f"the kubelet noticed: {after[len(before):].decode()}"

    def calm(self):
        """Waits until the kubelet has gone a whole round without anything to do."""
        last = None
        while last != (last := self.path(LEDGER).stat().st_size):
            time.sleep(1.2)

    def tell_kubelet(self, command):
        with open(self.path("/run/test-kubelet"), "w") as fifo:
            fifo.write(json.dumps(command) + "\n")

    # What is on disk.

    def link(self, driver=DRIVER, directory=f"{KUBELET}/plugins_registry"):
        return self.path(f"{directory}/{driver}-reg.sock")

    def socket(self, driver=DRIVER, directory=REGISTRY):
        return self.path(f"{directory}/{driver}-reg.sock")

    def journal(self, *arguments):
        self.run("journalctl", "--sync", check=False)
        return self.run("journalctl", "-q", "-o", "cat", "-u", UNIT, *arguments).stdout

    def entries(self, *matches):
        """Journal entries with all their fields."""
        self.run("journalctl", "--sync", check=False)
        out = self.run("journalctl", "-q", "-o", "json", "-b", *matches).stdout
        return [json.loads(line) for line in out.splitlines()]
