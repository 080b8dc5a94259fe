#!/usr/bin/python3
"""Runs inside a unit and tries what a sandbox should refuse.

probe.py [NAME…] prints one JSON object: for each probe, null when it got through, or how it was
refused. A probe is named after the directive that refuses it, and after the group for system
calls. Each tells its directive apart from a lack of privileges: for a system call this means
arguments that the kernel itself would turn down with anything but EPERM.
"""

import ctypes
import errno
import json
import mmap
import os
import resource
import socket
import sys

libc = ctypes.CDLL(None, use_errno=True)

MARKER = "nsdr-probe"
# Listeners of tests/systemd/listeners.py, and the driver of host.py.
TCP_PORT = 7799
DRIVER_SOCKET = "/vdata/storage/plugins/local.csi.paas.cucloud/csi.sock"
PROBES = {}


class Refused(Exception):
    pass


def probe(name):
    def register(function):
        PROBES[name] = function
        return function

    return register


def hidden(path):
    return lambda: os.stat(path)


def written(path):
    def attempt():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        os.unlink(path)

    return attempt


def all_refused(*attempts):
    """Gets through if any of them does."""

    def attempt():
        last = None
        for one in attempts:
            try:
                one()
            except OSError as error:
                last = error
            else:
                return
        raise last

    return attempt


def syscall(number, *arguments):
    """Refused if the filter says EPERM; whatever else the kernel says, the call reached it."""

    def attempt():
        ctypes.set_errno(0)
        if libc.syscall(number, *arguments) == -1:
            code = ctypes.get_errno()
            if code == errno.EPERM:
                raise OSError(code, os.strerror(code))

    return attempt


PROBES["ProtectSystem"] = all_refused(
    *(written(f"{top}/{MARKER}-written") for top in ("/usr", "/etc", "/boot"))
)
PROBES["ProtectSystem strict"] = all_refused(
    *(written(f"{top}/{MARKER}-written") for top in ("/usr", "/etc", "/boot", "/var/lib", "/opt", "/srv"))
)
PROBES["ReadOnlyPaths"] = written(f"/run/{MARKER}-written")
PROBES["ProtectHome"] = all_refused(hidden(f"/root/{MARKER}"), hidden(f"/home/{MARKER}"))
PROBES["InaccessiblePaths"] = all_refused(hidden(f"/tmp/{MARKER}"), hidden(f"/var/tmp/{MARKER}"))
PROBES["PrivateDevices"] = hidden(f"/dev/{MARKER}")
PROBES["ProtectKernelModules"] = hidden(f"/usr/lib/modules/{MARKER}")


@probe("DevicePolicy")
def open_a_device_that_is_no_pseudo_device():
    os.close(os.open(f"/dev/{MARKER}", os.O_WRONLY))


@probe("PrivateMounts")
def mounts_are_everybodys():
    with open(f"/var/log/{MARKER}-mounts") as file:
        everybodys = file.read()
    if os.readlink("/proc/self/ns/mnt") != everybodys:
        raise Refused("a mount namespace of its own")


@probe("ProtectProc")
def other_processes_are_shown():
    with open("/proc/self/mountinfo") as file:
        proc = [line for line in file if line.split()[4] == "/proc"][-1]
    if "hidepid=invisible" in proc or "hidepid=2" in proc:
        raise Refused("/proc is mounted with hidepid")


@probe("ProtectControlGroups")
def make_a_cgroup():
    path = f"/sys/fs/cgroup/{MARKER}"
    os.mkdir(path)
    os.rmdir(path)


@probe("ProtectKernelTunables")
def write_a_tunable():
    path = "/proc/sys/net/ipv4/ip_default_ttl"
    with open(path) as file:
        value = file.read()
    with open(path, "w") as file:
        file.write(value)


@probe("ProtectHostname")
def set_the_host_name():
    name = os.uname().nodename.encode()
    syscall(170, name, len(name))()


# An unknown clock.
PROBES["ProtectClock"] = syscall(227, 999, None)


@probe("ProtectKernelLogs")
def read_the_kernels_log():
    os.close(os.open("/dev/kmsg", os.O_WRONLY))


@probe("PrivateNetwork")
def reach_an_abstract_socket():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"\0{MARKER}")


