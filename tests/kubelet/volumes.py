"""A pod with a volume of the driver: published, and unpublished, whatever restarts in between."""

import contextlib
import json

from check import check
from container import eventually
from cluster import NODE
from host import DRIVER, KUBELET, PROGRAM, UNIT
from peers import PUBLISH, UNPUBLISH
from scene import PLUGINS_REGISTRY

CSI_DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
PODS = "/api/v1/namespaces/default/pods"
# Below the directory of a pod.
VOLUME = "volumes/kubernetes.io~csi/data"

CSI_DRIVER = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": DRIVER},
    "spec": {"attachRequired": False, "podInfoOnMount": False, "volumeLifecycleModes": ["Ephemeral"]},
}

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "user"},
    "spec": {
        "nodeName": NODE,
        # Not 0: the API server would not wait for the kubelet.
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        # No image can be had here, and none is needed: volumes come first.
        "containers": [{"name": "it", "image": "none.invalid/none", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "csi": {"driver": DRIVER}}],
    },
}


class Pod:
    """A pod whose volume is set up on the node."""

    def __init__(self, scene, driver):
        self._scene = scene
        self._api = scene.cluster
        self._driver = driver
        # The calls of an earlier story are in the driver's record too.
        self._published, self._unpublished = driver.called(PUBLISH), driver.called(UNPUBLISH)
        self.uid = self._api.request("POST", PODS, POD)["metadata"]["uid"]
        self._directory = scene.path(f"{KUBELET}/pods/{self.uid}/{VOLUME}")

    def wait_published(self):
        published = lambda: self._driver.called(PUBLISH) == self._published + 1
        eventually("the volume is published", lambda: published() and self._mounts())
        eventually("the kubelet has written down whose it is", (self._directory / "vol_data.json").exists)

    def delete(self):
        """Asks for it; the pod is gone when the kubelet has unmounted the volume."""
        self._api.request("DELETE", f"{PODS}/user")

    def exists(self):
        return self._api.get(f"{PODS}/user") is not None

    def wait_gone(self):
        eventually("the pod is gone", lambda: not self.exists())
        assert self._driver.called(UNPUBLISH) > self._unpublished and not self._mounts(), self._mounts()
        eventually("so is its directory", lambda: not self._directory.exists())

    def _mounts(self):
        return [line for line in self._scene.run("cat", "/proc/mounts").stdout.splitlines() if self.uid in line]


@contextlib.contextmanager
def pod_with_volume(scene):
    """A registered driver, and a pod with a volume of it. Both are gone in the end, however it ends."""
    scene.begin()
    api = scene.cluster
    api.request("POST", CSI_DRIVERS, CSI_DRIVER)
    driver = scene.driver()
    scene.registered(driver)
    pod = Pod(scene, driver)
    try:
        pod.wait_published()
        yield driver, pod
    finally:
        # Without the driver, the kubelet could not let the pod go.
        scene.systemctl("start", UNIT)
        scene.run(PROGRAM, "publish", DRIVER, check=False)
        if pod.exists():
            pod.delete()
            pod.wait_gone()
        api.request("DELETE", f"{CSI_DRIVERS}/{DRIVER}")


def names_the_volume(said, pod):
    """An operator reads how many volumes are in use, and by which pod."""
    for words in ("1 volume is in use", pod.uid):
        assert words in said, f"{words} is missing: {said}"


def is_kept(scene, driver):
    """Link and socket file exist, and the cluster has the driver."""
    assert scene.link().is_symlink(), "the link is gone"
    assert scene.socket().is_socket(), "the socket file is gone"
    assert scene.cluster.csi_node().get(driver.name) == driver.entry, scene.cluster.csi_node()


@check
def a_pod_gets_its_volume_and_gives_it_back_over_restarts_of_ours_and_the_drivers(scene):
    with pod_with_volume(scene) as (driver, pod):
        mark = scene.cluster.mark()
        scene.systemctl("restart", UNIT)
        scene.kill()
        driver.restart()
        scene.wait_listed(driver)
        scene.nothing_since(mark)
        pod.delete()
        pod.wait_gone()


