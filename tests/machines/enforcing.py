"""SELinux enforcing: no denial is ours, and what a confined kubelet needs.

The policy is Debian's, which is the reference policy. It stands in for that of an RPM distribution, which is not to be
had here: the two have types in common, and not their rules.
"""

import re

from check import check
from container import eventually
from host import DRIVER, KUBELET, PROGRAM, REGISTRY, UNIT
from test_kubelet import LEDGER

BOOLEAN = "nsdr_kubelet_connects"
PROGRAM_OF_KUBELET = "/opt/bed/test-kubelet"
# A confined kubelet has neither the test's FIFO nor its ledger.
CONFINED = f"""\
[Service]
ExecStartPre=
ExecStart=
ExecStart=/bin/sh -c 'sleep infinity | {PROGRAM_OF_KUBELET} {KUBELET} 1.36 {KUBELET}/objects.json | cat >>{LEDGER}'
"""
# The daemon by its program and its process's name, and whatever lies in a directory that it uses.
OURS = re.compile(r"node-storage-dr|vdata|-reg\.sock|plugins_registry|csi\.sock")


def denials(node):
    """Every denial since the first boot, each as (type of the process, type of the object, class, permissions, text)."""
    # Before auditd runs the kernel's log has them; ausearch would read them from its standard input.
    logged = node.run("ausearch", "--input-logs", "--raw", "-m", "AVC,USER_AVC,SELINUX_ERR,USER_SELINUX_ERR", check=False)
    early = node.run("journalctl", "-q", "-o", "cat", "_TRANSPORT=kernel", "--grep=avc: ", check=False)
    events = {}
    for line in (logged.stdout + early.stdout).splitlines():
        event = re.search(r"audit\([\d.]+:\d+\)", line)
        if event:
            events.setdefault(event[0], []).append(line)
    found = []
    for lines in events.values():
        # The other lines of an event have the program.
        text = " ".join(lines)
        for line in lines:
            denied = re.search(
                r"denied +\{ ([\w ]+) \}.* scontext=\w+:\w+:(\w+)\S* tcontext=\w+:\w+:(\w+)\S* tclass=(\w+)", line
            )
            if denied:
                found.append((denied[2], denied[3], denied[4], set(denied[1].split()), text))
            elif "SELINUX_ERR" in line:
                found.append(("", "", "", set(), text))
    return found


def ours(node):
    """The denials that concern the daemon or its directories."""
    return [denial for denial in denials(node) if OURS.search(denial[4])]


def domain(node, pid):
    return node.path(f"/proc/{pid}/attr/current").read_text().rstrip("\0\n").split(":")[2]


def type_of(node, path):
    return node.run("stat", "--format=%C", path).stdout.strip().split(":")[2]


def doctor(node):
    return node.run(PROGRAM, "doctor", check=False).stdout


@check
def no_denial_is_ours_in_all_of_the_above(node):
    node.settle()
    assert node.run("getenforce").stdout.strip() == "Enforcing"
    driver = node.show("MainPID", unit=f"driver@{DRIVER}")["MainPID"]
    kubelet = node.show("MainPID", unit="kubelet")["MainPID"]
    print(
        f"# domains: daemon {domain(node, node.pid())}, driver {domain(node, driver)},"
        f" kubelet {domain(node, kubelet)}; {REGISTRY} is {type_of(node, REGISTRY)};"
        f" {len(denials(node))} denials in all", flush=True,
    )
    assert not ours(node), ours(node)


@check
def the_label_of_the_policy_disturbs_no_unconfined_kubelet_and_the_doctor_warns(node):
    node.run("restorecon", "-RF", "/vdata", KUBELET)
    assert type_of(node, REGISTRY) == "default_t", type_of(node, REGISTRY)
    node.settle()
    assert "(type default_t)" in doctor(node), doctor(node)
    node.systemctl("stop", UNIT)
    node.wait_deregistered()
    node.settle()
    assert not ours(node), ours(node)


@check
def a_confined_kubelet_is_denied_until_it_has_the_label_and_the_rule(node):
    node.settle()
    node.systemctl("stop", UNIT, "kubelet")
    node.run("chcon", "-t", "kubelet_exec_t", PROGRAM_OF_KUBELET)
    node.drop_in(CONFINED, unit="kubelet.service")

    def denied(kind, tclass, permission):
        return any(
            one[:3] == ("kubelet_t", kind, tclass) and permission in one[3] for one in ours(node)
        )

    try:
        node.systemctl("start", "kubelet", UNIT)
        eventually("the kubelet may not enter /vdata", lambda: denied("default_t", "dir", "search"))
        # The label of a directory is of no use if the kubelet may not enter the one above it.
        node.run("chcon", "-R", "-t", "container_file_t", "/vdata")
        eventually("the kubelet may not connect", lambda: denied("initrc_t", "unix_stream_socket", "connectto"))
        assert node.phase() != "registered", node.phase()
        node.run("setsebool", BOOLEAN, "1")
        node.wait_phase("registered")
        node.wait_registered()
        pid = node.run("pidof", PROGRAM_OF_KUBELET).stdout.strip()
        assert domain(node, pid) == "kubelet_t", domain(node, pid)
        assert "SELinux" not in doctor(node), doctor(node)
        before = len(ours(node))
        node.unnoticed(lambda: node.systemctl("restart", UNIT))
        node.wait_phase("registered")
        node.systemctl("stop", UNIT)
        node.wait_deregistered()
        assert len(ours(node)) == before, ours(node)[before:]
    finally:
        node.drop_in(None, unit="kubelet.service")


@check
def a_denial_of_the_daemon_is_counted(node):
    """Or the checks above would prove nothing."""
    confined = "system_u:system_r:getty_t:s0"
    refused = node.run("runcon", confined, PROGRAM, "--version", check=False)
    assert refused.returncode != 0, refused.stdout
    eventually("it is counted", lambda: any("getty_t" in one[:2] and PROGRAM in one[4] for one in ours(node)))
