"""The image for hosts without packages: merged into /usr, at boot, upgraded, and gone without a trace."""

from check import check
from container import eventually
from host import CONFIG, DRIVER, PROGRAM, RUNTIME, UNIT
from packages import NAME, leftovers
from page import block
from repository import forget

LINK = f"/etc/extensions/{NAME}.raw"
RELOAD = "/etc/systemd/system/systemd-sysext.service.d/reload.conf"
# A container has no devices for images until somebody makes them.
LOOP_DEVICES = "c /dev/loop-control 0660 root root - 10:237\n" + "".join(
    f"b /dev/loop{minor} 0660 root root - 7:{minor}\n" for minor in range(16)
)


def reads_units_of_images(node):
    """systemd from 255 on."""
    return int(node.run("systemctl", "--version").stdout.split()[1]) >= 255


def put(node, image):
    """The link of the operator."""
    node.run("mkdir", "-p", "/etc/extensions")
    node.run("ln", "-sfn", image, LINK)


def merge(node):
    node.run("systemd-sysext", "refresh")
    if not reads_units_of_images(node):
        node.systemctl("daemon-reload")


@check
def a_merged_image_starts_the_daemon_and_registers_a_driver_with_the_operators_configuration(node):
    forget(node)
    assert not leftovers(node), leftovers(node)
    node.write("/etc/tmpfiles.d/loop.conf", LOOP_DEVICES)
    node.run("systemd-tmpfiles", "--create", "/etc/tmpfiles.d/loop.conf")
    put(node, node.image)
    merge(node)
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
def an_image_brings_the_daemon_up_at_boot(node):
    node.systemctl("enable", "systemd-sysext", f"driver@{DRIVER}")
    if not reads_units_of_images(node):
        words = "ExecStartPost=/usr/bin/systemctl daemon-reload"
        node.write(RELOAD, block("install.md", "ini", words))
    node.container.reboot()
    eventually("the daemon is active", node.is_active)
    node.wait_registered()
    node.wait_phase("registered")
    node.systemctl("disable", f"driver@{DRIVER}")


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
def a_stop_lasts_only_with_a_mask_where_an_image_upholds_the_daemon(node):
    node.systemctl("stop", UNIT)
    eventually("systemd starts it again", node.is_active)
    node.wait_registered()
    node.systemctl("mask", "--runtime", "--now", UNIT)
    node.wait_deregistered()
    assert not node.is_active(), "it was started again"
    node.systemctl("unmask", "--runtime", UNIT)
    eventually("systemd starts it again", node.is_active)
    node.wait_registered()


@check
def an_image_that_is_removed_leaves_nothing_but_the_operators_files(node):
    node.run("sh", "-ec", block("install.md", "sh", f"rm {LINK}"))
    node.wait_deregistered()
    assert not node.path(PROGRAM).exists(), "the program is still there"
    assert not node.path(RUNTIME).exists(), "the runtime directory is still there"
    assert leftovers(node) == [CONFIG], leftovers(node)
    assert not node.is_active()
    assert not node.link().is_symlink() and not node.socket().exists()
