"""Upgrade, removal and purge of the .deb; the scripts of the .rpm as far as Debian runs them."""

import os

from check import check
from container import eventually
from gate import ALL_READY, BAD, BAD_ON_DISK, begin, end, says
from host import CONFIG, DRIVER, PROGRAM, RUNTIME, TIMER, UNIT
from verifying import timer_state

NAME = "node-storage-driver-registrar"
KEEP = "60-keep.toml"
EDIT = "\n# an operator was here\n"


def leftovers(node):
    """Everything that has our name, but for what a test or the journal made."""
    found = node.run("find", "/etc", "/usr", "/var", "/run", "/vdata", "-name", f"*{NAME}*").stdout
    mine = (f"/etc/systemd/system/{UNIT}.d", f"/etc/systemd/system/{TIMER}.d")
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


def keeps_the_drivers(node, *installations):
    """A registered driver and one that an operator has withdrawn: what both are, and unnoticed."""
    withdrawn, table = "withdrawn.csi.test", "60-withdrawn.toml"
    node.settle()
    node.configure(f'[drivers."{withdrawn}"]\n', table)
    node.systemctl("start", f"driver@{withdrawn}")
    node.systemctl("reload", UNIT)
    node.wait_registered(withdrawn)
    node.run(PROGRAM, "withdraw", withdrawn)
    node.wait_deregistered(withdrawn)
    try:
        for install in installations:
            before = node.pid()
            node.unnoticed(install)
            assert node.is_active() and node.pid() != before, "it was not restarted"
            assert (node.phase(), node.phase(withdrawn)) == ("registered", "withdrawn"), node.status()
    finally:
        node.run(PROGRAM, "publish", withdrawn, check=False)
        node.configure(None, table)
        node.systemctl("stop", f"driver@{withdrawn}")
        node.systemctl("reload", UNIT)


@check
def an_upgrade_from_the_first_release_and_the_way_back_are_not_noticed(node):
    first, tree = (lambda package=package: install_deb(node, package) for package in (node.first_deb, node.next_deb))
    first()
    keeps_the_drivers(node, tree, first, tree)


def install_deb(node, package):
    """Installs a .deb, and returns the words that the operator reads."""
    done = node.run("dpkg", "-i", package, timeout=120)
    return done.stdout + done.stderr


def names_the_fault_and_the_next_step(said):
    for words in (BAD, "plugins_dir", f"systemctl restart {NAME}"):
        assert words in said, f"the operator does not read {words}: {said}"


def keeps_the_daemon_over_a_bad_configuration(node, upgrade):
    """An upgrade that would restart the daemon into exit 78 leaves the running process alone."""
    begin(node)
    # The unit in the package then differs from the loaded unit.
    os.utime(node.path(f"/usr/lib/systemd/system/{UNIT}"))
    node.systemctl("daemon-reload")
    before = node.pid()
    node.configure("plugins_dir = 3\n", BAD)
    try:
        said = []
        node.unnoticed(lambda: said.append(upgrade()))
        state = node.show("ActiveState", "MainPID", "NeedDaemonReload")
        kept = {"ActiveState": "active", "MainPID": str(before), "NeedDaemonReload": "no"}
        assert state == kept, state
        names_the_fault_and_the_next_step(said[0])
        assert "the old process still runs" in said[0], said[0]
        node.wait_phase("registered")
        # The package manager has reported success: the gate must not.
        says(node, BAD_ON_DISK, BAD)
    finally:
        node.configure(None, BAD)
    node.systemctl("restart", UNIT)
    assert node.pid() != before, "it was not restarted"
    says(node, ALL_READY)
    end(node)


@check
def an_upgrade_over_a_bad_configuration_keeps_the_daemon_and_says_so(node):
    install_deb(node, node.deb)
    before = node.installed_version()
    keeps_the_daemon_over_a_bad_configuration(node, lambda: install_deb(node, node.next_deb))
    assert node.installed_version() != before, "it was not upgraded"


