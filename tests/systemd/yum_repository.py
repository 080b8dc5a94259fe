"""The yum repository of a release, as dnf reads it. dnf installs nothing here: the packages need an RPM distribution."""

from check import check
from packages import NAME
from repository import KEY, RELEASE, carry_in, changed, follow, missing, version


def dnf(node):
    """Asks dnf what the repository has, with the key of the page's file alone."""
    node.run("rm", "-rf", "/var/cache/dnf", "/etc/yum.repos.d")
    node.run("mkdir", "-p", "/etc/yum.repos.d")
    done = follow(node, "dnf install node-storage-driver-registrar")
    assert done.returncode == 0, done.stderr
    options = ("-q", "-y", "--releasever=1", "--setopt=reposdir=/etc/yum.repos.d", "--setopt=skip_if_unavailable=0")
    query = ("repoquery", "--queryformat", "%{name}-%{version}-%{release}.%{arch}")
    return node.run("dnf", *options, *query, check=False, timeout=120)


@check
def dnf_reads_the_carried_repository_and_refuses_a_tampered_one(node):
    carry_in(node)
    found = dnf(node)
    expected = {f"{NAME}-{version(node)}-1.{architecture}" for architecture in ("x86_64", "aarch64")}
    assert set(found.stdout.split()) == expected, found.stdout + found.stderr
    repodata = f"{RELEASE}/yum/repodata"
    primary = next(node.path(repodata).glob("*primary.xml.gz")).name
    keys = (node.path(key).read_bytes() for key in (KEY, node.other_key))
    for tampering, words in (
        (changed(node, f"{repodata}/repomd.xml", b"<revision>", b"<revision>0"), ("GPG", "signature")),
        (missing(node, f"{repodata}/repomd.xml.asc"), ("repomd.xml.asc",)),
        (changed(node, KEY, *keys), ("GPG", "signature")),
        (changed(node, f"{repodata}/{primary}", b"\x1f\x8b", b"\x1f\x8c"), ("primary.xml.gz - Cannot download",)),
    ):
        with tampering:
            refused = dnf(node)
        assert refused.returncode != 0 and NAME not in refused.stdout, refused.stdout
        assert any(word in refused.stderr for word in words), refused.stderr
