"""The sandboxes: each directive refuses what it should, and nothing that the daemon or verify needs."""

import json
import re
from pathlib import Path

from check import check
from host import UNIT, VERIFY

EXAMPLES = "/usr/share/doc/node-storage-driver-registrar/examples"
# docs/packaging.md has the figures of the day.
EXPOSURE = {UNIT: 1.0, VERIFY: 2.5}
# What a unit must not be refused; a probe of these names tries it.
NEEDS = {
    UNIT: {"needs systemd", "needs journal", "needs pidfd", "needs boot id"},
    VERIFY: {"needs systemd", "needs boot id", "needs files of root", "needs kubelet", "needs sockets",
             "needs runtime directory", "needs tcp", "needs names"},
}

# Directives that shape the service and not its sandbox; other checks exercise them.
ELSEWHERE = {
    "Type", "ExecStart", "ExecReload", "Restart", "RestartSec",
    "RestartPreventExitStatus", "StartLimitInterval", "WatchdogSec", "RuntimeDirectory",
    "RuntimeDirectoryPreserve", "KillMode", "TimeoutStartSec", "MemoryMax", "TasksMax", "Nice",
}
# How system calls are refused, which every probe of them shows: an error, not a signal. What the unit may write in
# spite of ReadOnlyPaths=, which the needs show.
SHOWN_BY_OTHERS = {"SystemCallErrorNumber", "ReadWritePaths"}
# Groups without a call on an architecture; a kernel may leave out 32-bit programs.
ABSENT = {
    "aarch64": {"SystemCallFilter @cpu-emulation", "SystemCallFilter @obsolete", "SystemCallFilter @raw-io",
                "SystemCallArchitectures"},
}
# Nobody has ambient capabilities by default, and a container may not load modules: here only
# the unit as a whole can be looked at.
NOT_APART = {"AmbientCapabilities", "SystemCallFilter @module"}


def directives(node, unit):
    """The unit's lines in [Service], in their order."""
    unit = node.path(f"/usr/lib/systemd/system/{unit}").read_text()
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
        node.run("mknod", "--mode=600", device, "c", 1, 11)
    node.write("/opt/bed/listeners.py", (Path(__file__).parent / "listeners.py").read_text())
    node.write(
        "/run/systemd/system/listeners.service",
        "[Service]\nType=notify\nExecStart=/usr/bin/python3 /opt/bed/listeners.py\n",
    )
    for file in ("/etc/kubernetes/nsdr-probe", "/var/lib/kubelet/pki/nsdr-probe"):
        node.write(file, "", 0o600)
    hosts, resolver = node.path("/etc/hosts"), node.path("/etc/resolv.conf")
    hosts.write_text((hosts.read_text() if hosts.exists() else "127.0.0.1 localhost\n") + "127.0.0.1 hosts.nsdr.test\n")
    resolver.unlink(missing_ok=True)
    resolver.write_text("nameserver 127.0.0.1\n")
    node.systemctl("daemon-reload")
    node.systemctl("start", "listeners")
    # What a unit with mounts of its own does not have.
    namespace = node.run("readlink", "/proc/1/ns/mnt").stdout.strip()
    node.write("/var/log/nsdr-probe-mounts", namespace)


def probed(node, lines, *names):
    """What probes say from inside a unit with these lines."""
    answers = node.path("/var/log/probe.json")
    # "truncate:" is not known before systemd 248.
    answers.unlink(missing_ok=True)
    node.write(
        "/run/systemd/system/probe.service",
        "[Service]\nType=oneshot\nStandardOutput=file:/var/log/probe.json\n"
        + "".join(f"{name}={value}\n" for name, value in lines)
        + "ExecStart=/usr/bin/python3 /opt/bed/probe.py "
        + " ".join(f'"{name}"' for name in names)
        + "\n",
    )
    node.systemctl("daemon-reload")
    node.systemctl("start", "probe")
    return json.loads(answers.read_text())


def absent(answers):
    """The probes that have nothing to try on this architecture, with the reason."""
    return {name: answer["absent"] for name, answer in answers.items() if isinstance(answer, dict)}


