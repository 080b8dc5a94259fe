"""Volumes in use: a stop and a removal of the package keep their drivers, and say so."""

import contextlib
import re
import time

from check import check
from container import eventually
from host import CONFIG, DRIVER, PROGRAM, RUNTIME, UNIT
from journaling import IDENTIFIER, id_of
from node import UNNOTICED
from packages import NAME, install_deb, is_withdrawn, rpm
from pod_volume import POD, POD_DIR, set_up_volume, tear_down_volume

# A driver that no pod uses.
FREE = "free.csi.test"
TABLE = "60-free.toml"
KEEP = "70-on-stop.toml"
# The subject of the message in the catalog.
KEPT = "because their volumes are in use"


def begin(node):
    """Two registered drivers; a pod has a volume of the first."""
    node.settle()
    node.systemctl("start", f"driver@{FREE}")
    node.configure(f'[drivers."{FREE}"]\n', TABLE)
    node.systemctl("reload", UNIT)
    node.wait_phase("registered", FREE)
    set_up_volume(node)
    node.calm()


@contextlib.contextmanager
def in_use(node):
    begin(node)
    try:
        yield
    finally:
        tear_down_volume(node)
        node.configure(None, KEEP)
        node.configure(None, TABLE)
        node.systemctl("stop", f"driver@{FREE}")


def volumes(node):
    return {driver["id"]: driver["volumes"] for driver in node.status()["drivers"]}


def names_the_volume(said):
    for words in (DRIVER, "1 volume is in use", POD):
        assert words in said, f"the operator does not read {words}: {said}"
    assert FREE not in said, said


def is_kept(node):
    """Link and socket file of the driver in use exist, and those of the other do not."""
    assert node.link().is_symlink(), "the link is gone"
    assert node.socket().is_socket(), "the socket file is gone"
    node.wait_deregistered(FREE)
    left = [str(path) for path in (node.link(FREE), node.socket(FREE)) if path.is_symlink() or path.exists()]
    assert not left, f"still there: {left}"
    assert DRIVER in node.registered(), node.registered()


def events_since(node, mark):
    """What the kubelet did with the driver in use."""
    return [event for event, fields in node.events()[mark:] if DRIVER in (fields.get("name"), fields.get("driver"))]


def nothing_since(node, mark):
    time.sleep(UNNOTICED)
    assert not events_since(node, mark), events_since(node, mark)


def is_taken_up(node):
    """A daemon that was started again has both drivers."""
    node.wait_phase("registered")
    assert volumes(node)[DRIVER] == 1, volumes(node)


def remove_deb(node, how="remove"):
    """Removes the .deb, and returns the words that the operator reads."""
    # systemd-nspawn mounts a boot id of its own, which a unit does not see in its sandbox before systemd 257:
    # the commands of an operator would not trust the unit's state.json. On a machine the ids are the same.
    boot_id = "/proc/sys/kernel/random/boot_id"
    script = (
        f'grep -q "$(cat {boot_id})" {RUNTIME}/state.json ||'
        f' while umount {boot_id} 2>/dev/null; do :; done; exec "$@"'
    )
    done = node.run("unshare", "--mount", "sh", "-c", script, "sh", "apt-get", "-y", how, NAME, timeout=120)
    said = done.stdout + done.stderr
    assert "not trusted" not in said, said
    return said


def rm_lines(said):
    """The commands that finish a removal by hand."""
    lines = re.findall(r"\brm (?:-f )?(/\S+(?: /\S+)*)", said)
    assert lines, f"the operator does not read how to finish: {said}"
    return [path for line in lines for path in line.split()]


@check
def the_package_is_installed_again_and_counts_volumes_within_its_sandbox(node):
    if NAME in node.run("rpm", "--dbpath", "/var/lib/rpm-test", "-qa", check=False).stdout:
        rpm(node, "-e", NAME)
    # Imitates an RPM distribution.
    node.path("/etc/systemd/system-preset/00-test.preset").unlink(missing_ok=True)
    install_deb(node, node.deb)
    with in_use(node):
        assert volumes(node) == {DRIVER: 1, FREE: 0}, volumes(node)
        refused = node.run(PROGRAM, "withdraw", DRIVER, check=False)
        assert refused.returncode == 1 and "--force" in refused.stderr, refused
        names_the_volume(refused.stderr)
        node.run(PROGRAM, "withdraw", FREE)
        node.wait_deregistered(FREE)
        node.run(PROGRAM, "publish", FREE)
        tear_down_volume(node)
        eventually("no volume is left", lambda: volumes(node)[DRIVER] == 0, 5)
        node.run(PROGRAM, "withdraw", DRIVER)
        node.wait_deregistered()
        node.run(PROGRAM, "publish", DRIVER)


