"""What verify finds in a real cluster, and leaves as it is."""

from check import check
from host import DRIVER
from verify import AGREES, DIFFERS, KnownDriver, counts, difference, found, is_found, of_driver, text

ZONE = "topology.cucloud.test/zone"


@check
def a_cluster_that_agrees_is_asked_a_few_questions(scene):
    scene.begin()
    driver = scene.driver(node_id="host-7", limit=24, topology={ZONE: "z1"})
    with KnownDriver(scene, driver):
        scene.registered(driver)
        mark = scene.cluster.mark()
        is_found(scene, found(of_driver(driver)), code=AGREES)
        # It asks who it is in three versions, none of which this API server has; then for the three objects.
        asked = ["create selfsubjectreviews: 403"] * 3 + ["get nodes: 200", "get csinodes: 200", "get csidrivers: 200"]
        scene.cluster.mark()
        assert scene.cluster.asked_since(mark) == asked, scene.cluster.asked_since(mark)
        scene.nothing_since(mark)
        assert "The cluster agrees with 1 of 1 driver." in text(scene), text(scene)


@check
def what_no_announcement_is_for_is_found_and_nothing_is_announced(scene):
    scene.begin()
    driver = scene.driver(node_id="host-7", limit=24, topology={ZONE: "z1"})
    scene.registered(driver)
    scene.age_registrations()
    cluster = scene.cluster
    mark, before = cluster.mark(), counts(scene, DRIVER)

    def differs(*differences, agrees=False):
        """Also a run that may repair does nothing about it."""
        expected = found(of_driver(driver, *differences, agrees=agrees), agrees=agrees)
        is_found(scene, expected, "--repair", code=AGREES if agrees else DIFFERS)

    no_object = difference("csidriver", DRIVER, None)
    differs(no_object, agrees=True)
    assert f"inspect {DRIVER} --csidriver" in text(scene), text(scene)
    with KnownDriver(scene, driver):
        ids = cluster.node_ids()
        cluster.annotate_node_ids(None)
        differs(difference("annotation", "host-7", None))
        cluster.annotate_node_ids({DRIVER: "host-8"})
        differs(difference("annotation", "host-7", "host-8"))
        cluster.annotate_node_ids(ids)

        cluster.set_label(ZONE, "z2")
        differs(difference("topology-label", f"{ZONE}=z1", f"{ZONE}=z2"))
        assert f"kubectl label node node-1 {ZONE}-" in text(scene), text(scene)
        cluster.remove_label(ZONE)
        differs(difference("topology-label", f"{ZONE}=z1", None))
        cluster.set_label(ZONE, "z1")

        listed = cluster.unlist(DRIVER)
        cluster.list_driver(listed | {"allocatable": {"count": 5}})
        differs(difference("limit", "24", "5"), agrees=True)
        cluster.unlist(DRIVER)
        cluster.list_driver(listed | {"topologyKeys": ["topology.cucloud.test/rack"]})
        differs(difference("topology-keys", ZONE, "topology.cucloud.test/rack"))
        cluster.unlist(DRIVER)
        # A driver that another registrar has on this node.
        cluster.list_driver(listed | {"name": "other.csi.test"})
        cluster.list_driver(listed)
        differs(agrees=True)
        cluster.unlist("other.csi.test")
    assert counts(scene, DRIVER) == before, counts(scene, DRIVER)
    scene.nothing_since(mark)
