#!/usr/bin/env python3
"""Boots one virtual machine and runs its checks in it; tests/machines/run calls it."""

import argparse
import importlib
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1] / "systemd"))

import check
from machine import Machine
from node import Node

# A Cortex-A72 has no pages of 16 KB, and "max" computes signatures of pointers, which takes long.
ARM64 = ("qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a76")
X86_64 = ("qemu-system-x86_64", "-M", "q35", "-cpu", "max")
CONTEXTS = "/etc/selinux/default/contexts/files/file_contexts"


def label(root):
    """Completes the policy, and gives every file its label: without labels nothing is allowed."""
    shutil.copy(Path(__file__).parent / "policy.cil", root / "tmp")
    # Without the rules about what is denied and not logged: a check must see every denial.
    for command in (["semodule", "-n", "-D", "-i", "/tmp/policy.cil"], ["setfiles", "-F", CONTEXTS, "/"]):
        subprocess.run(["chroot", root, *command], check=True)


@dataclass
class Kind:
    machine: Machine
    # In this order: the package is installed first and removed last.
    subjects: tuple
    page_size: int = 4096


KINDS = {
    "arm64": Kind(
        Machine("arm64", ARM64, "arm64", "console=ttyAMA0"),
        ("lifecycle", "pages", "sandbox", "packages"),
    ),
    "arm64-16k": Kind(
        Machine("arm64", ARM64, "arm64-16k", "console=ttyAMA0"),
        ("lifecycle", "pages", "sandbox", "packages"),
        16384,
    ),
    "selinux": Kind(
        Machine("selinux", X86_64, "amd64", "console=ttyS0 audit=1 security=selinux enforcing=1", label),
        ("lifecycle", "enforcing", "unpacked"),
    ),
}


def suits(function, kind):
    # A subject brings the checks of those that it imports. The .rpm and the first release are for the containers.
    elsewhere = ("the_rpm", "the_first_release")
    return function.__module__ in kind.subjects and not any(words in function.__name__ for words in elsewhere)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("programs", "deb", "next-deb", "image"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], help="checks with these words")
    parser.add_argument("machine", choices=KINDS)
    options = parser.parse_args()
    kind = KINDS[options.machine]
    for subject in kind.subjects:
        importlib.import_module(subject)

    begun = time.monotonic()
    with kind.machine as machine:
        machine.boot()
        node = Node(machine, options.programs, {"deb": options.deb, "next_deb": options.next_deb, "image": options.image})
        node.page_size = kind.page_size
        node.set_up()
        kernel = machine.run("uname", "-r").stdout.strip()
        version = machine.run("systemctl", "--version").stdout.split()[1]
        taken = time.monotonic() - begun
        print(f"# {options.machine}: Linux {kernel}, systemd {version}, up after {taken:.0f} s", flush=True)
        _, failed = check.run(node, options.machine, options.only, suits=lambda one: suits(one, kind))
    sys.exit(1 if failed else 0)


main()
