"""The gate of a rollout: what each command says, and its exit code, as the table in docs/fleet.md has them."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import system
from check import check
from container import eventually
from host import DRIVER, PLUGINS, PROGRAM, RUNTIME, UNIT
from serving import ask

CONFIG = "60-gate.toml"
BAD = "70-bad.toml"
CHANGED = "80-changed.toml"
SOCKET = f"{RUNTIME}/http.sock"
MISSING = "missing.csi.test"
FOUND = "found.csi.test"
# In its place: two seconds, on a machine that is not slow.
TIMEOUT = object()
COMMANDS = {
    "status": ("status",),
    "wait": ("wait", "--timeout", TIMEOUT),
    "wait --strict": ("wait", "--strict", "--timeout", TIMEOUT),
    "doctor": ("doctor",),
}
PAGE = Path(__file__).parents[2] / "docs/fleet.md"
# Cases of the table, by their first words.
ALL_READY = "every driver is ready"
STOPPED = "a driver stopped"
DECLARED_MISSING = "a declared driver is missing"
NOT_STARTED = "a discovered driver did not start"
CONFLICT = "a conflict"
REFUSED = "the daemon refused the configuration"
BAD_ON_DISK = "the configuration on disk is bad"
CHANGED_ON_DISK = "the configuration on disk has changed"
NO_DRIVERS = "no drivers"
NO_DAEMON = "the daemon does not run"


def refusing(case):
    """The commands that are not satisfied in a case of the table."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    names = next(row[1:] for row in rows if row[0] == "case")
    found = [row[1:] for row in rows if row[0].startswith(case)]
    assert len(found) == 1, f"{PAGE} has {len(found)} rows for '{case}'"
    return {name for name, code in zip(names, found[0], strict=True) if not code.startswith("0")}


def commands(node):
    """Whether each command of the gate is satisfied, and what it says."""

    def run(command):
        words = [f"{2 * system.slowness}s" if word is TIMEOUT else word for word in command]
        done = node.run(PROGRAM, *words, check=False)
        assert done.returncode in (0, 1), f"{command}: {done.returncode}: {done.stderr}"
        return done.returncode == 0, done.stdout + done.stderr

    # At the same time: two of them wait until their timeout.
    with ThreadPoolExecutor() as threads:
        return dict(zip(COMMANDS, threads.map(run, COMMANDS.values())))


def readyz(node):
    answer = ask(node, SOCKET, "/readyz")
    assert answer.startswith(("200 ", "503 ")), answer
    return answer.startswith("200 "), answer


def says(node, case, *words):
    """The commands are satisfied as the table has it, and those that are not have all these words."""
    names = refusing(case)
    said = commands(node) | {"/readyz": readyz(node)}
    refused = {name for name, (satisfied, _) in said.items() if not satisfied}
    assert refused == names, f"{case}: not satisfied: {sorted(refused)}, expected {sorted(names)}: {said}"
    for name in names:
        for word in words:
            assert word in said[name][1], f"{name} does not say {word}: {said[name][1]}"
    return {name: text for name, (_, text) in said.items()}


def driver(node, name):
    return next(one for one in node.status()["drivers"] if one["id"] == name)


def declare(node, *names):
    """The drivers of the configuration; discovery finds others, as shipped."""
    node.configure(None)
    tables = "".join(f'[drivers."{name}"]\n' for name in names)
    node.configure(f'{tables}[http]\nlisten = "unix:{SOCKET}"\n', CONFIG)


def begin(node):
    """One declared driver, well; no directory of another driver, for each counts here."""
    node.settle()
    for directory in node.path(PLUGINS).iterdir():
        if directory.name != DRIVER:
            node.systemctl("stop", f"driver@{directory.name}")
            shutil.rmtree(directory)
    declare(node, DRIVER)
    node.systemctl("restart", UNIT)
    node.wait_phase("registered")
    eventually("http is served", lambda: ask(node, SOCKET, "/healthz") == "200 ok")
    says(node, ALL_READY)


def end(node, *drivers):
    node.configure(None, CONFIG)
    for name in drivers:
        node.systemctl("stop", f"driver@{name}")
        shutil.rmtree(node.path(f"{PLUGINS}/{name}"), ignore_errors=True)


