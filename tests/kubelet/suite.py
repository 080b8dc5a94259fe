#!/usr/bin/env python3
"""Runs every story on one kubelet in a container of its own; tests/kubelet/run calls it."""

import argparse
import json
import shutil
import sys
from pathlib import Path

import check
from bed_cluster import BedCluster
from cluster import Cluster, PROGRAMS
from container import Container
from peers import SERVER
from scene import Scene

import arrivals  # noqa: F401
import restarts  # noqa: F401
import losses  # noqa: F401
import refusals  # noqa: F401
import changes  # noqa: F401
import watcher  # noqa: F401

HERE = Path(__file__).parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("binary", "programs", "server", "results"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--kubernetes", type=Path, help="a real kubelet; without it, the test kubelet")
    parser.add_argument("--share", default="0/1", help="only every Nth story, from the Mth on: M/N")
    parser.add_argument("--only", action="append", default=[], help="stories with these words")
    options = parser.parse_args()

    nspawn = []
    if options.kubernetes:
        import volumes  # noqa: F401
        import findings  # noqa: F401
        import repairs  # noqa: F401
        import unasked  # noqa: F401
        nspawn = [f"--bind-ro={options.kubernetes}:{PROGRAMS}"]
    with Container("bookworm", nspawn) as container:
        container.boot()
        container.path(SERVER).parent.mkdir(parents=True)
        shutil.copy2(options.server, container.path(SERVER))
        cluster = Cluster(container) if options.kubernetes else BedCluster(container, options.programs)
        cluster.set_up()
        scene = Scene(container, cluster, HERE.parent.parent, options.binary)
        scene.install()
        told, failed = check.run(scene, cluster.name, options.only, tuple(map(int, options.share.split("/"))))
    options.results.write_text(json.dumps({"told": told, "rows": scene.rows, "cases": scene.cases}))
    sys.exit(1 if failed else 0)


main()
