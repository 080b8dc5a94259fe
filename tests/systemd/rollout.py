"""A rollout with Ansible: the playbook of docs/fleet.md, over ssh, against the booted node."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from check import check
from gate import ALL_READY, PAGE, begin, end, says
from host import CONFIG

FILE = f"{CONFIG}/config.d/50-fleet.toml"
NEW = f"{CONFIG}/config.d/55-new.toml"
ADDED = "added.csi.test"
MISSING = "missing.csi.test"
INVENTORY = """\
[storage_nodes]
node ansible_host=127.0.0.1 ansible_user=root
# The second batch. No process listens there, so Ansible reports it as unreachable if it gets that far.
second ansible_host=127.0.0.1 ansible_port=1
[storage_nodes:vars]
ansible_python_interpreter=/usr/bin/python3
ansible_ssh_private_key_file={directory}/key
ansible_ssh_common_args="-o StrictHostKeyChecking=no -o UserKnownHostsFile={directory}/hosts"
"""


class Ansible:
    """A directory with the playbook, its inventory, and a key that the node accepts."""

    def __init__(self, node, directory):
        self._node = node
        self._directory = Path(directory)
        blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        playbooks = [block for block in blocks if "hosts: storage_nodes" in block]
        assert len(playbooks) == 1, f"{PAGE} has {len(playbooks)} playbooks"
        (self._directory / "rollout.yml").write_text(playbooks[0])
        (self._directory / "inventory").write_text(INVENTORY.format(directory=directory))
        key = self._directory / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        node.write("/root/.ssh/authorized_keys", key.with_suffix(".pub").read_text(), 0o600)

    def roll_out(self, configuration, file=FILE):
        """Runs the playbook, and returns its counts and its output."""
        source = self._directory / "fleet.toml"
        source.write_text(configuration)
        package = self._node.next_deb
        variables = {"package": package, "source": source, "file": file, "gate_timeout": "3s"}
        # In the node's network, whose sshd this machine cannot reach otherwise.
        command = ["nsenter", "--target", str(self._node.container.leader), "--net", "ansible-playbook"]
        command += ["--inventory", self._directory / "inventory", self._directory / "rollout.yml"]
        for name, value in variables.items():
            command += ["--extra-vars", f"{name}={value}"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._directory), "LC_ALL": "C.UTF-8",
                       "ANSIBLE_PIPELINING": "1"}
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=120,
        )
        recap = re.search(r"^node +: (.*)$", done.stdout, re.MULTILINE)
        assert recap, f"Ansible ended with {done.returncode}: {done.stdout}"
        assert "WARNING" not in done.stdout, done.stdout
        counts = dict(count.split("=") for count in recap[1].split())
        counts = {name: int(count) for name, count in counts.items()}
        goes_on = re.search(r"^second +: ", done.stdout, re.MULTILINE) is not None
        assert goes_on == (counts["failed"] == 0), f"the second batch: {goes_on}: {done.stdout}"
        return counts, done.stdout


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
            node.unnoticed(lambda: rolls_out_and_back(node, Ansible(node, directory)))
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
