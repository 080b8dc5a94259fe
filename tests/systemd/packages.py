"""Upgrade, removal and purge of the .deb; the scripts of the .rpm as far as Debian runs them."""

from check import check
from container import eventually
from host import CONFIG, DRIVER, RUNTIME, UNIT

NAME = "node-storage-driver-registrar"
KEEP = "60-keep.toml"
EDIT = "\n# an operator was here\n"


def leftovers(node):
    """Everything that has our name, but for what a test or the journal made."""
    found = node.run("find", "/etc", "/usr", "/var", "/run", "/vdata", "-name", f"*{NAME}*").stdout
    mine = (f"/etc/systemd/system/{UNIT}.d",)
    return [path for path in found.splitlines() if not path.startswith(mine)]


def edit_config(node):
    path = node.path(f"{CONFIG}/config.toml")
    if EDIT not in path.read_text():
        path.write_text(path.read_text() + EDIT)


@check
def an_upgrade_is_not_noticed_and_keeps_an_edited_configuration(node):
    node.settle()
    edit_config(node)
    before = node.pid(), node.installed_version()
    node.unnoticed(lambda: node.run("dpkg", "-i", node.next_deb, timeout=120))
    assert node.is_active() and node.pid() != before[0], "it was not restarted"
    assert node.installed_version() != before[1], "it was not upgraded"
    assert EDIT in node.path(f"{CONFIG}/config.toml").read_text(), "the edit is gone"
    node.wait_phase("registered")


@check
def an_upgrade_leaves_a_disabled_unit_disabled_and_stopped(node):
    node.settle()
    node.systemctl("disable", "--now", UNIT)
    node.run("dpkg", "-i", node.deb, timeout=120)
    node.run("dpkg", "-i", node.next_deb, timeout=120)
    state = node.show("ActiveState", "UnitFileState")
    node.systemctl("enable", "--now", UNIT)
    assert state == {"ActiveState": "inactive", "UnitFileState": "disabled"}, state


def is_withdrawn(node):
    left = [str(path) for path in (node.link(), node.socket()) if path.is_symlink() or path.exists()]
    assert not left, f"still there: {left}"
    node.wait_deregistered()


# How the daemon ends before the package goes: by the package itself, before it, or not by itself.
ENDINGS = {
    "running": lambda node: None,
    "stopped": lambda node: node.systemctl("stop", UNIT),
    "killed": lambda node: (
        node.drop_in("[Service]\nRestart=no\n"),
        node.systemctl("kill", "-s", "KILL", UNIT),
        eventually("it has ended", lambda: not node.is_active()),
    ),
}


def is_withdrawn_by_removal_although_it_is_to_be_kept(node, remove, install):
    for how, end in ENDINGS.items():
        node.settle()
        node.configure('[service]\non_stop = "keep"\n', KEEP)
        try:
            node.systemctl("restart", UNIT)
            node.wait_phase("registered")
            node.unnoticed(lambda: end(node))
            assert node.link().is_symlink(), f"{how}: it was not kept"
            remove()
            is_withdrawn(node)
        finally:
            node.configure(None, KEEP)
            node.drop_in(None)
        # Nobody has withdrawn the driver by hand.
        install()
        node.settle()


@check
def removal_deregisters_also_what_is_to_be_kept(node):
    is_withdrawn_by_removal_although_it_is_to_be_kept(
        node,
        lambda: node.run("dpkg", "-r", NAME, timeout=120),
        lambda: node.run("dpkg", "-i", node.next_deb, timeout=120),
    )


@check
def removal_deregisters_and_keeps_the_configuration(node):
    node.settle()
    node.run("dpkg", "-r", NAME, timeout=120)
    assert node.path(f"{CONFIG}/config.toml").exists(), "the configuration is gone"
    is_withdrawn(node)


@check
def purge_leaves_nothing(node):
    node.run("dpkg", "-P", NAME, timeout=120)
    assert leftovers(node) == [], leftovers(node)
    assert not node.path("/vdata/storage/plugins_registry").exists(), "the registry is left"
    units = node.systemctl("list-unit-files", f"{NAME}*", check=False).stdout
    assert NAME not in units, units


def rpm(node, *arguments):
    # Debian's rpm has no packages to depend on, and until bookworm refuses to work beside dpkg
    # unless it is told to.
    options = ["--dbpath", "/var/lib/rpm-test", "--nodeps"]
    if "--force-debian" in node.run("rpm", "--help").stdout:
        options.append("--force-debian")
    done = node.run("rpm", *options, *arguments, timeout=120)
    assert "scriptlet failed" not in done.stderr, done.stderr


@check
def the_rpm_installs_as_an_rpm_distribution_expects(node):
    print("# no RPM distribution is to be had here: the .rpm runs on Debian's rpm and systemd")
    node.run("dpkg", "-P", NAME, check=False, timeout=120)
    # There, presets decide, and most say no. Debian's say yes.
    node.write("/etc/systemd/system-preset/00-test.preset", "disable *\n")
    rpm(node, "-i", node.rpm)
    state = node.show("ActiveState", "UnitFileState")
    assert state == {"ActiveState": "inactive", "UnitFileState": "disabled"}, state
    files = (f"/etc/sysconfig/{NAME}", f"/usr/share/licenses/{NAME}/LICENSE",
             f"/usr/share/zsh/site-functions/_{NAME}")
    missing = [file for file in files if not node.path(file).exists()]
    assert not missing, missing
    known = node.run("journalctl", "--list-catalog").stdout
    assert f"{NAME}: " in known, "the catalog is not known"
    node.systemctl("enable", UNIT)
    node.settle()


@check
def an_upgrade_of_the_rpm_is_not_noticed_and_keeps_an_edited_configuration(node):
    node.settle()
    edit_config(node)
    before = node.pid()
    node.unnoticed(lambda: rpm(node, "-U", node.next_rpm))
    assert node.is_active() and node.pid() != before, "it was not restarted"
    assert EDIT in node.path(f"{CONFIG}/config.toml").read_text(), "the edit is gone"
    assert node.show("UnitFileState")["UnitFileState"] == "enabled"


@check
def erasing_the_rpm_deregisters_also_what_is_to_be_kept(node):
    def install():
        rpm(node, "-i", node.next_rpm)
        node.systemctl("enable", UNIT)

    is_withdrawn_by_removal_although_it_is_to_be_kept(node, lambda: rpm(node, "-e", NAME), install)


@check
def erasing_the_rpm_deregisters_and_leaves_only_what_was_edited(node):
    node.settle()
    node.configure(None)
    rpm(node, "-e", NAME)
    left = leftovers(node)
    edited = {CONFIG, f"{CONFIG}/config.toml.rpmsave"}
    assert set(left) <= edited, left
    assert not node.path(RUNTIME).exists()
    node.wait_deregistered(DRIVER)