@check
def a_directory_that_the_sandbox_cannot_read_counts_as_a_volume_in_use(node):
    with in_use(node):
        mark = len(node.events())
        # Without capabilities, root may not list what belongs to another user.
        node.run("chown", "nobody", POD_DIR)
        node.run("chmod", "0700", POD_DIR)
        assert volumes(node) == {DRIVER: None, FREE: None}, volumes(node)
        refused = node.run(PROGRAM, "withdraw", FREE, check=False)
        assert refused.returncode == 1 and POD_DIR in refused.stderr, refused
        node.systemctl("stop", UNIT)
        assert POD_DIR in node.journal("-n", "5")
        for driver in (DRIVER, FREE):
            assert node.link(driver).is_symlink() and node.socket(driver).is_socket(), driver
        node.systemctl("start", UNIT)
        node.wait_phase("registered")
        nothing_since(node, mark)


@check
def stop_keeps_the_driver_in_use_and_withdraws_the_other(node):
    with in_use(node):
        told = lambda: node.entries(IDENTIFIER, f"MESSAGE_ID={id_of(node, KEPT)}")
        before, mark = len(told()), len(node.events())
        node.systemctl("stop", UNIT)
        is_kept(node)
        entries = told()[before:]
        assert len(entries) == 1, entries
        names_the_volume(entries[0]["MESSAGE"])
        explained = node.run("journalctl", "-q", "-x", "-b", "-n", "1", f"MESSAGE_ID={id_of(node, KEPT)}").stdout
        for words in ("Subject: CSI drivers keep their links", "drain the node", "withdraw --force"):
            assert words in explained, f"the operator does not read {words}: {explained}"
        node.systemctl("start", UNIT)
        is_taken_up(node)
        nothing_since(node, mark)
        # The pod is gone.
        tear_down_volume(node)
        node.systemctl("stop", UNIT)
        is_withdrawn(node)
        assert len(told()) == before + 1, told()


@check
def stop_withdraws_a_driver_in_use_if_the_configuration_says_so(node):
    with in_use(node):
        node.configure('[service]\non_stop = "withdraw"\n', KEEP)
        node.systemctl("reload", UNIT)
        node.systemctl("stop", UNIT)
        is_withdrawn(node)


def removal_keeps(node, remove):
    """Returns the words that the operator reads."""
    mark = len(node.events())
    said = remove()
    is_kept(node)
    names_the_volume(said)
    # The kubelet has noticed the end of the other driver, and nothing else.
    assert not events_since(node, mark), events_since(node, mark)
    return said


@check
def removal_keeps_the_driver_in_use_and_the_next_package_takes_it_up_unnoticed(node):
    # Whatever on_stop says, and whether the unit runs or not.
    for on_stop, is_stopped in (("keep", False), ("auto", True)):
        with in_use(node):
            node.configure(f'[service]\non_stop = "{on_stop}"\n', KEEP)
            node.systemctl("reload", UNIT)
            if is_stopped:
                node.systemctl("stop", UNIT)
            mark = len(node.events())
            removal_keeps(node, lambda: remove_deb(node))
            assert node.path(f"{RUNTIME}/state.json").exists()
            install_deb(node, node.deb)
            is_taken_up(node)
            nothing_since(node, mark)


def is_finished_by_hand(node, said):
    """When the pod is gone, the printed commands take the driver off the node."""
    tear_down_volume(node)
    for path in rm_lines(said):
        node.run("rm", path)
    is_withdrawn(node)


@check
def removal_of_a_driver_in_use_is_finished_by_hand(node):
    with in_use(node):
        is_finished_by_hand(node, removal_keeps(node, lambda: remove_deb(node)))
    install_deb(node, node.deb)


def is_announced_again(node, mark):
    """Without state.json, the daemon cannot know that the kubelet has registered the driver."""
    node.wait_phase("registered")
    events = [event for event in events_since(node, mark) if event in ("Register", "Deregister")]
    assert events == ["Deregister", "Register"], events
    assert volumes(node)[DRIVER] == 1, volumes(node)


@check
def purge_keeps_the_driver_in_use_and_the_next_package_announces_it_once(node):
    with in_use(node):
        removal_keeps(node, lambda: remove_deb(node, "purge"))
        assert not node.path(RUNTIME).exists() and not node.path(CONFIG).exists()
        mark = len(node.events())
        # While the driver does not run, the kubelet could not register it again.
        node.systemctl("stop", f"driver@{DRIVER}")
        install_deb(node, node.deb)
        node.wait_phase("waiting-for-driver")
        nothing_since(node, mark)
        node.systemctl("start", f"driver@{DRIVER}")
        is_announced_again(node, mark)


@check
def erasing_the_rpm_keeps_the_driver_in_use_and_is_finished_by_hand(node):
    node.run("dpkg", "-P", NAME, timeout=120)

    def install():
        rpm(node, "-i", node.rpm)
        node.systemctl("enable", "--now", UNIT)

    install()
    with in_use(node):
        removal_keeps(node, lambda: rpm(node, "-e", NAME))
        mark = len(node.events())
        install()
        is_announced_again(node, mark)
        is_finished_by_hand(node, removal_keeps(node, lambda: rpm(node, "-e", NAME)))
