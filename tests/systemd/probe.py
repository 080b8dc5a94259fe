#!/usr/bin/python3
"""Runs inside a unit and tries what a sandbox should refuse.

probe.py [NAME…] prints one JSON object: for each probe, null when it got through, or how it was
refused, or {"absent": why} where this kernel has nothing to try. A probe is named after the directive
that refuses it, and after the group for system calls. Each tells its directive apart from a lack of
privileges: for a system call this means arguments that the kernel itself would turn down with
anything but EPERM.
"""

import ctypes
import errno
import json
import mmap
import os
import resource
import socket
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)

MARKER = "nsdr-probe"
# Listeners of tests/systemd/listeners.py, and the driver of host.py.
TCP_PORT = 7799
DRIVER_SOCKET = "/vdata/storage/plugins/local.csi.paas.cucloud/csi.sock"
PROBES = {}
MACHINE = os.uname().machine
# The numbers of the system calls. A call that an architecture does not have is not in its table.
CALLS = {
    "x86_64": {
        "chown": 92, "chroot": 161, "clock_settime": 227, "delete_module": 176, "io_setup": 206, "iopl": 172,
        "keyctl": 250, "listen": 50, "mlock": 149, "modify_ldt": 154, "mount": 165, "mq_open": 240, "msgget": 68,
        "personality": 135, "pkey_alloc": 330, "process_vm_readv": 310, "process_vm_writev": 311, "ptrace": 101,
        "reboot": 169, "semget": 64, "sethostname": 170, "setpriority": 141, "setuid": 105, "shmget": 29,
        "swapoff": 168, "_sysctl": 156, "unshare": 272, "userfaultfd": 323,
    },
    "aarch64": {
        "chroot": 51, "clock_settime": 112, "delete_module": 106, "fchownat": 54, "io_setup": 0, "keyctl": 219,
        "listen": 201, "mlock": 228, "mount": 40, "mq_open": 180, "msgget": 186, "personality": 92,
        "pkey_alloc": 289, "process_vm_readv": 270, "process_vm_writev": 271, "ptrace": 117, "reboot": 142,
        "semget": 190, "sethostname": 161, "setpriority": 140, "setuid": 146, "shmget": 194, "swapoff": 225,
        "unshare": 97, "userfaultfd": 282,
    },
}[MACHINE]


class Refused(Exception):
    pass


class Absent(Exception):
    """This kernel has nothing that the directive could refuse."""


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


def syscall(name, *arguments):
    """Refused if the filter says EPERM; whatever else the kernel says, the call reached it."""

    def attempt():
        if name not in CALLS:
            raise Absent(f"{MACHINE} has no {name}, nor another call of its group")
        ctypes.set_errno(0)
        if libc.syscall(CALLS[name], *arguments) == -1:
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
    syscall("sethostname", name, len(name))()


# An unknown clock.
PROBES["ProtectClock"] = syscall("clock_settime", 999, None)


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
PROBES["LockPersonality"] = syscall("personality", 8)


@probe("MemoryDenyWriteExecute")
def map_memory_to_write_and_execute():
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


CLONE_NEWUTS, CLONE_NEWNS = 0x04000000, 0x00020000
PROBES["RestrictNamespaces"] = all_refused(
    syscall("unshare", CLONE_NEWUTS), syscall("unshare", CLONE_NEWNS)
)


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


def call_from_a_page():
    # mov eax, 20 (getpid); int 0x80; ret
    code = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    start = ctypes.c_char.from_buffer(page)
    # The page lives as long as something points into it.
    return lambda: os._exit(0 if ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(start))() > 0 else 1)


