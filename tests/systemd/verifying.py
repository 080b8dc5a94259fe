"""verify as a service and its timer: what it needs, finds, repairs and leaves behind."""

import json
import re
import stat

from api_server import ApiServer, NODE
from check import check
from container import eventually
from host import DRIVER, RUNTIME, TIMER, UNIT, VERIFY

AT_ONCE = "[Timer]\nOnActiveSec=1s\nRandomizedDelaySec=0\nAccuracySec=10ms\n"
# Two looks ten seconds apart, and the announcement; and then up to half a minute.
ANNOUNCED = 45


def ended(node):
    """How the last run ended, or None while it runs."""
    found = node.show("ActiveState", "Result", "ExecMainStatus", "ConditionResult", unit=VERIFY)
    return None if found["ActiveState"] in ("activating", "deactivating") else found


def run(node):
    """A run from begin to end: how it ended, and what it said."""
    node.systemctl("reset-failed", VERIFY, check=False)
    since = node.now()
    node.systemctl("start", VERIFY, check=False)
    found = ended(node)
    assert found is not None, "systemctl start returned before the end"
    # Not by the invocation: journald does not learn it if the run ends before journald reads its words.
    found["said"] = node.journal("--since", since, unit=VERIFY)
    return found


def timer_state(node):
    state = node.show("ActiveState", "UnitFileState", unit=TIMER)
    return state["UnitFileState"], state["ActiveState"]


def driver(node):
    return next(one for one in node.status()["drivers"] if one["id"] == DRIVER)


@check
def the_timer_is_shipped_disabled_and_a_preset_of_all_units_leaves_it_so(node):
    node.settle()
    assert timer_state(node) == ("disabled", "inactive"), timer_state(node)
    service = node.show("ActiveState", "UnitFileState", unit=VERIFY)
    assert service == {"ActiveState": "inactive", "UnitFileState": "static"}, service
    # Debian's presets enable all that no preset names, as in the first boot of an image.
    node.systemctl("preset", UNIT, TIMER)
    assert node.show("UnitFileState")["UnitFileState"] == "enabled"
    assert timer_state(node) == ("disabled", "inactive"), timer_state(node)


@check
def a_run_has_its_limits(node):
    properties = ("TimeoutStartUSec", "MemoryMax", "TasksMax", "Nice", "LimitCORE")
    limits = node.show(*properties, unit=VERIFY)
    expected = {"TimeoutStartUSec": "3min", "MemoryMax": str(128 << 20), "TasksMax": "32", "Nice": "10",
                "LimitCORE": "0"}
    assert limits == expected, limits


@check
def without_the_daemon_a_run_is_skipped_and_starts_no_daemon(node):
    node.settle()
    node.systemctl("stop", UNIT)
    found = run(node)
    assert (found["ActiveState"], found["Result"], found["ConditionResult"]) == ("inactive", "success", "no"), found
    assert not node.is_active(), "it has started the daemon"
    node.settle()


@check
def after_a_crash_of_the_daemon_a_run_fails(node):
    node.settle()
    node.drop_in("[Service]\nRestart=no\n")
    node.systemctl("kill", "-s", "KILL", UNIT)
    eventually("the daemon has ended", lambda: not node.is_active())
    found = run(node)
    node.settle()
    assert (found["ActiveState"], found["ExecMainStatus"]) == ("failed", "1"), found


@check
def without_a_kubeconfig_a_run_fails_and_says_so(node):
    node.settle()
    found = run(node)
    assert (found["ActiveState"], found["ExecMainStatus"]) == ("failed", "69"), found
    assert "kubeconfig" in found["said"], found["said"]
    assert driver(node)["in_cluster"] is None, driver(node)


