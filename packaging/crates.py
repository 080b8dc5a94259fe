"""The crates that are linked into the two programs, from cargo's own graph."""

import json
import subprocess
from pathlib import Path

NAME = "node-storage-driver-registrar"
ROOT = Path(__file__).resolve().parent.parent
# The packages have the program verify too.
FEATURES = ["--features", "cluster"]


def cargo(*arguments):
    return subprocess.run(
        ["cargo", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def tree(target, prefix):
    """The lines of the tree of linked crates, each with a name and a version."""
    # Procedural macros run in the compiler and are not linked. The graph in `cargo metadata` is no
    # better: it has the features that only tests turn on.
    edges = ["--edges", "normal,no-proc-macro", "--target", target]
    more = ["--prefix", prefix, "--format", " {p}", "--no-dedupe"]
    return cargo("tree", "--locked", *FEATURES, *edges, *more).splitlines()


def packages(target):
    """All packages that cargo knows, for this target."""
    arguments = ["--locked", *FEATURES, "--format-version", "1", "--filter-platform", target]
    return json.loads(cargo("metadata", *arguments))["packages"]


def linked(target):
    """The packages that are linked for this target, by name; our own is left out."""
    names = {tuple(line.split()[:2]) for line in tree(target, "none")}
    return sorted(
        (
            package
            for package in packages(target)
            if (package["name"], "v" + package["version"]) in names and package["name"] != NAME
        ),
        key=lambda package: (package["name"], package["version"]),
    )
