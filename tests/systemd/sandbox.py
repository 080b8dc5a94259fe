"""The sandbox: each directive refuses what it should, and nothing that the daemon needs."""

import json
import os
import re
import stat
from pathlib import Path

from check import check
from container import eventually
from host import UNIT

EXAMPLES = "/usr/share/doc/node-storage-driver-registrar/examples"
EXPOSURE = 1.0

# Directives that shape the service and not its sandbox; other checks exercise them.
ELSEWHERE = {
    "Type", "EnvironmentFile", "ExecStart", "ExecReload", "Restart", "RestartSec",
    "RestartPreventExitStatus", "StartLimitInterval", "WatchdogSec", "RuntimeDirectory",
    "RuntimeDirectoryPreserve", "KillMode",
}
# How system calls are refused, which every probe of them shows: an error, not a signal.
SHOWN_BY_OTHERS = {"SystemCallErrorNumber"}
# Nobody has ambient capabilities by default, and a container may not load modules: here only
# the unit as a whole can be looked at.
NOT_APART = {"AmbientCapabilities", "SystemCallFilter @module"}


def directives(node):
    """The unit's lines in [Service], in their order."""
    unit = node.path(f"/usr/lib/systemd/system/{UNIT}").read_text()
    service = unit.split("[Service]")[1].split("[Install]")[0]
    return [line.partition("=")[::2] for line in service.splitlines() if re.match(r"\w+=", line)]


def prepare(node):
    if node.path("/opt/bed/probe.py").exists():
        return
    node.write("/opt/bed/probe.py", (Path(__file__).parent / "probe.py").read_text())
    for directory in ("/root", "/home", "/tmp", "/var/tmp", "/usr/lib/modules"):
        node.write(f"{directory}/nsdr-probe", "")
    # The kernel's log, which a container does not have, and once more under a name that no
    # directive knows.
    for device in ("/dev/kmsg", "/dev/nsdr-probe"):
        node.path(device).unlink(missing_ok=True)
        os.mknod(node.path(device), 0o600 | stat.S_IFCHR, os.makedev(1, 11))
    node.write(
        "/run/systemd/system/abstract.service",
        "[Service]\nExecStart=/usr/bin/python3 -c 'import socket, signal; s = socket.socket("
        'socket.AF_UNIX); s.bind("\\\\0nsdr-probe"); s.listen(); signal.pause()\'\n',
    )
    node.systemctl("daemon-reload")
    node.systemctl("start", "abstract")
    listening = lambda: "@nsdr-probe" in node.run("cat", "/proc/net/unix").stdout
    eventually("the abstract socket is there", listening, 10)
    # What a unit with mounts of its own does not have.
    namespace = os.readlink(f"/proc/{node.container.leader}/ns/mnt")
    node.write("/var/log/nsdr-probe-mounts", namespace)


def probed(node, lines, *names):
    """What probes say from inside a unit with these lines."""
    node.write(
        "/run/systemd/system/probe.service",
        "[Service]\nType=oneshot\nStandardOutput=truncate:/var/log/probe.json\n"
        + "".join(f"{name}={value}\n" for name, value in lines)
        + "ExecStart=/usr/bin/python3 /opt/bed/probe.py "
        + " ".join(f'"{name}"' for name in names)
        + "\n",
    )
    node.systemctl("daemon-reload")
    node.systemctl("start", "probe")
    return json.loads(node.path("/var/log/probe.json").read_text())


def sandbox(node):
    return [line for line in directives(node) if line[0] not in ELSEWHERE]


@check
def every_directive_of_the_unit_has_a_probe(node):
    prepare(node)
    names = probed(node, []).keys()
    for name, value in sandbox(node):
        if name in SHOWN_BY_OTHERS:
            continue
        if name == "SystemCallFilter":
            missing = [one for one in value.lstrip("~").split() if f"{name} {one}" not in names]
            assert not missing, f"{name}: {missing}"
        else:
            assert name in names, f"{name} has no probe"


@check
def the_unit_refuses_every_probe_and_nothing_that_the_daemon_needs(node):
    prepare(node)
    answers = probed(node, sandbox(node))
    needs = {"needs systemd", "needs journal", "needs pidfd", "needs boot id"}
    got_through = [name for name in answers if not name.startswith("needs") and answers[name] is None]
    assert not got_through, f"not refused: {got_through}"
    missed = {name: answers[name] for name in needs if answers[name] is not None}
    assert not missed, f"refused though needed: {missed}"
    assert answers["needs loopback"] is not None, "loopback is there without the drop-in"


@check
def each_directive_refuses_its_probe_by_itself(node):
    """And without it the probe gets through, or it would prove nothing."""
    prepare(node)
    bare = probed(node, [])
    wrong = []
    for name, value in sandbox(node):
        if name in SHOWN_BY_OTHERS | NOT_APART:
            continue
        lines, names = [(name, value)], [name]
        if name == "SystemCallFilter":
            lines.append(("SystemCallErrorNumber", "EPERM"))
            names = [f"{name} {one}" for one in value.lstrip("~").split()]
        alone = probed(node, lines, *names)
        for one in names:
            if one in NOT_APART:
                continue
            if bare[one] is not None:
                wrong.append(f"{one}: refused without it: {bare[one]}")
            elif alone[one] is None:
                wrong.append(f"{one}: not refused")
    assert not wrong, "; ".join(wrong)


@check
def the_drop_in_for_tcp_lets_loopback_through(node):
    prepare(node)
    example = node.path(f"{EXAMPLES}/http-tcp.conf").read_text()
    lines = [line.partition("=")[::2] for line in example.splitlines() if re.match(r"\w+=", line)]
    answers = probed(node, sandbox(node) + lines, "needs loopback", "ProtectSystem")
    assert answers["needs loopback"] is None, answers
    assert answers["ProtectSystem"] is not None, answers


@check
def the_exposure_is_low(node):
    def level():
        said = node.run("systemd-analyze", "security", "--no-pager", UNIT).stdout
        return float(re.search(r"level for .*: (\d+\.\d+)", said).group(1))

    node.drop_in(None)
    shipped = level()
    levels = [f"{shipped} as shipped"]
    for example in ("http-tcp.conf", "driver-of-another-user.conf"):
        node.drop_in(node.path(f"{EXAMPLES}/{example}").read_text())
        levels.append(f"{level()} with {example}")
    node.drop_in(None)
    # docs/packaging.md has these figures.
    print(f"# exposure: {', '.join(levels)}", flush=True)
    assert shipped <= EXPOSURE, shipped


@check
def only_the_main_process_is_asked_to_end(node):
    # A helper of the daemon's would be killed before it could tell a stop from a restart.
    assert node.show("KillMode")["KillMode"] == "mixed"
