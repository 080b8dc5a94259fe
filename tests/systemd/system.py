"""A booted system as the checks reach it: its commands, its files, and how long to wait for them."""

import signal
import subprocess
import sys
import time

PATIENCE = 60
# A system that is slower than a container has every deadline multiplied by this.
slowness = 1

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root",
               "DEBIAN_FRONTEND": "noninteractive", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}


class System:
    """What a container and a virtual machine share; each has its own `path` and `_inside`."""

    def run(self, *command, check=True, input=None, timeout=PATIENCE):
        """Runs a command inside, as a root shell there would."""
        done = subprocess.run(
            self._inside([*map(str, command)]),
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL if input is None else None,
            input=input,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=timeout * slowness,
        )
        if check and done.returncode != 0:
            words = " ".join(map(str, command))
            raise AssertionError(
                f"{words} ended with {done.returncode}: {(done.stdout + done.stderr).strip()}"
            )
        return done

    def write(self, inside, text, mode=0o644):
        path = self.path(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)


def eventually(what, condition, patience=PATIENCE):
    """Waits until the condition gives something, and gives that back."""
    patience *= slowness
    deadline = time.monotonic() + patience
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience} s: {what}")
        time.sleep(0.05)


def end_when_told():
    """So that a system goes when we are told to end, and is not left half gone when we are told twice."""
    signal.signal(signal.SIGTERM, _end)


def _end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)
