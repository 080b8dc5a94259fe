"""Drivers as services: their order at a shutdown, and whether the kubelet sees their mounts."""

import re
import shutil
from pathlib import Path

from check import check
from container import eventually
from host import KUBELET, PLUGINS, PROGRAM, UNIT
from sandbox import EXAMPLES

PAGE = Path(__file__).parents[2] / "docs/troubleshooting.md"
# Values of the directives that make a mount namespace.
VALUES = {
    "ProtectProc": "invisible",
    "ProcSubset": "pid",
    "MountFlags": "slave",
    "LogNamespace": "x",
    "IPCNamespacePath": "/proc/1/ns/ipc",
    "NetworkNamespacePath": "/proc/1/ns/net",
}
# They need an image, or make no mount namespace by themselves: the service sees another directory.
NOT_TRIED = {"RootDirectory", "RootImage", "RootMStack", "MountImages", "ExtensionImages", "ExtensionDirectories"}
# The first systemd that knows a directive; one before 247 is not tried.
SINCE = {
    "ExecPaths": 248,
    "NoExecPaths": 248,
    "PrivateIPC": 248,
    "IPCNamespacePath": 248,
    "BindLogSockets": 257,
    "PrivatePIDs": 257,
    "PrivateBPF": 258,
}
# systemd ignores a directive that it does not know.
UNKNOWN = "Unknown assignment"
# A container has no /sys/fs/bpf: systemd ends the service while it sets up the mount namespace.
NOT_SET_UP = {"PrivateBPF=yes"}
EXIT_NAMESPACE = 226
# Near misses: they restrict a service, and leave it in the node's mount namespace.
NO_NAMESPACE = ("MountFlags=shared", "ProtectHostname=yes", "ProtectClock=yes", "PrivateUsers=yes",
                "StateDirectory=x", "NoNewPrivileges=yes", "PrivateNetwork=yes PrivateMounts=no")

SANDBOXED = "sandboxed.csi.test"
SERVICE = "/etc/systemd/system/sandboxed.service"
DROP_IN = "/etc/systemd/system/sandboxed.service.d/harden.conf"
CONFIG = "60-drivers.toml"
PODS = f"{KUBELET}/pods"
EXEC = f"ExecStart=/opt/bed/fake-driver {PLUGINS}/{SANDBOXED}/csi.sock {SANDBOXED}\n"

EXAMPLE = "hostpath"
EXAMPLE_DRIVER = "hostpath.csi.k8s.io"
LAST_CALL = "/var/log/last-call"
# The last call of a kubelet that takes a second to stop: NodeGetInfo stands in for NodeUnpublishVolume,
# which needs the same driver.
LAST_CALL_UNIT = f"""\
[Service]
ExecStop=/bin/sh -c 'sleep 1; {PROGRAM} inspect --json {PLUGINS}/{EXAMPLE_DRIVER}/csi.sock; echo $? >{LAST_CALL}'
"""


def namespace(node, directives):
    """The mount namespace of a service with these directives; empty if systemd does not know one of them."""
    properties = [word for directive in directives.split() for word in ("-p", directive)]
    done = node.run(
        "systemd-run", "-q", "--wait", "--pipe", *properties, "readlink", "/proc/self/ns/mnt", check=False
    )
    if directives in NOT_SET_UP and done.returncode == EXIT_NAMESPACE:
        return "a mount namespace that is not complete"
    assert done.stdout or UNKNOWN in done.stderr, f"{directives}: {done.returncode}: {done.stderr}"
    return done.stdout.strip()


def directives():
    """The directives in the page, and those that make a namespace with later releases only."""
    section = PAGE.read_text().split("\n#### Directives that make a mount namespace\n")[1]
    listed, later = re.search(r"\n(- .*?)\n(- On systemd newer than 252: .*?)\n\n", section, re.DOTALL).groups()
    found = [re.findall(r"`(\w+)=`", part) for part in (listed, later)]
    assert [len(names) for names in found] == [36, 3], found
    return found


