"""A rollout with Ansible: the playbook of docs/fleet.md, over ssh, against the booted node."""

import re
import tempfile
from pathlib import Path

from check import check
from gate import ALL_READY, begin, end, says
from host import CONFIG
from page import block
from playbook import Playbook

FILE = f"{CONFIG}/config.d/50-fleet.toml"
NEW = f"{CONFIG}/config.d/55-new.toml"
ADDED = "added.csi.test"
MISSING = "missing.csi.test"


class Rollout(Playbook):
    def __init__(self, node, directory):
        super().__init__(node, directory, block("fleet.md", "yaml", "hosts: storage_nodes"))
        self._package = node.next_deb

    def roll_out(self, configuration, file=FILE):
        """Runs the playbook, and returns its counts and its output."""
        source = self.directory / "fleet.toml"
        source.write_text(configuration)
        counts, said = self.play(package=self._package, source=source, file=file, gate_timeout="3s")
        goes_on = re.search(r"^second +: ", said, re.MULTILINE) is not None
        assert goes_on == (counts["failed"] == 0), f"the second batch: {goes_on}: {said}"
        return counts, said


def table(name):
    return f'[drivers."{name}"]\n'


@check
def the_playbook_rolls_out_and_rolls_back_and_the_kubelet_does_not_notice(node):
    begin(node)
    node.systemctl("start", f"driver@{ADDED}")
    node.wait_phase("registered", ADDED)
    node.wait_registered(ADDED)
    files = sorted(path.name for path in node.path(f"{CONFIG}/config.d").iterdir())
    try:
        with tempfile.TemporaryDirectory(prefix="nsdr-ansible-") as directory:
            node.unnoticed(lambda: rolls_out_and_back(node, Rollout(node, directory)))
        found = sorted(path.name for path in node.path(f"{CONFIG}/config.d").iterdir())
        assert found == sorted([*files, Path(FILE).name]), found
    finally:
        for file in (FILE, NEW):
            node.path(file).unlink(missing_ok=True)
        end(node, ADDED)
        node.run("dpkg", "-i", node.deb, timeout=120)


def rolls_out_and_back(node, ansible):
    version, old = node.installed_version(), node.pid()
    counts, said = ansible.roll_out(table(ADDED))
    assert counts["failed"] == 0 and counts["changed"] > 0, said
    assert node.installed_version() != version and node.pid() != old, said
    says(node, ALL_READY)

    counts, said = ansible.roll_out(table(ADDED))
    assert counts["failed"] == 0 and counts["changed"] == 0, said

    pid = node.pid()
    for configuration, file, task, words in (
        ("plugins_dir = 3\n", FILE, "Check the whole configuration", "plugins_dir = 3"),
        (table(MISSING), NEW, "Gate", MISSING),
    ):
        counts, said = ansible.roll_out(configuration, file)
        assert counts["failed"] == 1 and counts["rescued"] == 1, said
        assert re.search(rf'"msg": "{task}.*{re.escape(words)}', said), said
        assert node.path(FILE).read_text() == table(ADDED), "the file was not rolled back"
        assert not node.path(NEW).exists(), "the new file was not removed"
        assert node.pid() == pid, "it was restarted"
        says(node, ALL_READY)
