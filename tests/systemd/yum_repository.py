"""The yum repository of a release: dnf installs from it into a directory, because Debian is no RPM distribution."""

from check import check
from packages import NAME
from repository import RELEASE, carry_in, changed, follow, key, missing, version

ROOT = "/opt/rpm-root"
# Stands in for the packages of an RPM distribution that ours needs.
DISTRIBUTION = """\
Name: distribution
Version: 1
Release: 1
Summary: Stands in for a distribution
License: none
BuildArch: noarch
{provides}
%description
Nothing.
%files
"""


def dnf(node, *command):
    """Runs dnf with the repository of the page's file, and its key, alone."""
    node.run("rm", "-rf", "/var/cache/dnf", "/etc/yum.repos.d")
    node.run("mkdir", "-p", "/etc/yum.repos.d")
    done = follow(node, "dnf install node-storage-driver-registrar")
    assert done.returncode == 0, done.stderr
    options = ("-q", "-y", "--releasever=1", "--setopt=reposdir=/etc/yum.repos.d", "--setopt=skip_if_unavailable=0")
    return node.run("dnf", *options, *command, check=False, timeout=120)


def query(node):
    return dnf(node, "repoquery", "--queryformat", "%{name}-%{version}-%{release}.%{arch}")


def install(node):
    """Installs into an empty directory. The scripts of the package ran in other checks."""
    node.run("rm", "-rf", ROOT)
    needed = node.run("rpm", "-qp", "--nosignature", "--requires", node.rpm).stdout.splitlines()
    needed = {line.split()[0] for line in needed if not line.startswith("rpmlib(")}
    spec = DISTRIBUTION.format(provides="".join(f"Provides: {one}\n" for one in sorted(needed)))
    node.write("/opt/distribution.spec", spec)
    node.run("rpmbuild", "-bb", "--define", "_topdir /opt/rpmbuild", "/opt/distribution.spec")
    stand_in = "/opt/rpmbuild/RPMS/noarch/distribution-1-1.noarch.rpm"
    root = (f"--installroot={ROOT}", "--forcearch=x86_64", "--setopt=tsflags=noscripts")
    return dnf(node, *root, "install", stand_in, NAME)


@check
def dnf_reads_the_carried_repository_and_refuses_a_tampered_one(node):
    carry_in(node)
    found = query(node)
    expected = {f"{NAME}-{version(node)}-1.{architecture}" for architecture in ("x86_64", "aarch64")}
    assert set(found.stdout.split()) == expected, found.stdout + found.stderr
    repodata = f"{RELEASE}/yum/repodata"
    primary = next(node.path(repodata).glob("*primary.xml.gz")).name
    keys = (node.path(one).read_bytes() for one in (key(node), node.other_key))
    for tampering, words in (
        (changed(node, f"{repodata}/repomd.xml", b"<revision>", b"<revision>0"), ("GPG", "signature")),
        (missing(node, f"{repodata}/repomd.xml.asc"), ("repomd.xml.asc",)),
        (changed(node, key(node), *keys), ("GPG", "signature")),
        (changed(node, f"{repodata}/{primary}", b"\x1f\x8b", b"\x1f\x8c"), ("primary.xml.gz - Cannot download",)),
    ):
        with tampering:
            refused = query(node)
        assert refused.returncode != 0 and NAME not in refused.stdout, refused.stdout
        assert any(word in refused.stderr for word in words), refused.stderr


@check
def dnf_installs_from_the_carried_repository_and_refuses_a_changed_package(node):
    carry_in(node)
    rpm = f"{RELEASE}/yum/{NAME}-{version(node)}-1.x86_64.rpm"
    program = node.path(f"{ROOT}/usr/bin/{NAME}")
    done = install(node)
    assert done.returncode == 0 and program.exists(), done.stdout + done.stderr
    # The last byte belongs to the compressed files. The list of packages alone has a checksum of it.
    last = node.path(rpm).read_bytes()[-8:]
    with changed(node, rpm, last, last[:-1] + bytes([last[-1] ^ 1])):
        done = install(node)
    assert done.returncode != 0 and not program.exists(), done.stdout + done.stderr
    assert "incorrect checksum" in done.stdout + done.stderr, done.stdout + done.stderr