@check
def a_driver_in_use_stays_until_the_pod_is_gone(scene):
    with pod_with_volume(scene) as (driver, pod):
        mark = scene.cluster.mark()
        scene.wait_status("the volume is counted", lambda status: status["volumes"] == 1)
        refused = scene.run(PROGRAM, "withdraw", DRIVER, check=False)
        assert refused.returncode == 1, refused
        names_the_volume(refused.stderr, pod)
        assert "--force" in refused.stderr, refused.stderr

        since = scene.run("date", "+%Y-%m-%d %H:%M:%S.%6N").stdout.strip()
        scene.systemctl("stop", UNIT)
        is_kept(scene, driver)
        names_the_volume(scene.journal("--since", since), pod)
        # As the packages do it when they are removed, after they have stopped the unit.
        removed = scene.run(PROGRAM, "clean-up")
        names_the_volume(removed.stderr, pod)
        assert f"rm {PLUGINS_REGISTRY}/{DRIVER}-reg.sock" in removed.stderr, removed.stderr
        is_kept(scene, driver)

        scene.systemctl("start", UNIT)
        scene.wait_listed(driver)
        scene.wait_status("the volume is counted", lambda status: status["volumes"] == 1)
        scene.nothing_since(mark)

        pod.delete()
        pod.wait_gone()
        scene.wait_status("no volume is left", lambda status: status["volumes"] == 0)
        scene.run(PROGRAM, "withdraw", DRIVER)
        scene.wait_unlisted()


def hangs_in_terminating(scene, pod):
    """The pod is deleted, and the kubelet has no driver that could unmount its volume."""
    mark = scene.cluster.mark()
    pod.delete()
    missed = lambda line: pod.uid in line and "not found in the list of registered CSI drivers" in line
    eventually("the kubelet misses the driver", lambda: any(map(missed, scene.cluster.lines_since(mark))))
    scene.calm()
    assert pod.exists(), "the pod did not need the driver"


@check
def a_pod_whose_driver_is_withdrawn_by_force_hangs_until_the_driver_is_published(scene):
    with pod_with_volume(scene) as (_, pod):
        scene.run(PROGRAM, "withdraw", "--force", DRIVER)
        names_the_volume(scene.journal(), pod)
        scene.wait_unlisted()
        hangs_in_terminating(scene, pod)
        scene.run(PROGRAM, "publish", DRIVER)
        pod.wait_gone()


@check
def a_pod_hangs_if_the_kubelet_restarts_while_the_registrar_is_stopped_until_it_is_started(scene):
    with pod_with_volume(scene) as (driver, pod):
        scene.systemctl("stop", UNIT)
        scene.cluster.stop_kubelet()
        scene.cluster.start_kubelet()
        # The cluster does not know: CSINode still lists the driver.
        is_kept(scene, driver)
        hangs_in_terminating(scene, pod)
        scene.systemctl("start", UNIT)
        pod.wait_gone()
        scene.wait_listed(driver)


@check
def a_damaged_file_of_a_volume_keeps_every_driver_and_is_removed_as_the_docs_say(scene):
    # As a power failure leaves it, for a pod that was deleted meanwhile.
    scene.begin()
    driver = scene.driver()
    scene.registered(driver)
    uid = "5d3c1c9e-8f0e-4b53-9a55-0d8b4a7a2c11"
    pod = f"{KUBELET}/pods/{uid}"
    mark = scene.cluster.mark()
    scene.run("mkdir", "-p", f"{pod}/{VOLUME}/mount")
    scene.write(f"{pod}/{VOLUME}/vol_data.json", "")
    try:
        orphaned = lambda line: "rphaned pod" in line and uid in line
        line = eventually(
            "the kubelet leaves the directory", lambda: next(filter(orphaned, scene.cluster.lines_since(mark)), None)
        )
        assert "volume paths are still present on disk" in line, line
        scene.wait_status("the volumes are not known", lambda status: status["volumes"] is None)
        refused = scene.run(PROGRAM, "withdraw", DRIVER, check=False)
        assert refused.returncode == 1 and f"{pod}/{VOLUME}/vol_data.json" in refused.stderr, refused
    finally:
        scene.run("rm", f"{pod}/{VOLUME}/vol_data.json")
        scene.run("rmdir", f"{pod}/{VOLUME}/mount", f"{pod}/{VOLUME}")
    eventually("the kubelet removes the rest", lambda: not scene.path(pod).exists())
    scene.run(PROGRAM, "withdraw", DRIVER)
    scene.wait_unlisted()
    scene.run(PROGRAM, "publish", DRIVER)


@check
def the_api_server_takes_the_csidriver_that_inspect_prints(scene):
    scene.begin(start=False)
    driver = scene.driver()
    inspect = lambda *options: scene.run(PROGRAM, "inspect", driver.socket, "--csidriver", *options).stdout
    api = scene.cluster
    for manifest in (inspect(), json.loads(inspect("--json"))):
        made = api.request("POST", CSI_DRIVERS, manifest)
        api.request("DELETE", f"{CSI_DRIVERS}/{DRIVER}")
        assert made["kind"] == "CSIDriver" and made["metadata"]["name"] == DRIVER, made
        # The driver has no controller service: the cluster must not wait for an attacher.
        assert made["spec"]["attachRequired"] is False, made
        assert made["spec"]["volumeLifecycleModes"] == ["Persistent"], made