def call_from_a_program():
    # An ELF file for 32-bit ARM with one segment: mov r0, #0; mov r7, #1 (exit); svc 0
    code = struct.pack("<3I", 0xE3A00000, 0xE3A07001, 0xEF000000)
    start, size = 0x10000, 52 + 32 + len(code)
    header = b"\x7fELF\1\1\1".ljust(16, b"\0") + struct.pack(
        "<2H5I6H", 2, 40, 1, start + 52 + 32, 52, 0, 0x05000000, 52, 32, 1, 0, 0, 0
    )
    segment = struct.pack("<8I", 1, 0, start, start, size, size, 5, 0x10000)
    file = os.memfd_create("probe", 0)
    os.write(file, header + segment + code)
    return lambda: os.execve(file, ["probe"], {})


@probe("SystemCallArchitectures")
def call_the_kernel_as_a_32_bit_program():
    call = {"x86_64": call_from_a_page, "aarch64": call_from_a_program}[MACHINE]()
    child = os.fork()
    if child == 0:
        try:
            call()
        except OSError as error:
            os._exit(error.errno)
    status = os.waitpid(child, 0)[1]
    if os.waitstatus_to_exitcode(status) == errno.ENOEXEC:
        raise Absent("this kernel runs no 32-bit programs")
    if status != 0:
        raise Refused(f"ended with status {status}")


@probe("UMask")
def files_are_for_others_too():
    if os.umask(0o077) == 0o077:
        raise Refused("the mask is 077")


# The last words are what would come back without a filter.
PROBES |= {
    "SystemCallFilter @aio": syscall("io_setup", 0, None),  # EINVAL
    "SystemCallFilter @chown": (
        syscall("chown", None, -1, -1) if "chown" in CALLS else syscall("fchownat", -1, None, -1, -1, 0)
    ),  # EFAULT
    "SystemCallFilter @clock": syscall("clock_settime", 999, None),  # EINVAL
    "SystemCallFilter @cpu-emulation": syscall("modify_ldt", 999, None, 0),  # ENOSYS
    "SystemCallFilter @debug": syscall("ptrace", 0x4206, -1, None, None),  # ESRCH
    "SystemCallFilter @keyring": syscall("keyctl", 999, 0, 0, 0, 0),  # EOPNOTSUPP
    "SystemCallFilter @memlock": syscall("mlock", None, 0),  # 0
    "SystemCallFilter @module": syscall("delete_module", None, 0),
    "SystemCallFilter @mount": syscall("mount", None, None, None, 0, None),  # EFAULT
    "SystemCallFilter @obsolete": syscall("_sysctl", None),  # ENOSYS
    "SystemCallFilter @pkey": syscall("pkey_alloc", 999, 0),  # EINVAL
    "SystemCallFilter @privileged": syscall("chroot", None),  # EFAULT
    "SystemCallFilter @raw-io": syscall("iopl", 999),  # EINVAL
    "SystemCallFilter @reboot": syscall("reboot", 0, 0, 0, None),
    "SystemCallFilter @resources": syscall("setpriority", 999, 0, 0),  # EINVAL
    "SystemCallFilter @setuid": syscall("setuid", -1),  # EINVAL
    "SystemCallFilter @swap": syscall("swapoff", None),
    "SystemCallFilter listen": syscall("listen", -1, 0),  # EBADF
    "SystemCallFilter mq_open": syscall("mq_open", None, 0, 0, None),  # EFAULT
    "SystemCallFilter msgget": syscall("msgget", 0x6E736472, 0),  # ENOENT
    "SystemCallFilter process_vm_readv": syscall("process_vm_readv", 0, None, 0, None, 0, 1),  # EINVAL
    "SystemCallFilter process_vm_writev": syscall("process_vm_writev", 0, None, 0, None, 0, 1),  # EINVAL
    "SystemCallFilter semget": syscall("semget", 0x6E736472, 0, 0),  # ENOENT
    "SystemCallFilter shmget": syscall("shmget", 0x6E736472, 0, 0),  # ENOENT
    "SystemCallFilter userfaultfd": syscall("userfaultfd", -1),  # EINVAL
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
    except Absent as why:
        return {"absent": str(why)}
    return None


if __name__ == "__main__":
    print(json.dumps({name: outcome(name) for name in sys.argv[1:] or PROBES}))
