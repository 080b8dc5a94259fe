"""A Debian with its own kernel, booted by qemu; the checks of tests/systemd reach it as they reach a container."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import system
from system import ENVIRONMENT, System, end_when_told, eventually

ROOTFS = Path(__file__).parents[1] / "systemd/rootfs"
# qemu translates every instruction: KVM is for the host's own architecture, and seldom there inside another machine.
SLOWNESS = 5
NETWORK = """\
[Match]
Type=ether
[Network]
Address=10.0.2.15/24
"""
DISK = 4 << 30


class Machine(System):
    """One virtual machine. Ends with everything it made when the `with` block ends."""

    def __init__(self, image, qemu, kernel, append, prepare=lambda root: None):
        """
        The image is one of tests/systemd/rootfs; the kernel is that of its kernels whose name ends so; `append` is
        for the kernel's command line. `prepare` gets the root file system before the first boot.
        """
        self._image = image
        self._qemu = qemu
        self._kernel = kernel
        self._append = append
        self._prepare = prepare
        self._process = None

    def __enter__(self):
        end_when_told()
        system.slowness = SLOWNESS
        tar = subprocess.run([ROOTFS, self._image], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        _sweep()
        self._dir = Path(tempfile.mkdtemp(prefix=f"nsdr-machine-{os.getpid()}-"))
        # The disk while the machine is off, and the files inside while it is on.
        self.root, self._files = self._dir / "root", self._dir / "files"
        self._disk, self._control, self._key = (self._dir / name for name in ("disk", "control", "key"))
        try:
            self.root.mkdir()
            self._files.mkdir()
            self._make_disk(tar)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._kill()
        _remove(self._dir)

    def boot(self):
        """Boots, and returns when systemd has started what it should."""
        self._port = _free_port()
        # It ends with us, however we end.
        self._console = open(self._dir / "console", "ab")
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *self._qemu, "-accel", "tcg,thread=multi", "-smp", "2", "-m", "1024",
             "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
             "-kernel", self._dir / "vmlinuz", "-initrd", self._dir / "initrd",
             "-append", f"root=/dev/vda rw quiet {self._append}",
             "-drive", f"if=none,id=disk,format=raw,cache=unsafe,file={self._disk}",
             "-device", "virtio-blk-pci,drive=disk", "-device", "virtio-rng-pci",
             "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self._port}-:22",
             "-device", "virtio-net-pci,netdev=net,romfile="],
            stdin=subprocess.DEVNULL, stdout=self._console, stderr=self._console,
        )
        try:
            eventually("sshd answers", self._connect)
            eventually(
                "systemd is up",
                lambda: self.run("systemctl", "is-system-running", check=False).stdout.strip()
                in ("running", "degraded"),
            )
            # Nothing is remembered: what the machine has is what a check sees.
            options = "direct_io,dir_cache=no,attr_timeout=0,entry_timeout=0,negative_timeout=0"
            subprocess.run(
                ["sshfs", "-o", options, "-o", f"ssh_command={shlex.join(self._ssh())}", "root@machine:/", self._files],
                check=True,
            )
        except AssertionError as error:
            said = (self._dir / "console").read_text(errors="replace")
            raise AssertionError(f"{error}: {said[-2000:]}") from None

    def reboot(self, meanwhile=lambda: None):
        """A clean shutdown as by `systemctl reboot`, and the next boot."""
        self.run("systemctl", "reboot", "--no-block")
        self._process.wait(system.PATIENCE * SLOWNESS)
        self._kill()
        try:
            with _Mounted(self._disk, self.root):
                meanwhile()
        finally:
            self.boot()

    def path(self, inside):
        """A path inside as this process reaches it."""
        return self._files / str(inside).lstrip("/")

    def _inside(self, command):
        variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        return [*self._ssh(), "root@machine", shlex.join(["env", "--chdir=/", *variables, *command])]

    def _ssh(self):
        return ["ssh", "-F", "none", "-S", str(self._control), "-o", "BatchMode=yes"]

    def _connect(self):
        """One connection for all commands: each of its own would take a second."""
        if self._process.poll() is not None:
            raise AssertionError("qemu has ended")
        # qemu itself takes the connection, long before there is an sshd.
        options = ("ControlMaster=yes", "ConnectTimeout=10", f"IdentityFile={self._key}", "IdentitiesOnly=yes",
                   "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR",
                   "HostName=127.0.0.1", f"Port={self._port}")
        options = [word for option in options for word in ("-o", option)]
        done = subprocess.run(
            [*self._ssh(), *options, "-fN", "root@machine"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        return done.returncode == 0 or time.sleep(1)

    def _make_disk(self, tar):
        root = self._dir / "new"
        root.mkdir()
        subprocess.run(["tar", "-C", root, "-xf", tar, "--exclude=./dev/*"], check=True)
        (root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self._key], check=True)
        keys = root / "root/.ssh/authorized_keys"
        keys.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(self._key.with_suffix(".pub"), keys)
        (root / "etc/systemd/network/machine.network").write_text(NETWORK)
        wanted = root / "etc/systemd/system/multi-user.target.wants/systemd-networkd.service"
        wanted.parent.mkdir(parents=True, exist_ok=True)
        wanted.symlink_to("/usr/lib/systemd/system/systemd-networkd.service")
        for name in ("vmlinuz", "initrd"):
            found = [*(root / "boot").glob(f"{name}*-{self._kernel}")]
            assert len(found) == 1, f"kernels for {self._kernel}: {found}"
            shutil.copy(found[0], self._dir / name)
        self._prepare(root)
        with open(self._disk, "xb") as disk:
            disk.truncate(DISK)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, self._disk], check=True)
        shutil.rmtree(root)

    def _kill(self):
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        _unmount(self._files)
        self._control.unlink(missing_ok=True)
        self._console.close()
        self._process = None


class _Mounted:
    """A disk whose machine is off."""

    def __init__(self, disk, where):
        self._disk, self._where = disk, where

    def __enter__(self):
        subprocess.run(["mount", "-o", "loop", self._disk, self._where], check=True)

    def __exit__(self, *_):
        subprocess.run(["umount", self._where], check=True)


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _unmount(path):
    # At once, whatever has files open there: the machine behind them has gone.
    subprocess.run(["umount", "--lazy", path], stderr=subprocess.DEVNULL)


def _remove(directory):
    for name in ("files", "root"):
        _unmount(directory / name)
    shutil.rmtree(directory)


def _sweep():
    """What those left behind that were killed: their machines went with them."""
    for path in Path(tempfile.gettempdir()).glob("nsdr-machine-*"):
        pid = re.match(r"nsdr-machine-(\d+)-", path.name)
        if pid and not Path("/proc", pid[1]).exists():
            _remove(path)