def sandbox(node, unit):
    return [line for line in directives(node, unit) if line[0] not in ELSEWHERE]


def probes_of(line, known):
    """The names of a line's probes: a probe of this very value goes first, and a list has one for each element."""
    name, value = line
    if name in SHOWN_BY_OTHERS:
        return []
    if name == "SystemCallFilter":
        return [f"{name} {one}" for one in value.lstrip("~").split()]
    exact = f"{name} {value}"
    return [exact if exact in known else name]


@check
def every_directive_of_each_unit_has_a_probe(node):
    prepare(node)
    known = probed(node, []).keys()
    for unit in (UNIT, VERIFY):
        names = [name for line in sandbox(node, unit) for name in probes_of(line, known)]
        missing = [name for name in names if name not in known]
        assert not missing, f"{unit}: {missing} has no probe"


@check
def every_probe_has_something_to_try_or_says_why_not(node):
    prepare(node)
    found = absent(probed(node, []))
    for name, why in found.items():
        print(f"# no probe of {name}: {why}", flush=True)
    machine = node.run("uname", "-m").stdout.strip()
    unexpected = found.keys() - ABSENT.get(machine, set())
    assert not unexpected, f"{machine}: {unexpected}"


@check
def each_unit_refuses_every_probe_and_nothing_that_its_program_needs(node):
    node.settle()
    prepare(node)
    known = probed(node, []).keys()
    for unit in (UNIT, VERIFY):
        lines = sandbox(node, unit)
        answers = probed(node, lines)
        refused = {name for line in lines for name in probes_of(line, known)} - absent(answers).keys()
        got_through = [name for name in refused if answers[name] is None]
        assert not got_through, f"{unit}: not refused: {got_through}"
        missed = {name: answers[name] for name in NEEDS[unit] if answers[name] is not None}
        assert not missed, f"{unit}: refused though needed: {missed}"
        assert answers["needs loopback"] is not None, f"{unit}: it may listen on loopback"


@check
def each_directive_refuses_its_probe_by_itself(node):
    """And without it the probe gets through, or it would prove nothing."""
    prepare(node)
    bare = probed(node, [])
    wrong = []
    for line in dict.fromkeys(sandbox(node, UNIT) + sandbox(node, VERIFY)):
        if line[0] in SHOWN_BY_OTHERS | NOT_APART:
            continue
        lines, names = [line], probes_of(line, bare)
        if line[0] == "SystemCallFilter":
            lines.append(("SystemCallErrorNumber", "EPERM"))
        alone = probed(node, lines, *names)
        for one in names:
            if one in NOT_APART | absent(bare).keys():
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
    answers = probed(node, sandbox(node, UNIT) + lines, "needs loopback", "ProtectSystem")
    assert answers["needs loopback"] is None, answers
    assert answers["ProtectSystem"] is not None, answers


@check
def the_exposure_is_low(node):
    def level(unit=UNIT):
        said = node.run("systemd-analyze", "security", "--no-pager", unit).stdout
        return float(re.search(r"level for .*: (\d+\.\d+)", said).group(1))

    node.drop_in(None)
    shipped = {unit: level(unit) for unit in EXPOSURE}
    levels = [f"{shipped[UNIT]} as shipped"]
    for example in ("http-tcp.conf", "driver-of-another-user.conf"):
        node.drop_in(node.path(f"{EXAMPLES}/{example}").read_text())
        levels.append(f"{level()} with {example}")
    node.drop_in(None)
    levels.append(f"{shipped[VERIFY]} of verify")
    # docs/packaging.md has these figures.
    print(f"# exposure: {', '.join(levels)}", flush=True)
    too_high = {unit: found for unit, found in shipped.items() if found > EXPOSURE[unit]}
    assert not too_high, too_high


@check
def only_the_main_process_is_asked_to_end(node):
    # A helper of the daemon's would be killed before it could tell a stop from a restart.
    assert node.show("KillMode")["KillMode"] == "mixed"
