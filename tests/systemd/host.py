"""The installed registrar inside the container, as an operator handles it."""

import json

from container import eventually

UNIT = "node-storage-driver-registrar.service"
VERIFY = "node-storage-driver-registrar-verify.service"
TIMER = "node-storage-driver-registrar-verify.timer"
PROGRAM = "/usr/bin/node-storage-driver-registrar"
CONFIG = "/etc/node-storage-driver-registrar"
RUNTIME = "/run/node-storage-driver-registrar"
PLUGINS = "/vdata/storage/plugins"
REGISTRY = "/vdata/storage/plugins_registry"
KUBELET = "/var/lib/kubelet"
DRIVER = "local.csi.paas.cucloud"
AGED = f"""[Service]
ExecStartPre=+/bin/sed -i 's/"since": *"20[0-9][0-9]/"since":"2020/g' {RUNTIME}/state.json
"""


class Host:
    def __init__(self, container):
        self.container = container
        self.run = container.run
        self.path = container.path
        self.write = container.write

    def systemctl(self, *arguments, check=True):
        return self.run("systemctl", *arguments, check=check)

    def show(self, *properties, unit=UNIT):
        """Properties of a unit, as a dictionary."""
        lines = self.systemctl("show", unit, "-p", ",".join(properties)).stdout.splitlines()
        return dict(line.split("=", 1) for line in lines)

    def systemd(self):
        """The release of systemd, such as 252."""
        return int(self.systemctl("--version").stdout.split()[1])

    def now(self):
        """The time, as journalctl --since takes it."""
        return self.run("date", "+%Y-%m-%d %H:%M:%S.%6N").stdout.strip()

    def is_active(self):
        return self.show("ActiveState")["ActiveState"] == "active"

    def pid(self):
        return int(self.show("MainPID")["MainPID"])

    def status_line(self):
        return self.show("StatusText")["StatusText"]

    def configure(self, text, name="50-test.toml"):
        """One file in config.d; None takes it away."""
        if text is None:
            self.path(f"{CONFIG}/config.d/{name}").unlink(missing_ok=True)
        else:
            # A driver that loses its table would be found by itself, which is another check.
            tables_only = "[discovery]\nenabled = false\n" if name == "50-test.toml" else ""
            self.write(f"{CONFIG}/config.d/{name}", text + tables_only)

    def drop_in(self, text, name="50-test.conf", unit=UNIT):
        """A drop-in of a unit; None takes it away."""
        inside = f"/etc/systemd/system/{unit}.d/{name}"
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

    def age_registrations(self):
        """Makes every registration years older: verify does not repair one of the last minute."""
        self.drop_in(AGED)
        self.systemctl("restart", UNIT)
        self.drop_in(None)
        for driver in self.status()["drivers"]:
            assert driver["phase"] != "registered" or driver["since"].startswith("2020-"), driver

    # What is on disk.

    def link(self, driver=DRIVER, directory=f"{KUBELET}/plugins_registry"):
        return self.path(f"{directory}/{driver}-reg.sock")

    def socket(self, driver=DRIVER, directory=REGISTRY):
        return self.path(f"{directory}/{driver}-reg.sock")

    def journal(self, *arguments, unit=UNIT):
        self.run("journalctl", "--sync", check=False)
        return self.run("journalctl", "-q", "-o", "cat", "-u", unit, *arguments).stdout

    def entries(self, *matches):
        """Journal entries with all their fields."""
        self.run("journalctl", "--sync", check=False)
        out = self.run("journalctl", "-q", "-o", "json", "-b", *matches).stdout
        return [json.loads(line) for line in out.splitlines()]

    def report(self):
        """For whoever reads of a failure: the end of what was said."""
        said = self.run("journalctl", "-q", "-o", "short-precise", "-u", UNIT, "-n", "40", check=False).stdout
        print("".join(f"    {line}\n" for line in said.splitlines()), end="", flush=True)