@check
def after_a_reboot_the_gate_names_each_driver_that_does_not_run_and_opens_when_all_run(node):
    begin(node)
    # Both run now; the boot starts neither.
    declare(node, DRIVER, MISSING)
    node.systemctl("start", f"driver@{MISSING}", f"driver@{FOUND}")
    node.systemctl("restart", UNIT)
    for name in (MISSING, FOUND):
        node.wait_phase("registered", name)
    node.systemctl("enable", f"driver@{DRIVER}")

    def shut_down():
        # As a driver does that removes its socket when it ends.
        for name in (MISSING, FOUND):
            (node.container.root / PLUGINS.lstrip("/") / name / "csi.sock").unlink()

    try:
        node.container.reboot(shut_down)
        node.wait_phase("registered")
        said = says(node, DECLARED_MISSING, MISSING)
        for name in ("status", "wait", "wait --strict", "doctor"):
            assert FOUND in said[name], f"{name} does not say {FOUND}: {said[name]}"
        assert DRIVER not in said["/readyz"], said["/readyz"]

        node.systemctl("start", f"driver@{MISSING}")
        node.wait_phase("registered", MISSING)
        said = says(node, NOT_STARTED, FOUND)
        for name in ("status", "doctor"):
            assert FOUND in said[name], f"{name} does not say {FOUND}: {said[name]}"
        assert "warning" in said["doctor"], said["doctor"]
        notes = node.status()["notes"]
        assert any(FOUND in note for note in notes), notes

        node.systemctl("start", f"driver@{FOUND}")
        node.wait_phase("registered", FOUND)
        says(node, ALL_READY)
        assert node.status()["notes"] == [], node.status()["notes"]
    finally:
        node.systemctl("disable", f"driver@{DRIVER}")
        end(node, MISSING, FOUND)


@check
def a_driver_that_stops_while_it_is_registered_closes_the_gate(node):
    begin(node)
    try:
        node.systemctl("stop", f"driver@{DRIVER}")
        eventually("it is seen", lambda: not driver(node, DRIVER)["answering"], 10)
        assert driver(node, DRIVER)["phase"] == "registered"
        says(node, STOPPED, DRIVER)
        node.systemctl("start", f"driver@{DRIVER}")
        eventually("it is seen", lambda: driver(node, DRIVER)["answering"], 10)
        says(node, ALL_READY)
    finally:
        end(node)


@check
def a_conflict_closes_the_gate(node):
    begin(node)
    node.link(FOUND).mkdir()
    try:
        node.systemctl("start", f"driver@{FOUND}")
        node.wait_phase("conflict", FOUND)
        says(node, CONFLICT, FOUND)
        node.link(FOUND).rmdir()
        node.wait_phase("registered", FOUND)
        says(node, ALL_READY)
    finally:
        if node.link(FOUND).is_dir():
            node.link(FOUND).rmdir()
        end(node, FOUND)


@check
def a_refused_reload_closes_the_gate_and_leaves_the_drivers_alone(node):
    begin(node)
    before = node.pid()
    node.configure("plugins_dir = 3\n", BAD)
    try:
        # Nothing has been reloaded, but the next start would fail.
        says(node, BAD_ON_DISK, BAD)
        refused = node.systemctl("reload", UNIT, check=False).returncode
        assert refused != 0, "the reload was not refused"
        says(node, REFUSED, BAD)
        notes = node.status()["notes"]
        assert any(BAD in note for note in notes), notes
        assert node.pid() == before and node.phase() == "registered"
    finally:
        node.configure(None, BAD)
    node.systemctl("reload", UNIT)
    says(node, ALL_READY)
    end(node)


@check
def a_changed_configuration_closes_the_gate_until_the_daemon_has_read_it(node):
    begin(node)
    node.configure('[log]\nlevel = "debug"\n', CHANGED)
    try:
        says(node, CHANGED_ON_DISK, CHANGED, "systemctl reload")
        node.systemctl("reload", UNIT)
        says(node, ALL_READY)
    finally:
        node.configure(None, CHANGED)
    # The directory alone tells that a file is gone.
    says(node, CHANGED_ON_DISK, "config.d", "systemctl reload")
    node.systemctl("reload", UNIT)
    says(node, ALL_READY)
    end(node)


@check
def a_node_without_drivers_closes_the_gate(node):
    begin(node)
    node.systemctl("stop", f"driver@{DRIVER}")
    shutil.rmtree(node.path(f"{PLUGINS}/{DRIVER}"))
    declare(node)
    try:
        node.systemctl("restart", UNIT)
        eventually("http is served", lambda: ask(node, SOCKET, "/healthz") == "200 ok")
        said = says(node, NO_DRIVERS, "no drivers")
        assert "warning" in said["doctor"], said["doctor"]
    finally:
        end(node)


@check
def without_a_daemon_every_command_of_the_gate_says_so(node):
    node.systemctl("stop", UNIT)
    try:
        said = commands(node)
        satisfied = {name for name, (satisfied, _) in said.items() if satisfied}
        assert not satisfied & refusing(NO_DAEMON), said
    finally:
        node.systemctl("start", UNIT)
