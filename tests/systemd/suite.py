#!/usr/bin/env python3
"""Boots one Debian suite and runs every check in it; tests/systemd/run calls it."""

import argparse
import importlib
import sys
from pathlib import Path

import check
from container import Container
from node import Node

# In this order: the package is installed first and removed last; "volumes" and those after it install it once more.
SUBJECTS = (
    "lifecycle",
    "reloading",
    "journaling",
    "directories",
    "sandbox",
    "releases",
    "verifying",
    "serving",
    "gate",
    "drivers",
    "quadlets",
    "rollout",
    "packages",
    "volumes",
    "repository",
    "yum_repository",
    "ansible_install",
    "extension",
)
# Files that the checks install, by their options.
PACKAGES = (
    "deb", "next-deb", "first-deb", "rpm", "next-rpm", "first-rpm", "image", "next-image", "release", "other-key",
)
# Bookworm's Ansible does not know the Python of later suites, so their root file systems have no sshd.
# Bookworm's podman has no quadlets. dnf is in one root file system. Bullseye's systemd has no systemd-sysext.
ONLY = {
    "rollout": {"bookworm"},
    "ansible_install": {"bookworm"},
    "quadlets": {"trixie"},
    "yum_repository": {"trixie"},
    "extension": {"bookworm", "trixie", "forky"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("programs", *PACKAGES):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], help="checks with these words")
    parser.add_argument("suite")
    options = parser.parse_args()
    for subject in SUBJECTS:
        if options.suite in ONLY.get(subject, {options.suite}):
            importlib.import_module(subject)
        else:
            print(f"# {options.suite}: {subject} runs on {', '.join(sorted(ONLY[subject]))} only", flush=True)

    with Container(options.suite) as container:
        container.boot()
        packages = {name.replace("-", "_"): getattr(options, name.replace("-", "_")) for name in PACKAGES}
        node = Node(container, options.programs, packages)
        node.set_up()
        _, failed = check.run(node, f"{options.suite}/systemd-{node.systemd()}", options.only)
    sys.exit(1 if failed else 0)


main()
