"""The test kubelet inside the container, as kubelet.service."""

import json

from host import KUBELET
from programs import install

LEDGER = "/var/log/test-kubelet.jsonl"
OBJECTS = "/var/lib/test-kubelet.json"

UNIT = f"""\
[Unit]
Description=The test kubelet
[Service]
ExecStartPre=/bin/sh -c 'test -p /run/test-kubelet || mkfifo /run/test-kubelet'
ExecStart=/bin/sh -c 'exec /opt/bed/test-kubelet {KUBELET} RELEASE {OBJECTS} 0<>/run/test-kubelet >>{LEDGER}'
[Install]
WantedBy=multi-user.target
"""


class TestKubelet:
    def __init__(self, container, release):
        self._container = container
        self._release = release

    def set_up(self, programs):
        """Ready to be started."""
        install(self._container, programs / "test-kubelet")
        unit = UNIT.replace("RELEASE", self._release)
        self._container.write("/etc/systemd/system/kubelet.service", unit)

    @property
    def ledger(self):
        """The file with everything that it saw and did."""
        return self._container.path(LEDGER)

    def entries(self):
        """The lines of the ledger: records, and the API objects after each change."""
        if not self.ledger.exists():
            return []
        # The kubelet may be in the middle of a line.
        whole, _, _ = self.ledger.read_text().rpartition("\n")
        entries = (json.loads(line).get("Entry") for line in whole.splitlines())
        return [entry for entry in entries if entry is not None]

    def objects(self):
        """The API objects as they are now."""
        path = self._container.path(OBJECTS)
        return json.loads(path.read_text()) if path.exists() else {"csi_node": {}, "node_ids": {}, "labels": {}}

    def events(self):
        """What happened since it was first started, as (name, fields)."""
        found = (entry["Record"]["event"] for entry in self.entries() if "Record" in entry)
        return [(event, {}) if isinstance(event, str) else next(iter(event.items())) for event in found]

    def registered(self):
        """The drivers that it has now."""
        drivers = set()
        for event, fields in self.events():
            if event == "Started":
                drivers.clear()
            elif event == "Register":
                drivers.add(fields["name"])
            elif event == "Deregister":
                drivers.discard(fields["name"])
        return drivers

    def tell(self, command):
        with open(self._container.path("/run/test-kubelet"), "w") as fifo:
            fifo.write(json.dumps(command) + "\n")