@check
def an_installation_over_a_bad_configuration_does_not_start_the_daemon_and_says_so(node):
    node.settle()
    node.run("dpkg", "-P", NAME, timeout=120)
    node.configure("plugins_dir = 3\n", BAD)
    try:
        names_the_fault_and_the_next_step(install_deb(node, node.next_deb))
        state = node.show("ActiveState", "UnitFileState")
        assert state == {"ActiveState": "inactive", "UnitFileState": "enabled"}, state
    finally:
        node.configure(None, BAD)
    node.settle()


@check
def the_scripts_of_the_deb_restart_nothing_in_another_root_or_without_systemd(node):
    node.settle()
    before = node.pid()
    script = f"/var/lib/dpkg/info/{NAME}.postinst"
    node.run("env", "DPKG_ROOT=/opt/elsewhere", script, "configure", "0.0.1-1")
    hidden = f"mount -t tmpfs none /run/systemd && {script} configure 0.0.1-1"
    node.run("unshare", "--mount", "sh", "-c", hidden)
    assert node.pid() == before, "it was restarted"
    # The daemon of the unit does not see a variable of the operator's shell.
    node.run("env", "NSDR_SERVICE__READY_WHEN=soon", script, "configure", "0.0.1-1")
    assert node.pid() != before, "the script does not restart it at all"


@check
def an_upgrade_leaves_a_disabled_unit_disabled_and_stopped(node):
    node.settle()
    node.systemctl("disable", "--now", UNIT)
    node.run("dpkg", "-i", node.deb, timeout=120)
    node.run("dpkg", "-i", node.next_deb, timeout=120)
    state = node.show("ActiveState", "UnitFileState")
    node.systemctl("enable", "--now", UNIT)
    assert state == {"ActiveState": "inactive", "UnitFileState": "disabled"}, state


@check
def an_upgrade_leaves_a_stopped_unit_stopped(node):
    node.settle()
    node.systemctl("stop", UNIT)
    postinst = f"/var/lib/dpkg/info/{NAME}.postinst"
    for act in (
        lambda: install_deb(node, node.deb),
        lambda: node.run(postinst, "configure", "0.1"),
        lambda: install_deb(node, node.next_deb),
    ):
        act()
        state = node.show("ActiveState", "UnitFileState")
        assert state == {"ActiveState": "inactive", "UnitFileState": "enabled"}, state
    # A removal stops the daemon; one that is aborted starts it again.
    node.run(postinst, "abort-remove")
    assert node.is_active(), "it was not started"
    # A package that comes back after its removal starts its daemon, which runs at the next upgrade.
    node.run("dpkg", "-r", NAME, timeout=120)
    for package in (node.deb, node.next_deb):
        install_deb(node, package)
        assert node.is_active(), "it was not started"
    assert not node.path(f"/run/{NAME}.start").exists(), "the mark of the upgrade is left"


def keeps_the_timer_as_it_was(node, *upgrades):
    """Disabled, enabled, and enabled but stopped: an upgrade changes none of them."""
    node.settle()
    assert timer_state(node) == ("disabled", "inactive"), timer_state(node)
    for commands, expected in (
        ([], ("disabled", "inactive")),
        ([("enable", "--now", TIMER)], ("enabled", "active")),
        ([("stop", TIMER)], ("enabled", "inactive")),
    ):
        for command in commands:
            node.systemctl(*command)
        for upgrade in upgrades:
            upgrade()
            assert timer_state(node) == expected, (expected, timer_state(node))
            assert node.show("NeedDaemonReload", unit=TIMER)["NeedDaemonReload"] == "no"
    # For the removal, which has to stop and disable it.
    node.systemctl("start", TIMER)


@check
def an_upgrade_leaves_the_timer_of_verify_as_it_was(node):
    keeps_the_timer_as_it_was(
        node,
        lambda: node.run("dpkg", "-i", node.deb, timeout=120),
        lambda: node.run("dpkg", "-i", node.next_deb, timeout=120),
    )


