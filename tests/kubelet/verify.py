"""The command verify, as an operator runs it in the container, and what a driver needs to be repaired."""

import collections
import json

from api_client import PORT
from cluster import NODE, TOKEN
from host import PROGRAM

CSI_DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
AGREES, DIFFERS, NOT_ASKED = 0, 1, 69

Verified = collections.namedtuple("Verified", ["code", "report", "said"])


def verify(scene, *options, code):
    """A run that must end with this code: what it found, and what it said beside that."""
    done = scene.run(PROGRAM, "verify", "--json", *options, check=False)
    assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
    assert TOKEN not in done.stdout + done.stderr, "it tells the token"
    report = json.loads(done.stdout) if done.stdout else None
    assert (report is None) == (code == NOT_ASKED), done
    return Verified(done.returncode, report, done.stderr)


def text(scene, *options):
    """The same as an operator reads it."""
    return scene.run(PROGRAM, "verify", *options, check=False).stdout


def found(*drivers, agrees=True, node_found=True, stale_owner=False):
    """The whole report."""
    return {
        "node": NODE,
        "server": f"https://127.0.0.1:{PORT}",
        "agrees": agrees,
        "node_found": node_found,
        "stale_owner": stale_owner,
        "drivers": [*drivers],
    }


def of_driver(driver, *differences, agrees=True, repaired=False):
    """What a report has of a driver."""
    return {"name": driver.name, "agrees": agrees, "repaired": repaired, "differences": [*differences]}


def difference(what, driver, cluster):
    return {"what": what, "driver": driver, "cluster": cluster}


def missing(driver):
    return difference("missing", driver.entry["node_id"], None)


def is_found(scene, expected, *options, code):
    """One run finds exactly this, and tells the daemon, which shows it."""
    run = verify(scene, *options, code=code)
    assert run.report == expected, f"{run.report}, and not {expected}"
    for driver in expected["drivers"]:
        status = scene.status_of(driver["name"])
        in_cluster = not any(found["what"] in ("missing", "node-id") for found in driver["differences"])
        assert (status["phase"], status["in_cluster"]) == ("registered", in_cluster), status
        words = "; in the cluster, " if in_cluster else f", but CSINode {NODE} "
        assert words in status["reason"] and "checked" in status["reason"], status
    return run


class KnownDriver:
    """The CSIDriver object of a driver, for as long as the block lasts."""

    def __init__(self, scene, *drivers):
        self._api = scene.cluster
        self._paths = [f"{CSI_DRIVERS}/{driver.name}" for driver in drivers]
        for driver in drivers:
            self._api.request("POST", CSI_DRIVERS, {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIDriver",
                "metadata": {"name": driver.name},
                "spec": {"attachRequired": False},
            })

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for path in self._paths:
            if self._api.get(path):
                self._api.request("DELETE", path)


def counts(scene, name):
    """How often the driver was registered and announced."""
    status = scene.status_of(name)
    return status["registrations"], status["announcements"]
