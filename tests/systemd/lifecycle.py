"""Installed, started, restarted, stopped, killed, hung: what the kubelet sees of it."""

import time

from check import check
from container import eventually
from host import CONFIG, DRIVER, PROGRAM, RUNTIME, TIMER, UNIT, VERIFY


@check
def a_fresh_install_is_enabled_and_active_and_says_how_it_stands(node):
    # No table, no driver: as shipped.
    node.run("dpkg", "-i", node.deb, timeout=120)
    state = node.show("ActiveState", "UnitFileState", "StatusText")
    assert state["ActiveState"] == "active", state
    assert state["UnitFileState"] == "enabled", state
    assert state["StatusText"].startswith("no drivers"), state
    version = node.run(PROGRAM, "--version").stdout.split()[-1]
    assert node.installed_version().startswith(version), version


@check
def the_package_has_what_it_should(node):
    name = "node-storage-driver-registrar"
    files = [
        f"/usr/bin/{name}",
        f"/usr/lib/{name}/verify",
        f"/usr/lib/systemd/system/{name}.service",
        f"/usr/lib/systemd/system/{name}-verify.service",
        f"/usr/lib/systemd/system/{name}-verify.timer",
        f"/usr/lib/systemd/system-preset/90-{name}.preset",
        f"/usr/lib/systemd/catalog/{name}.catalog",
        f"/usr/share/man/man8/{name}.8.gz",
        f"/usr/share/man/man5/{name}.toml.5.gz",
        f"/usr/share/bash-completion/completions/{name}",
        f"/usr/share/zsh/vendor-completions/_{name}",
        f"/usr/share/fish/vendor_completions.d/{name}.fish",
        f"/usr/share/doc/{name}/README.md",
        f"/usr/share/doc/{name}/copyright",
        f"/usr/share/doc/{name}/changelog.Debian.gz",
        f"/usr/share/doc/{name}/THIRD-PARTY-LICENSES.gz",
        f"/usr/share/doc/{name}/docs/packaging.md",
        f"/usr/share/doc/{name}/examples/http-tcp.conf",
        f"/usr/share/doc/{name}/examples/driver-of-another-user.conf",
        f"{CONFIG}/config.toml",
        f"{CONFIG}/config.d/README",
    ]
    missing = [file for file in files if not node.path(file).exists()]
    assert not missing, missing
    conffiles = node.run("dpkg-query", "-W", "-f", "${Conffiles}", name).stdout
    for file in files:
        assert (file in conffiles) == file.startswith("/etc/"), f"conffile or not: {file}"


@check
def the_units_have_no_line_that_systemd_does_not_understand(node):
    said = node.run("systemd-analyze", "verify", "--man=no", UNIT, VERIFY, TIMER, check=False)
    ours = [line for line in said.stderr.splitlines() if "storage-driver" in line]
    assert not ours, ours


@check
def a_driver_that_starts_later_is_discovered_and_registered(node):
    # As shipped, still: discovery is on in the shipped configuration.
    node.systemctl("start", f"driver@{DRIVER}")
    eventually("the kubelet has it", lambda: node.registered() == {DRIVER}, 15)
    assert node.status_line() == "1 of 1 drivers registered", node.status_line()


@check
def a_driver_with_a_table_that_starts_later_is_registered(node):
    node.settle()
    driver = "later.csi.test"
    node.configure(f'[drivers."{driver}"]\n', name="60-later.toml")
    try:
        node.systemctl("restart", UNIT)
        node.wait_phase("waiting-for-driver", driver)
        assert f"{driver}: " in node.status_line(), node.status_line()
        node.systemctl("start", f"driver@{driver}")
        node.wait_registered(driver)
        node.wait_phase("registered", driver)
        assert node.status_line() == "2 of 2 drivers registered", node.status_line()
    finally:
        node.configure(None, name="60-later.toml")
        node.systemctl("reload", UNIT)
        node.systemctl("stop", f"driver@{driver}")


@check
def twenty_restarts_in_a_row_are_not_noticed_by_the_kubelet(node):
    node.settle()

    def restarts():
        for _ in range(20):
            node.systemctl("restart", UNIT)

    node.unnoticed(restarts)
    assert node.is_active()
    node.wait_phase("registered")


@check
def a_restart_that_another_unit_causes_is_not_noticed(node):
    node.settle()
    node.write("/run/systemd/system/cause.service", "[Service]\nExecStart=/bin/sleep infinity\n")
    node.drop_in("[Unit]\nPartOf=cause.service\n")
    node.systemctl("start", "cause")
    before = node.pid()
    node.unnoticed(lambda: node.systemctl("restart", "cause"))
    assert node.pid() != before, "it was not restarted"
    node.drop_in(None)
    node.systemctl("stop", "cause")