@check
def removal_stops_and_disables_the_timer_of_verify(node):
    node.run("dpkg", "-r", NAME, timeout=120)
    assert "enabled" not in timer_state(node) and "active" not in timer_state(node), timer_state(node)
    node.run("dpkg", "-i", node.next_deb, timeout=120)
    assert timer_state(node) == ("disabled", "inactive"), timer_state(node)


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
    return done.stdout + done.stderr


@check
def the_rpm_installs_as_an_rpm_distribution_expects(node):
    print("# no RPM distribution is to be had here: the .rpm runs on Debian's rpm and systemd")
    node.run("dpkg", "-P", NAME, check=False, timeout=120)
    # There, presets decide, and most say no. Debian's say yes.
    node.write("/etc/systemd/system-preset/00-test.preset", "disable *\n")
    rpm(node, "-i", node.rpm)
    state = node.show("ActiveState", "UnitFileState")
    assert state == {"ActiveState": "inactive", "UnitFileState": "disabled"}, state
    assert timer_state(node) == ("disabled", "inactive"), timer_state(node)
    files = (f"/usr/share/licenses/{NAME}/LICENSE", f"/usr/share/zsh/site-functions/_{NAME}")
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
def an_upgrade_of_the_rpm_from_the_first_release_and_the_way_back_are_not_noticed(node):
    first, tree = (
        lambda package=package: rpm(node, "-U", "--oldpackage", "--replacepkgs", package)
        for package in (node.first_rpm, node.next_rpm)
    )
    first()
    keeps_the_drivers(node, tree, first, tree)


@check
def an_upgrade_of_the_rpm_over_a_bad_configuration_keeps_the_daemon_and_says_so(node):
    rpm(node, "-U", "--oldpackage", "--replacepkgs", node.rpm)
    keeps_the_daemon_over_a_bad_configuration(node, lambda: rpm(node, "-U", node.next_rpm))


@check
def an_upgrade_of_the_rpm_leaves_a_stopped_unit_stopped(node):
    node.settle()
    node.systemctl("stop", UNIT)
    rpm(node, "-U", "--oldpackage", "--replacepkgs", node.rpm)
    rpm(node, "-U", node.next_rpm)
    state = node.show("ActiveState", "UnitFileState")
    assert state == {"ActiveState": "inactive", "UnitFileState": "enabled"}, state


@check
def an_upgrade_of_the_rpm_leaves_the_timer_of_verify_as_it_was(node):
    node.systemctl("start", UNIT)
    keeps_the_timer_as_it_was(
        node,
        lambda: rpm(node, "-U", "--oldpackage", "--replacepkgs", node.rpm),
        lambda: rpm(node, "-U", node.next_rpm),
    )


@check
def erasing_the_rpm_stops_and_disables_the_timer_of_verify(node):
    rpm(node, "-e", NAME)
    found = node.show("ActiveState", "LoadState", unit=TIMER)
    assert found == {"ActiveState": "inactive", "LoadState": "not-found"}, found
    preset = node.path("/etc/systemd/system-preset/00-test.preset")
    disable_all = preset.read_text()
    # Also where the presets enable all that no preset names, as Debian's do; and the operator's preset counts.
    for text, expected in (("", "disabled"), (f"enable {TIMER}\n", "enabled"), (disable_all, "disabled")):
        preset.write_text(text)
        rpm(node, "-i", node.next_rpm)
        assert timer_state(node) == (expected, "inactive"), (text, timer_state(node))
        rpm(node, "-e", NAME)
    rpm(node, "-i", node.next_rpm)


@check
def an_installation_of_the_rpm_over_a_bad_configuration_says_so(node):
    rpm(node, "-e", NAME)
    node.configure("plugins_dir = 3\n", BAD)
    try:
        names_the_fault_and_the_next_step(rpm(node, "-i", node.next_rpm))
        state = node.show("ActiveState", "UnitFileState")
        assert state == {"ActiveState": "inactive", "UnitFileState": "disabled"}, state
    finally:
        node.configure(None, BAD)
    node.systemctl("enable", UNIT)
    node.settle()


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
