"""A pod with a volume of the driver: published, and unpublished, whatever restarts in between."""

from check import check
from container import eventually
from cluster import NODE
from host import DRIVER, KUBELET, UNIT
from peers import PUBLISH, UNPUBLISH

PODS = "/api/v1/namespaces/default/pods"

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


@check
def a_pod_gets_its_volume_and_gives_it_back_over_restarts_of_ours_and_the_drivers(scene):
    scene.begin()
    api = scene.cluster
    api.request("POST", "/apis/storage.k8s.io/v1/csidrivers", CSI_DRIVER)
    driver = scene.driver()
    scene.registered(driver)
    mounts = lambda: [line for line in scene.run("cat", "/proc/mounts").stdout.splitlines() if "kubernetes.io~csi" in line]
    uid = api.request("POST", PODS, POD)["metadata"]["uid"]
    volume = scene.path(f"{KUBELET}/pods/{uid}/volumes/kubernetes.io~csi/data")
    try:
        eventually("the volume is published", lambda: driver.called(PUBLISH) == 1 and mounts())
        eventually("the kubelet has written down whose it is", (volume / "vol_data.json").exists)
        mark = api.mark()
        scene.systemctl("restart", UNIT)
        scene.kill()
        driver.restart()
        scene.wait_listed(driver)
        scene.nothing_since(mark)
    finally:
        api.request("DELETE", f"{PODS}/user")
    eventually("the pod is gone", lambda: api.get(f"{PODS}/user") is None)
    assert driver.called(UNPUBLISH) >= 1 and not mounts(), mounts()
    eventually("so is its directory", lambda: not volume.exists())
    api.request("DELETE", f"/apis/storage.k8s.io/v1/csidrivers/{DRIVER}")