def made(family):
    kind = socket.SOCK_RAW if family == socket.AF_PACKET else socket.SOCK_DGRAM
    return lambda: socket.socket(family, kind).close()


NO_NETWORK = (socket.AF_NETLINK, socket.AF_PACKET)
PROBES["RestrictAddressFamilies"] = all_refused(*map(made, (socket.AF_INET, socket.AF_INET6, *NO_NETWORK)))
PROBES["RestrictAddressFamilies AF_UNIX AF_INET AF_INET6"] = all_refused(*map(made, NO_NETWORK))


@probe("LimitCORE")
def a_core_can_be_dumped():
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        raise Refused("a core of no bytes")


@probe("IPAddressDeny")
def send_to_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"", ("127.0.0.1", 9))


@probe("CapabilityBoundingSet")
def capabilities_can_be_had():
    if all(int(of_self("Cap" + which), 16) == 0 for which in ("Bnd", "Eff", "Prm")):
        raise Refused("no capabilities")


@probe("AmbientCapabilities")
def capabilities_are_passed_on():
    if int(of_self("CapAmb"), 16) == 0:
        raise Refused("no ambient capabilities")


@probe("NoNewPrivileges")
def privileges_can_be_gained():
    if of_self("NoNewPrivs") == "1":
        raise Refused("no_new_privs is set")


def of_self(field):
    with open("/proc/self/status") as file:
        return next(line.split()[1] for line in file if line.startswith(field + ":"))


# PER_LINUX32
PROBES["LockPersonality"] = syscall(135, 8)


@probe("MemoryDenyWriteExecute")
def map_memory_to_write_and_execute():
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


CLONE_NEWUTS, CLONE_NEWNS = 0x04000000, 0x00020000
PROBES["RestrictNamespaces"] = all_refused(syscall(272, CLONE_NEWUTS), syscall(272, CLONE_NEWNS))


@probe("RestrictRealtime")
def become_a_realtime_process():
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@probe("RestrictSUIDSGID")
def make_a_set_uid_file():
    path = f"/run/{MARKER}-suid"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    try:
        os.chmod(path, 0o4700)
    finally:
        os.unlink(path)


@probe("SystemCallArchitectures")
def call_the_kernel_as_a_32_bit_program():
    # mov eax, 20 (getpid); int 0x80; ret
    code = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CFUNCTYPE(ctypes.c_int)(address)() > 0 else 1)
    status = os.waitpid(child, 0)[1]
    if status != 0:
        raise Refused(f"ended with status {status}")


@probe("UMask")
def files_are_for_others_too():
    if os.umask(0o077) == 0o077:
        raise Refused("the mask is 077")


# x86-64; the second number is what would come back without a filter.
PROBES |= {
    "SystemCallFilter @aio": syscall(206, 0, None),  # io_setup: EINVAL
    "SystemCallFilter @chown": syscall(92, None, -1, -1),  # chown: EFAULT
    "SystemCallFilter @clock": syscall(227, 999, None),  # clock_settime: EINVAL
    "SystemCallFilter @cpu-emulation": syscall(154, 999, None, 0),  # modify_ldt: ENOSYS
    "SystemCallFilter @debug": syscall(101, 0x4206, -1, None, None),  # ptrace: ESRCH
    "SystemCallFilter @keyring": syscall(250, 999, 0, 0, 0, 0),  # keyctl: EOPNOTSUPP
    "SystemCallFilter @memlock": syscall(149, None, 0),  # mlock: 0
    "SystemCallFilter @module": syscall(176, None, 0),  # delete_module
    "SystemCallFilter @mount": syscall(165, None, None, None, 0, None),  # mount: EFAULT
    "SystemCallFilter @obsolete": syscall(156, None),  # _sysctl: ENOSYS
    "SystemCallFilter @pkey": syscall(330, 999, 0),  # pkey_alloc: EINVAL
    "SystemCallFilter @privileged": syscall(161, None),  # chroot: EFAULT
    "SystemCallFilter @raw-io": syscall(172, 999),  # iopl: EINVAL
    "SystemCallFilter @reboot": syscall(169, 0, 0, 0, None),  # reboot
    "SystemCallFilter @resources": syscall(141, 999, 0, 0),  # setpriority: EINVAL
    "SystemCallFilter @setuid": syscall(105, -1),  # setuid: EINVAL
    "SystemCallFilter @swap": syscall(168, None),  # swapoff
    "SystemCallFilter listen": syscall(50, -1, 0),  # EBADF
    "SystemCallFilter mq_open": syscall(240, None, 0, 0, None),  # EFAULT
    "SystemCallFilter msgget": syscall(68, 0x6E736472, 0),  # ENOENT
    "SystemCallFilter process_vm_readv": syscall(310, 0, None, 0, None, 0, 1),  # EINVAL
    "SystemCallFilter process_vm_writev": syscall(311, 0, None, 0, None, 0, 1),  # EINVAL
    "SystemCallFilter semget": syscall(64, 0x6E736472, 0, 0),  # ENOENT
    "SystemCallFilter shmget": syscall(29, 0x6E736472, 0, 0),  # ENOENT
    "SystemCallFilter userfaultfd": syscall(323, -1),  # EINVAL
}


