"""The files of the image where SELinux enforces: unpacked, and labelled by the host's own policy."""

from pathlib import Path

from check import check
from container import eventually
from enforcing import domain, ours, type_of
from host import DRIVER, PROGRAM, UNIT
from packages import NAME
from page import block

LINK = f"/etc/extensions/{NAME}"


@check
def an_unpacked_image_with_the_labels_of_the_policy_registers_a_driver_without_a_denial(node):
    node.run("dpkg", "-P", NAME, timeout=120)
    assert not node.path(PROGRAM).exists(), "the package is still there"
    before = len(ours(node))
    image = Path(node.image)
    version = image.name.removeprefix(f"{NAME}-").removesuffix("-x86-64.raw")
    steps = block("install.md", "sh", f"{LINK}\n").replace("1.0.0", version)
    node.run("sh", "-ec", f"cd {image.parent}\n{steps}", timeout=120)
    eventually("the daemon is active", node.is_active)
    # The extension must not hide the types of the host's own directories.
    assert (type_of(node, "/usr/bin"), type_of(node, PROGRAM)) == ("bin_t", "bin_t"), type_of(node, PROGRAM)
    node.configure(f'[drivers."{DRIVER}"]\n')
    node.systemctl("reload", UNIT)
    node.systemctl("start", f"driver@{DRIVER}")
    node.wait_phase("registered")
    node.wait_registered()
    print(f"# domain of the daemon in the extension: {domain(node, node.pid())}", flush=True)
    assert len(ours(node)) == before, ours(node)[before:]


@check
def an_unpacked_image_comes_up_at_boot_without_a_denial(node):
    before = len(ours(node))
    node.systemctl("enable", f"driver@{DRIVER}")
    node.container.reboot()
    eventually("the daemon is active", node.is_active)
    node.wait_registered()
    node.wait_phase("registered")
    node.up_before_the_kubelet()
    assert len(ours(node)) == before, ours(node)[before:]