@check
def stop_deregisters_and_leaves_none_of_our_files(node):
    node.settle()
    node.systemctl("stop", UNIT)
    node.wait_deregistered()
    assert not node.link().is_symlink(), "the link is still there"
    assert not node.socket().exists(), "the socket is still there"
    assert node.path(RUNTIME).is_dir(), "the runtime directory did not outlive the stop"


@check
def stop_deregisters_also_when_another_unit_causes_it(node):
    node.settle()
    node.write("/run/systemd/system/cause.service", "[Service]\nExecStart=/bin/sleep infinity\n")
    node.drop_in("[Unit]\nPartOf=cause.service\n")
    node.systemctl("start", "cause")
    node.systemctl("stop", "cause")
    try:
        node.wait_deregistered()
    finally:
        node.drop_in(None)


@check
def start_after_stop_registers_again(node):
    node.settle()
    node.systemctl("stop", UNIT)
    node.systemctl("start", UNIT)
    node.wait_phase("registered")
    node.wait_registered()


def ends_by_signal_unnoticed(node, signal):
    """The process ends by a signal, systemd starts another, and the kubelet sees nothing of it."""
    node.settle()
    before = node.pid()

    def kill():
        node.systemctl("kill", "-s", signal, UNIT)
        eventually("systemd brings it back", lambda: node.is_active() and node.pid() != before)

    node.unnoticed(kill)
    node.wait_phase("registered")


@check
def a_sigterm_with_no_job_behind_it_is_not_noticed(node):
    ends_by_signal_unnoticed(node, "TERM")


@check
def kill_9_is_not_noticed_and_systemd_brings_it_back(node):
    ends_by_signal_unnoticed(node, "KILL")


@check
def no_number_of_crashes_makes_systemd_give_up(node):
    node.settle()
    # Faster than the start limit of any release, which is 5 in 10 s.
    node.drop_in("[Service]\nRestartSec=50ms\n")
    for _ in range(8):
        before = node.pid()
        node.systemctl("kill", "-s", "KILL", UNIT)
        eventually(
            "systemd brings it back", lambda: node.is_active() and node.pid() not in (0, before), 10
        )
    node.drop_in(None)


@check
def the_watchdog_ends_a_hung_main_loop_and_the_kubelet_does_not_notice(node):
    node.settle()
    assert node.show("WatchdogUSec")["WatchdogUSec"] == "1min"
    # The shipped minute is too long for a test.
    node.drop_in("[Service]\nWatchdogSec=2s\n")
    node.systemctl("restart", UNIT)
    node.wait_phase("registered")
    before = node.pid()

    def hang():
        node.systemctl("kill", "-s", "STOP", UNIT)
        eventually("systemd brings it back", lambda: node.is_active() and node.pid() != before, 20)

    node.unnoticed(hang)
    assert "Watchdog timeout" in node.run("journalctl", "-q", "-b", "-u", UNIT).stdout
    node.drop_in(None)
    node.wait_phase("registered")


@check
def the_watchdog_leaves_a_healthy_daemon_alone(node):
    node.settle()
    # Longer than a stall of a busy machine, and waited for longer than that.
    node.drop_in("[Service]\nWatchdogSec=6s\n")
    node.systemctl("restart", UNIT)
    before = node.pid()
    node.unnoticed(lambda: time.sleep(6.5))
    assert node.pid() == before, "it was restarted"
    node.drop_in(None)


@check
def no_kubelet_waits_for_the_mounts_of_a_network(node):
    node.settle()
    # Every kubelet starts after the daemon, and so after whatever the daemon starts after.
    after = node.show("After")["After"].split()
    assert "local-fs.target" in after and "remote-fs.target" not in after, after


@check
def no_mount_can_take_the_daemon_down_with_it(node):
    node.settle()
    needed = node.show("RequiresMountsFor", "Requires")
    # /run cannot be unmounted.
    mounts = [one for one in needed["RequiresMountsFor"].split() if not one.startswith("/run/")]
    units = [one for one in needed["Requires"].split() if one.endswith(".mount")]
    assert not mounts and units in ([], ["-.mount"]), needed


@check
def what_the_daemon_makes_is_for_root_alone(node):
    node.settle()
    for path in (node.socket(), node.path(f"{RUNTIME}/control.sock"), node.path(f"{RUNTIME}/state.json")):
        assert path.stat().st_mode & 0o077 == 0, f"{path}: {path.stat().st_mode:o}"


@check
def after_a_reboot_it_is_up_before_the_kubelet_and_the_driver_is_registered(node):
    node.settle()
    node.systemctl("enable", f"driver@{DRIVER}")
    root = node.container.root
    link = root / node.link().relative_to(node.path("/"))
    node.container.reboot(lambda: link.is_symlink() or fail("the shutdown took the link away"))
    node.wait_registered()
    node.wait_phase("registered")
    node.up_before_the_kubelet()
    node.systemctl("disable", f"driver@{DRIVER}")


def fail(why):
    raise AssertionError(why)