@check
def the_enabled_timer_runs_the_service_and_waits_for_five_minutes_and_a_random_delay(node):
    node.settle()
    node.drop_in(AT_ONCE, unit=TIMER)
    started = lambda: node.show("ExecMainStartTimestampMonotonic", unit=VERIFY)["ExecMainStartTimestampMonotonic"]
    before = started()
    node.systemctl("enable", "--now", TIMER)
    try:
        eventually("the timer has started the service", lambda: started() != before)
        eventually("the run has ended", lambda: ended(node))
        # As shipped: the change of the file is read without a restart of the timer.
        node.drop_in(None, unit=TIMER)
        assert timer_state(node) == ("enabled", "active"), timer_state(node)
        shipped = node.systemctl("show", TIMER, "-p", "TimersMonotonic,RandomizedDelayUSec").stdout
        for line in ("{ OnUnitInactiveUSec=5min ", "{ OnBootUSec=2min ", "{ OnActiveUSec=2min ", "RandomizedDelayUSec=2min"):
            assert line in shipped, shipped
        # The run of the boot may still be to come.
        assert 0 < seconds_to_the_next_run(node) <= 430, seconds_to_the_next_run(node)
    finally:
        node.drop_in(None, unit=TIMER)
        node.systemctl("disable", "--now", TIMER)


@check
def a_timer_that_is_restarted_has_a_next_run(node):
    node.settle()
    node.systemctl("enable", "--now", TIMER)
    try:
        # Without a run of the service to count from.
        node.systemctl("restart", TIMER)
        eventually("the timer has a next run", lambda: next_run(node))
        assert 0 < seconds_to_the_next_run(node) <= 430, seconds_to_the_next_run(node)
    finally:
        node.systemctl("disable", "--now", TIMER)


def next_run(node):
    """None while the service runs."""
    return json.loads(node.systemctl("list-timers", "--all", "--output=json", TIMER).stdout)[0]["next"]


def seconds_to_the_next_run(node):
    return next_run(node) / 1e6 - float(node.run("date", "+%s.%N").stdout)


@check
def a_driver_that_the_cluster_has_lost_is_announced_once_and_is_then_in_the_cluster(node):
    node.settle()
    cluster = ApiServer(node)
    cluster.start()
    try:
        node.age_registrations()
        cluster.follow(without={DRIVER})
        before = driver(node)["announcements"]
        node.systemctl("start", "--no-block", VERIFY)
        announced = lambda: driver(node)["announcements"] > before
        eventually("the driver is announced", lambda: announced() or ended(node), ANNOUNCED)
        assert announced(), node.journal("-n", "20", unit=VERIFY)
        eventually("the kubelet has it again", lambda: driver(node)["phase"] == "registered")
        cluster.follow()
        found = eventually("the run has ended", lambda: ended(node))
        assert (found["ActiveState"], found["Result"]) == ("inactive", "success"), found
        agrees(node, before + 1)
        # What is as it should be is left alone.
        found = run(node)
        assert found["Result"] == "success", found
        agrees(node, before + 1)

        users = {request["user"] for request in cluster.requests()}
        assert users == {f"system:node:{NODE}"}, users
        said = node.run("journalctl", "-q", "-o", "export", "-b").stdout
        told = [secret for secret in cluster.secrets() if secret in said]
        assert not told, f"the journal has {len(told)} lines of the kubelet's credentials"
        assert not wide_files(node), wide_files(node)
    finally:
        cluster.stop()


def agrees(node, announcements):
    found = driver(node)
    assert found["in_cluster"] is True and found["cluster_checked"], found
    assert found["announcements"] == announcements, found


def wide_files(node):
    """Files of the runtime directory that another user could read, or that root does not own."""
    files = [path for path in node.path(RUNTIME).iterdir() if path.is_file()]
    assert len(files) > 2, f"{files}: verify has written nothing"
    status = {path: path.stat() for path in files}
    return [str(path) for path, found in status.items() if stat.S_IMODE(found.st_mode) != 0o600 or found.st_uid]


@check
def an_api_server_that_is_gone_is_a_failure_of_the_run_and_of_nothing_else(node):
    node.settle()
    cluster = ApiServer(node)
    cluster.start()
    try:
        found = run(node)
        assert found["Result"] == "success", found
        before = driver(node)
        node.systemctl("stop", "test-api-server")
        found = run(node)
        assert (found["ActiveState"], found["ExecMainStatus"]) == ("failed", "69"), found
        after = driver(node)
        assert {**after, "reason": ""} == {**before, "reason": ""}, (before, after)
        assert re.search(r"https://127\.0\.0\.1:\d+", found["said"]), found["said"]
    finally:
        cluster.stop()
        node.systemctl("reset-failed", VERIFY, check=False)
