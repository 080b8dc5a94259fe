"""The playbook of docs/install.md: the carried repository on every node of a fleet."""

import shutil
import tempfile
from pathlib import Path

from check import check
from host import DRIVER
from page import block
from playbook import Playbook
from repository import TRUSTED, forget, install_an_older_version, version


@check
def the_playbook_of_the_page_installs_from_the_carried_repository(node):
    forget(node)
    with tempfile.TemporaryDirectory(prefix="nsdr-ansible-") as directory:
        text = block("install.md", "yaml", "ansible.builtin.unarchive").replace("1.0.0", version(node))
        playbook = Playbook(node, directory, text)
        tarball = node.path(node.release)
        shutil.copy(tarball, playbook.directory)
        shutil.unpack_archive(tarball, directory)
        release = playbook.directory / Path(node.release).stem
        shutil.copy(release / Path(TRUSTED).name, playbook.directory)
        for changes in (True, False, True):
            counts, said = playbook.play(limit="node")
            assert counts["failed"] == 0 and (counts["changed"] > 0) == changes, said
            if not changes:
                install_an_older_version(node)
    assert node.is_active() and node.installed_version() == f"{version(node)}-1"
    node.systemctl("start", f"driver@{DRIVER}")
    node.wait_registered()
