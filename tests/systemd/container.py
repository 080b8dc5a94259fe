"""A Debian root file system, booted with its own systemd by systemd-nspawn."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from system import PATIENCE, System, end_when_told, eventually


class Container(System):
    """One container. Ends with everything it made when the `with` block ends."""

    def __init__(self, suite, options=()):
        """A suite of Debian's; the options are systemd-nspawn's, beside those that it always has."""
        self._suite = suite
        self._options = options
        self._nspawn = None
        self.leader = None

    def __enter__(self):
        end_when_told()
        rootfs = [Path(__file__).parent / "rootfs", self._suite]
        tar = subprocess.run(rootfs, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        _sweep()
        self._dir = Path(tempfile.mkdtemp(prefix=f"nsdr-systemd-{os.getpid()}-"))
        self.root = self._dir / "root"
        # Not the directory's: it may have an underscore, and a machine's name may not.
        self.name = f"nsdr-{os.getpid()}"
        self._cgroup = _unified() / self.name
        try:
            self.root.mkdir()
            subprocess.run(
                ["tar", "-C", self.root, "-xf", tar, "--exclude=./dev/*"], check=True
            )
            # Debian's images for containers keep services from being started by packages.
            (self.root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)
            self._cgroup.mkdir()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._kill()
        _remove_cgroup(self._cgroup)
        shutil.rmtree(self._dir)

    def boot(self):
        """Boots, and returns when systemd has started what it should."""
        # It ends with us, however we end, and with it everything inside. Each container in a cgroup of
        # its own, or two at a time would share one. IPAddressDeny=
        # needs BPF inside, and is silently not enforced without it. The other calls are for the
        # probes, which must tell a unit's filter from the container's.
        command = (
            f"echo $$ > {self._cgroup}/cgroup.procs && exec setpriv --pdeathsig KILL systemd-nspawn -q -D {self.root} --boot"
            f" --register=no --keep-unit -M {self.name} --console=pipe --private-network"
            " --capability=CAP_BPF,CAP_PERFMON --system-call-filter='bpf @clock @cpu-emulation"
            " @keyring @memlock @module @obsolete @pkey @raw-io @swap'"
            f" {shlex.join(self._options)}"
        )
        self._console = open(self._dir / "console", "ab")
        self._nspawn = subprocess.Popen(
            ["sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=self._console,
            stderr=self._console,
            env={"PATH": os.environ["PATH"], "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            start_new_session=True,
        )
        try:
            self.leader = eventually("systemd-nspawn has started systemd", self._find_leader)
            eventually(
                "systemd is up",
                lambda: self.run("systemctl", "is-system-running", check=False).stdout.strip()
                in ("running", "degraded"),
            )
        except AssertionError as error:
            raise AssertionError(f"{error}: {(self._dir / 'console').read_text()}") from None

    def reboot(self, meanwhile=lambda: None):
        """A clean shutdown as by `systemctl reboot`, and the next boot."""
        self.run("systemctl", "reboot", "--no-block")
        self._nspawn.wait(PATIENCE)
        self._kill()
        try:
            meanwhile()
        finally:
            self.boot()

    def _inside(self, command):
        namespaces = ["-t", str(self.leader), "-m", "-u", "-i", "-n", "-p", "-C", "--wdns=/"]
        return ["nsenter", *namespaces, "--", *command]

    def path(self, inside):
        """A path inside as this process reaches it, with what is mounted there."""
        return Path(f"/proc/{self.leader}/root") / str(inside).lstrip("/")

    def _find_leader(self):
        if self._nspawn.poll() is not None:
            raise AssertionError("systemd-nspawn has ended")
        # For some milliseconds there is a child that only prepares: it is not process 1 of anything.
        for child in Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split():
            if _pids(child)[-1:] == ["1"]:
                return int(child)
        return None

    def _kill(self):
        if self._nspawn is None:
            return
        # The leader is process 1 inside: with it goes everything else there.
        for pid in filter(None, (self.leader, self._nspawn.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._nspawn.wait()
        self._console.close()
        self._nspawn = self.leader = None


def _unified():
    """Where the unified hierarchy is: beside the old ones, or all there is."""
    beside = Path("/sys/fs/cgroup/unified")
    return beside if beside.is_dir() else Path("/sys/fs/cgroup")


def _pids(pid):
    """The pids of a process, from ours to the one inside; none when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))


def _sweep():
    """What those left behind that were killed: their processes and mounts went with them."""
    for path in [*Path(tempfile.gettempdir()).glob("nsdr-systemd-*"), *_unified().glob("nsdr-*")]:
        pid = re.fullmatch(r"nsdr-(?:systemd-)?(\d+)(?:-.*)?", path.name)
        if pid is None or Path("/proc", pid[1]).exists():
            continue
        # Another one may sweep as well, and what is still busy is left to the next.
        try:
            _remove_cgroup(path) if path.parent == _unified() else shutil.rmtree(path, ignore_errors=True)
        except OSError as error:
            print(f"{path} is left behind: {error}", file=sys.stderr)


def _remove_cgroup(cgroup):
    for path, _, _ in os.walk(cgroup, topdown=False):
        _eventually_rmdir(path)


def _eventually_rmdir(path):
    # A cgroup is busy until the last of the killed processes has been reaped.
    deadline = time.monotonic() + 10
    while True:
        try:
            return os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
