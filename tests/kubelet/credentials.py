"""The kubelet's identity as kubelets have it: a client certificate and its key in one file, behind a link."""

import os
import subprocess
import tempfile
from pathlib import Path

from host import KUBELET

PKI = f"{KUBELET}/pki"
# The kubelet that rotates its certificate has this link lead to the latest one.
CURRENT = f"{PKI}/kubelet-client-current.pem"


class Authority:
    """A certificate authority for clients of the API server."""

    def __init__(self):
        # By this name it is swept by the next run, if this one is killed.
        self._home = tempfile.TemporaryDirectory(prefix=f"nsdr-systemd-{os.getpid()}-")
        self._key = self._file("ca.key")
        self._key.write_text(_new_key())
        self.certificate = _openssl("req", "-x509", "-new", "-key", self._key, "-subj", "/CN=clients", "-days", "1")
        self._file("ca.pem").write_text(self.certificate)

    def client(self, user, group):
        """A certificate of that user, with its key."""
        key = _new_key()
        self._file("client.key").write_text(key)
        request = _openssl("req", "-new", "-key", self._file("client.key"), "-subj", f"/O={group}/CN={user}")
        self._file("usage").write_text("keyUsage = critical, digitalSignature\nextendedKeyUsage = clientAuth\n")
        signing = ["-CA", self._file("ca.pem"), "-CAkey", self._key, "-CAcreateserial", "-days", "1",
                   "-extfile", self._file("usage")]
        return _openssl("x509", "-req", *signing, input=request) + key

    def _file(self, name):
        return Path(self._home.name, name)


def rotate(container, certificate, name):
    """As a kubelet does it: a file of its own, and a link renamed over the old one."""
    container.write(f"{PKI}/{name}", certificate, mode=0o600)
    new = container.path(f"{CURRENT}.new")
    new.symlink_to(f"{PKI}/{name}")
    new.rename(container.path(CURRENT))


def _new_key():
    # In the form that kubelets write.
    return _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout")


def _openssl(*arguments, input=None):
    done = subprocess.run(["openssl", *arguments], input=input, capture_output=True, text=True)
    assert done.returncode == 0, f"openssl {arguments[0]}: {done.stderr}"
    return done.stdout