@probe("needs loopback")
def talk_over_tcp_on_loopback():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname(), timeout=5) as client:
            server.accept()[0].close()
            client.recv(1)


# What the daemon needs and must not be refused.


@probe("needs systemd")
def ask_systemd():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("/run/systemd/private")
        client.sendall(b"\0AUTH EXTERNAL 30\r\n")
        if not client.recv(100).startswith(b"OK"):
            raise Refused("systemd does not take us for root")


@probe("needs journal")
def send_to_the_journal_in_a_memfd():
    # What is too long for a datagram goes in a sealed file.
    file = os.memfd_create("probe", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.write(file, b"MESSAGE=" + b"long " * 100_000 + b"\nSYSLOG_IDENTIFIER=probe\n")
    import fcntl

    fcntl.fcntl(file, 1033, 0xF)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.connect("/run/systemd/journal/socket")
        socket.send_fds(client, [b""], [file])


@probe("needs pidfd")
def watch_a_process_of_root():
    with open("/proc/1/stat") as file:
        file.read()
    os.close(os.pidfd_open(1))


@probe("needs boot id")
def read_the_boot_id():
    with open("/proc/sys/kernel/random/boot_id") as file:
        file.read()


# What verify needs.


@probe("needs files of root")
def read_files_that_only_root_may_read():
    for path in ("/etc/kubernetes", "/var/lib/kubelet/pki"):
        with open(f"{path}/{MARKER}") as file:
            file.read()


@probe("needs kubelet")
def read_what_the_kubelet_is():
    for process in filter(str.isdecimal, os.listdir("/proc")):
        with open(f"/proc/{process}/cmdline") as file:
            if "/test-kubelet" not in file.read().split("\0")[0]:
                continue
        for about in ("status", "mountinfo", "cgroup", "stat"):
            with open(f"/proc/{process}/{about}") as file:
                file.read()
        return
    raise Refused("there is no kubelet")


@probe("needs sockets")
def connect_to_the_daemon_and_a_driver():
    for path in ("/run/node-storage-driver-registrar/control.sock", DRIVER_SOCKET):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)


@probe("needs runtime directory")
def replace_a_file_of_the_runtime_directory():
    path = f"/run/node-storage-driver-registrar/{MARKER}"
    os.close(os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT, 0o600))
    os.rename(f"{path}.new", path)
    os.unlink(path)


@probe("needs tcp")
def connect_to_a_server():
    socket.create_connection(("127.0.0.1", TCP_PORT), timeout=5).close()


@probe("needs names")
def resolve_names_from_hosts_and_from_dns():
    # glibc asks over AF_NETLINK which families this node has, and goes on without an answer.
    for name in ("hosts.nsdr.test", "dns.nsdr.test"):
        found = socket.getaddrinfo(name, TCP_PORT, type=socket.SOCK_STREAM)
        if ("127.0.0.1", TCP_PORT) not in [address for *_, address in found]:
            raise Refused(f"{name} is {found}")


def outcome(name):
    try:
        PROBES[name]()
    except (OSError, Refused) as error:
        return str(error)
    return None


if __name__ == "__main__":
    print(json.dumps({name: outcome(name) for name in sys.argv[1:] or PROBES}))
