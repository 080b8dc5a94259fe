"""The apt repository of a release, carried to a node without a network: with its key alone trusted, and tampered with."""

import contextlib
import re
from pathlib import Path

from check import check
from host import DRIVER
from packages import NAME
from page import block

RELEASE = f"/srv/{NAME}"
TRUSTED = f"/etc/apt/keyrings/{NAME}.asc"
APT = f"{RELEASE}/apt"
RPM_KEY = f"/etc/pki/rpm-gpg/{NAME}.asc"
REPO = f"/etc/yum.repos.d/{NAME}.repo"


def version(node):
    return re.fullmatch(rf"{NAME}-(.*)\.tar", Path(node.release).name)[1]


def key(node):
    """The key that the operator has compared, beside the tarball."""
    return f"{Path(node.release).parent}/{NAME}.asc"


def follow(node, words):
    """Runs a block of docs/install.md where the tarball is."""
    steps = block("install.md", "sh", words).replace("1.0.0", version(node))
    # dnf would install a package for a distribution that this is not.
    steps = re.sub(r"^(dnf|systemctl) .*\n", "", steps, flags=re.MULTILINE)
    return node.run("sh", "-ec", f"cd {Path(node.release).parent}\n{steps}", check=False, timeout=120)


def remove(node):
    """Neither the package nor anything that apt knows from elsewhere."""
    node.run("dpkg", "-P", NAME, timeout=120)
    node.run("sh", "-c", "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*")


def carry_in(node):
    if not node.path(RELEASE).exists():
        done = follow(node, "tar -C /srv -xf")
        assert done.returncode == 0, done.stderr
        # Without gpg on the node, another machine has done the page's first step.
        node.run("cp", f"{RELEASE}/{NAME}.asc", key(node))


def is_installed(node):
    return node.run("dpkg-query", "-W", NAME, check=False).returncode == 0


@check
def apt_installs_from_the_carried_repository_with_its_key_alone_trusted(node):
    remove(node)
    carry_in(node)
    done = follow(node, "apt-get install node-storage-driver-registrar")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert node.is_active() and node.installed_version() == f"{version(node)}-1"
    node.systemctl("start", f"driver@{DRIVER}")
    node.wait_registered()


def install_an_older_version(node):
    older = "/opt/packages/older"
    if not node.path(older).exists():
        node.run("dpkg-deb", "--raw-extract", node.deb, older)
        control = node.path(f"{older}/DEBIAN/control")
        control.write_text(re.sub(r"^Version: .*", "Version: 0.9.0-1", control.read_text(), flags=re.MULTILINE))
        node.run("dpkg-deb", "--build", "-Znone", older, f"{older}.deb")
    node.run("dpkg", "-i", f"{older}.deb", timeout=120)
    assert node.installed_version() == "0.9.0-1"


@check
def apt_upgrades_from_the_carried_repository_and_the_kubelet_does_not_notice(node):
    carry_in(node)
    install_an_older_version(node)
    node.settle()
    node.unnoticed(lambda: follow(node, "apt-get install node-storage-driver-registrar"))
    assert node.installed_version() == f"{version(node)}-1", node.installed_version()
    node.wait_phase("registered")


@contextlib.contextmanager
def changed(node, path, old, new):
    """Other bytes in a file; it gets its own back."""
    path = node.path(path)
    was = path.read_bytes()
    found = was.replace(old, new, 1)
    assert found != was, f"{path} has no {old}"
    path.write_bytes(found)
    try:
        yield
    finally:
        path.write_bytes(was)


@contextlib.contextmanager
def missing(node, path):
    moved = node.path(f"{path}.away")
    node.path(path).rename(moved)
    try:
        yield
    finally:
        moved.rename(node.path(path))


def apt_refuses(node, *words):
    remove(node)
    done = follow(node, "apt-get install node-storage-driver-registrar")
    said = done.stdout + done.stderr
    assert done.returncode != 0 and not is_installed(node), said
    assert any(word in said for word in words), said


@check
def apt_refuses_a_tampered_repository(node):
    carry_in(node)
    release = f"{APT}/dists/stable"
    index = f"{release}/main/binary-amd64/Packages"
    deb = f"{APT}/pool/{NAME}_{version(node)}-1_amd64.deb"
    with changed(node, f"{release}/InRelease", b"Suite: stable", b"Suite: Stable"):
        apt_refuses(node, "invalid", "BADSIG", "not signed", "Bad signature")
    # The unsigned file beside it must not help out.
    with missing(node, f"{release}/InRelease"), missing(node, f"{release}/Release.gpg"):
        apt_refuses(node, "not signed")
    with changed(node, index, b"Architecture: amd64", b"Architecture: AMD64"), missing(node, f"{index}.xz"):
        apt_refuses(node, "Hash Sum mismatch", "unexpected size")
    # Same length: only the checksum tells.
    with changed(node, deb, b"debian-binary", b"debian-binarY"):
        apt_refuses(node, "Hash Sum mismatch")
    with changed(node, key(node), *(node.path(one).read_bytes() for one in (key(node), node.other_key))):
        apt_refuses(node, "NO_PUBKEY", "Missing key")
    follow(node, "apt-get install node-storage-driver-registrar")
    assert is_installed(node), "it refuses the repository also after it was put right"


def forget(node):
    """Removes what the operator has written for the repositories."""
    remove(node)
    node.run("rm", "-rf", TRUSTED, RPM_KEY, REPO, "/var/cache/dnf", RELEASE, f"{RELEASE}-{version(node)}")
