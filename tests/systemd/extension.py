"""The image for hosts without packages: merged into /usr, at boot, upgraded, and gone without a trace."""

import time
from pathlib import Path

from check import check
from container import eventually
from gate import BAD
from host import CONFIG, DRIVER, PROGRAM, RUNTIME, TIMER, UNIT
from journaling import message_ids
from packages import NAME, leftovers
from page import block
from repository import forget, version

LINK = f"/etc/extensions/{NAME}.raw"
TIMER_DROP_IN = f"/etc/systemd/system/timers.target.d/{NAME}-verify.conf"
RELOAD = "/etc/systemd/system/systemd-sysext.service.d/reload.conf"
# A container has no devices for images until somebody makes them.
LOOP_DEVICES = "c /dev/loop-control 0660 root root - 10:237\n" + "".join(
    f"b /dev/loop{minor} 0660 root root - 7:{minor}\n" for minor in range(16)
)


def reads_units_of_images(node):
    return node.systemd() >= 255


def put(node, image):
    """The link of the operator."""
    node.run("ln", "-sfn", image, LINK)


@check
def a_merged_image_starts_the_daemon_and_registers_a_driver_with_the_operators_configuration(node):
    forget(node)
    assert not leftovers(node), leftovers(node)
    node.write("/etc/tmpfiles.d/loop.conf", LOOP_DEVICES)
    node.run("systemd-tmpfiles", "--create", "/etc/tmpfiles.d/loop.conf")
    steps = block("install.md", "sh", f"{LINK}\nsystemctl enable").replace("1.0.0", version(node))
    node.run("sh", "-ec", f"cd {Path(node.image).parent}\n{steps}")
    assert node.run("journalctl", "--list-catalog", *message_ids(node).values()).stdout, "the catalog was not read"
    eventually("the daemon is active", node.is_active)
    # Nothing below /etc: the defaults of the program, and no discovery.
    node.systemctl("start", f"driver@{DRIVER}")
    assert node.status()["drivers"] == [], node.status()
    assert not node.path(CONFIG).exists()
    node.configure(f'[drivers."{DRIVER}"]\n')
    node.systemctl("reload", UNIT)
    node.wait_phase("registered")
    node.wait_registered()


@check
def an_image_brings_the_daemon_up_at_boot_before_the_kubelet(node):
    node.systemctl("enable", f"driver@{DRIVER}")
    node.write(TIMER_DROP_IN, block("install.md", "ini", f"Upholds={TIMER}"))
    if not reads_units_of_images(node):
        node.write(RELOAD, block("install.md", "ini", "ExecStartPost=/usr/bin/systemctl daemon-reload"))
    node.container.reboot()
    eventually("the daemon is active", node.is_active)
    node.wait_registered()
    node.wait_phase("registered")
    node.up_before_the_kubelet()
    assert node.show("ActiveState", unit=TIMER)["ActiveState"] == "active", "the timer of verify does not run"
    node.systemctl("disable", f"driver@{DRIVER}")


@check
def a_bad_configuration_with_an_image_is_not_noticed_and_tried_once(node):
    node.calm()
    since = node.now()
    node.configure("plugins_dir = 3\n", BAD)

    def restart():
        assert node.systemctl("restart", UNIT, check=False).returncode != 0, "it started"
        time.sleep(20)

    try:
        node.unnoticed(restart)
    finally:
        node.configure(None, BAD)
    said = node.journal("--since", since)
    assert said.count(f"Starting {UNIT}") == 1, said
    assert node.show("ActiveState")["ActiveState"] == "failed", node.show("ActiveState")
    node.systemctl("start", UNIT)
    node.wait_phase("registered")


@check
def an_upgrade_of_the_image_is_not_noticed(node):
    node.calm()
    before = node.pid()

    def upgrade():
        put(node, node.next_image)
        node.run("sh", "-ec", block("install.md", "sh", "systemctl restart node-storage-driver-registrar"))

    node.unnoticed(upgrade)
    assert node.is_active() and node.pid() != before, "it was not restarted"
    merged = node.path(f"/usr/lib/extension-release.d/extension-release.{NAME}").read_text()
    assert "IMAGE_VERSION=999.0.0\n" in merged, merged
    node.wait_phase("registered")


@check
def a_stop_lasts_until_the_operator_starts_the_daemon_of_an_image(node):
    node.systemctl("stop", UNIT)
    node.wait_deregistered()
    time.sleep(5)
    assert not node.is_active(), "it was started again"
    node.systemctl("start", UNIT)
    node.wait_registered()


@check
def an_image_that_is_merged_again_starts_the_daemon_again(node):
    node.run("sh", "-ec", block("install.md", "sh", f"rm {LINK}"))
    node.wait_deregistered()
    put(node, node.next_image)
    node.run("systemd-sysext", "refresh")
    node.systemctl("daemon-reload")
    eventually("the daemon is active", node.is_active)
    node.wait_registered()


@check
def an_image_that_is_removed_leaves_nothing_but_the_operators_files(node):
    node.run("sh", "-ec", block("install.md", "sh", f"rm {LINK}"))
    node.wait_deregistered()
    assert not node.path(PROGRAM).exists(), "the program is still there"
    assert not node.path(RUNTIME).exists(), "the runtime directory is still there"
    assert leftovers(node) == [CONFIG], leftovers(node)
    assert not node.is_active()
    assert node.show("ActiveState", unit=TIMER)["ActiveState"] == "inactive", "the timer still runs"
    assert not node.link().is_symlink() and not node.socket().exists()