@check
def each_directive_that_the_page_names_makes_a_mount_namespace_by_itself(node):
    version = node.systemd()
    host = node.run("readlink", "/proc/1/ns/mnt").stdout.strip()
    wrong, unknown = [], []
    listed, later = directives()
    for name in [*listed, *later]:
        if name in NOT_TRIED:
            continue
        is_list = re.search(r"Paths$|Directories$|^Temporary", name)
        value = VALUES.get(name, "/srv" if is_list else "yes")
        seen = namespace(node, f"{name}={value}")
        if version < SINCE.get(name, 0):
            unknown.append(name)
            if seen:
                wrong.append(f"{name}: systemd {version} knows it")
            continue
        expected = name not in later or version > 252
        if not seen or (seen != host) != expected:
            wrong.append(f"{name}={value}: {seen or UNKNOWN}")
    for near in NO_NAMESPACE:
        if namespace(node, near) not in ("", host):
            wrong.append(f"{near} makes a namespace")
    if unknown:
        print(f"# systemd {version} does not know {', '.join(unknown)}", flush=True)
    assert not wrong, wrong


def doctor(node):
    done = node.run(PROGRAM, "doctor", check=False)
    assert done.returncode in (0, 1), f"{done.returncode}: {done.stderr}"
    return done.returncode, done.stdout


def restart(node):
    node.systemctl("daemon-reload")
    node.systemctl("restart", "sandboxed")
    node.systemctl("reload", UNIT)
    node.wait_phase("registered", SANDBOXED)


def kubelet_sees(node, path):
    """Whether the kubelet sees a mount that the driver makes at this path."""
    node.path(path).mkdir(parents=True, exist_ok=True)
    driver = node.show("MainPID", unit="sandboxed")["MainPID"]
    kubelet = node.show("MainPID", unit="kubelet")["MainPID"]
    node.run("nsenter", "-t", driver, "-m", "mount", "-t", "tmpfs", "tmpfs", path)
    sees = f" {path} " in node.path(f"/proc/{kubelet}/mountinfo").read_text()
    node.run("nsenter", "-t", driver, "-m", "umount", path)
    return sees


def begin(node, unit):
    node.settle()
    node.path(PODS).mkdir(parents=True, exist_ok=True)
    node.write(SERVICE, unit)
    node.configure(f'[drivers."{SANDBOXED}"]\n', CONFIG)


def end(node):
    node.systemctl("stop", "sandboxed", check=False)
    node.path(SERVICE).unlink()
    node.path(DROP_IN).unlink(missing_ok=True)
    node.configure(None, CONFIG)
    forget(node, SANDBOXED)
    node.systemctl("reload", UNIT)


def forget(node, driver):
    """Nothing of a driver that has stopped is left for discovery to find."""
    shutil.rmtree(node.path(f"{PLUGINS}/{driver}"), ignore_errors=True)
    node.systemctl("daemon-reload")


@check
def the_doctor_names_the_unit_that_keeps_the_mounts_of_a_driver_from_the_kubelet(node):
    begin(node, f"[Unit]\nDescription=A driver\n\n[Service]\nPrivateTmp=yes\n{EXEC}")
    node.write(DROP_IN, "# A sandbox\n[Service]\nProtectSystem=yes\n")
    effect = "volumes are mounted where no pod sees them, and data is written to the node's own disk"
    try:
        restart(node)
        code, said = doctor(node)
        assert code == 1, said
        for words in (effect, "systemctl cat sandboxed.service", "systemctl restart sandboxed.service"):
            assert words in said, f"{words} is not in {said}"
        # So that the finding is true.
        assert not kubelet_sees(node, f"{PODS}/a")

        # A line that stays keeps the namespace.
        node.write(SERVICE, f"[Service]\n{EXEC}")
        restart(node)
        code, said = doctor(node)
        assert code == 1 and effect in said, said
        assert not kubelet_sees(node, f"{PODS}/b")

        # The lines are gone, and the process still has its namespace.
        node.path(DROP_IN).unlink()
        node.systemctl("daemon-reload")
        code, said = doctor(node)
        assert code == 1 and effect in said, said

        restart(node)
        code, said = doctor(node)
        assert code == 0, said
        assert kubelet_sees(node, f"{PODS}/c")
    finally:
        end(node)


