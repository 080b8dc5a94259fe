"""A playbook of the pages, which Ansible plays over ssh against the booted node."""

import os
import re
import subprocess
from pathlib import Path

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


class Playbook:
    """In a directory with its inventory, and a key that the node accepts."""

    def __init__(self, node, directory, text):
        self._node = node
        self.directory = Path(directory)
        (self.directory / "playbook.yml").write_text(text)
        (self.directory / "inventory").write_text(INVENTORY.format(directory=directory))
        key = self.directory / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        node.write("/root/.ssh/authorized_keys", key.with_suffix(".pub").read_text(), 0o600)

    def play(self, limit=None, **variables):
        """Returns the node's counts and the output."""
        # In the node's network, whose sshd this machine cannot reach otherwise.
        command = ["nsenter", "--target", str(self._node.container.leader), "--net", "ansible-playbook"]
        command += ["--inventory", self.directory / "inventory", self.directory / "playbook.yml"]
        if limit:
            command += ["--limit", limit]
        for name, value in variables.items():
            command += ["--extra-vars", f"{name}={value}"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.directory), "LC_ALL": "C.UTF-8",
                       "ANSIBLE_PIPELINING": "1"}
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=120,
        )
        recap = re.search(r"^node +: (.*)$", done.stdout, re.MULTILINE)
        assert recap, f"Ansible ended with {done.returncode}: {done.stdout}"
        assert "WARNING" not in done.stdout, done.stdout
        counts = dict(count.split("=") for count in recap[1].split())
        return {name: int(count) for name, count in counts.items()}, done.stdout