@check
def a_driver_in_a_container_of_podman_is_told_the_volume_of_its_quadlet(node):
    # As podman runs the container of a quadlet: in a control group below the service, with mounts of its own.
    quadlet = "/etc/containers/systemd/sandboxed.container"
    group = "/sys/fs/cgroup/system.slice/sandboxed.service/libpod-payload-1"
    command = f"/opt/bed/fake-driver {PLUGINS}/{SANDBOXED}/csi.sock {SANDBOXED}"

    def unit(propagation):
        return (
            f"[Unit]\nSourcePath={quadlet}\n[Service]\nDelegate=yes\n"
            f"ExecStart=/bin/sh -c 'mkdir -p {group} && echo $$$$ >{group}/cgroup.procs &&"
            f" exec unshare --mount --propagation {propagation} {command}'\n"
        )

    begin(node, unit("slave"))
    try:
        restart(node)
        code, said = doctor(node)
        fix = f"in a quadlet: Volume={KUBELET}:{KUBELET}:rshared"
        assert code == 1 and fix in said, said
        assert not kubelet_sees(node, f"{PODS}/a")
        # As rshared leaves the mounts.
        node.write(SERVICE, unit("unchanged"))
        restart(node)
        code, said = doctor(node)
        assert code == 0, said
        assert kubelet_sees(node, f"{PODS}/b")
    finally:
        end(node)


@check
def at_a_shutdown_the_driver_of_an_example_answers_the_last_call_of_the_kubelet(node):
    node.settle()
    example = node.path(f"{EXAMPLES}/drivers/{EXAMPLE}.service").read_text()
    node.write(
        "/usr/local/bin/hostpathplugin",
        f"#!/bin/sh\nexec /opt/bed/fake-driver {PLUGINS}/{EXAMPLE_DRIVER}/csi.sock {EXAMPLE_DRIVER}\n",
        mode=0o755,
    )
    node.write("/etc/systemd/system/kubelet.service.d/last-call.conf", LAST_CALL_UNIT)
    last_call = node.container.root / LAST_CALL.lstrip("/")
    codes = []

    def shut_down():
        codes.append(last_call.read_text().strip())
        last_call.unlink()

    try:
        # Without the order, systemd stops the driver while the kubelet still stops: the check can fail.
        unordered = re.sub(r"(?m)^Before=.*\n", "", example)
        assert unordered != example, "the example has no Before="
        for unit in (unordered, example):
            node.write(f"/etc/systemd/system/{EXAMPLE}.service", unit)
            node.systemctl("daemon-reload")
            node.systemctl("enable", "--now", EXAMPLE)
            socket = node.path(f"{PLUGINS}/{EXAMPLE_DRIVER}/csi.sock")
            eventually("the driver listens", socket.is_socket)
            node.container.reboot(shut_down)
        assert codes[0] != "0", "without its order the driver answers too"
        assert codes[1] == "0", f"the last call ended with {codes[1]}"
        started = "ExecMainStartTimestampMonotonic"
        driver, kubelet = (int(node.show(started, unit=unit)[started]) for unit in (EXAMPLE, "kubelet"))
        assert 0 < driver <= kubelet, f"the driver began at {driver} us, the kubelet at {kubelet} us"
    finally:
        node.path("/etc/systemd/system/kubelet.service.d/last-call.conf").unlink()
        node.systemctl("disable", "--now", EXAMPLE)
        node.path(f"/etc/systemd/system/{EXAMPLE}.service").unlink()
        node.path("/usr/local/bin/hostpathplugin").unlink()
        forget(node, EXAMPLE_DRIVER)
