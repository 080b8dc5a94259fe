"""What a cluster has lost behind the kubelet's back: found by one run of verify, and put back by another."""

from check import check
from cluster import CSI_NODE, NODE, NODE_PATH
from host import DRIVER, PROGRAM, VERIFY
from verify import (
    AGREES, DIFFERS, KnownDriver, counts, difference, found, is_found, missing, of_driver, text,
)
from volumes import pod_with_volume

ZONE = {"topology.cucloud.test/zone": "z1"}


def is_repaired(scene, *drivers, lost):
    """A run announces the lost driver, and no other one, and ends when the cluster has it."""
    expected = found(*(of_driver(driver, repaired=driver is lost) for driver in drivers))
    run = is_found(scene, expected, "--repair", code=AGREES)
    assert f"{lost.name} is announced\n" in run.said, run.said
    assert f"{lost.name} is in the cluster again\n" in run.said, run.said


def not_announced(scene, expected, why):
    """A run that may repair leaves it at this finding."""
    run = is_found(scene, expected, "--repair", code=DIFFERS)
    assert f"{DRIVER} is not announced: {why}" in run.said, run.said


@check
def a_csinode_that_was_deleted_is_found_and_its_driver_announced_once(scene):
    scene.begin()
    driver = scene.driver(topology=ZONE)
    lost = found(of_driver(driver, missing(driver), agrees=False), agrees=False)
    with KnownDriver(scene, driver):
        scene.registered(driver)
        scene.age_registrations()
        with scene.row("CSINode deleted, verify --repair", driver, 1, 0, 4, is_real_only=True):
            scene.cluster.request("DELETE", CSI_NODE)
            is_found(scene, lost, code=DIFFERS)
            diagnosis = scene.run(PROGRAM, "doctor", check=False)
            for said in (text(scene), diagnosis.stdout):
                assert f"CSINode {NODE} does not list it" in said, said
                assert "node-storage-driver-registrar verify --repair" in said, said
            assert diagnosis.returncode == 1, diagnosis
            is_repaired(scene, driver, lost=driver)
        mark = scene.cluster.mark()
        is_found(scene, found(of_driver(driver)), "--repair", code=AGREES)
        scene.nothing_since(mark)

        # Lost again, it is not announced again at once.
        scene.cluster.request("DELETE", CSI_NODE)
        not_announced(scene, lost, "it was registered less than a minute ago")
        scene.age_registrations()
        not_announced(scene, lost, "it was announced not long ago")
        scene.nothing_since(mark)
        scene.run(PROGRAM, "reannounce", DRIVER)
        scene.wait_listed(driver)


@check
def of_two_drivers_the_one_that_was_taken_out_of_csinode_is_announced(scene):
    scene.begin()
    kept, lost = scene.driver("a.csi.test"), scene.driver("b.csi.test", topology=ZONE)
    with KnownDriver(scene, kept, lost):
        scene.registered(kept, lost)
        scene.age_registrations()
        before = counts(scene, kept.name)
        with scene.row("driver removed from CSINode, verify --repair", lost, 1, 0, 3, is_real_only=True):
            scene.cluster.unlist(lost.name)
            is_repaired(scene, kept, lost, lost=lost)
        scene.registered(kept, lost)
        assert counts(scene, kept.name) == before, counts(scene, kept.name)


@check
def a_driver_with_another_node_id_in_csinode_is_announced(scene):
    scene.begin()
    driver = scene.driver(node_id="host-7", limit=24)
    with KnownDriver(scene, driver):
        scene.registered(driver)
        scene.age_registrations()
        with scene.row("another node id written into CSINode, verify --repair", driver, 1, 1, 4, is_real_only=True):
            listed = scene.cluster.unlist(DRIVER)
            scene.cluster.list_driver(listed | {"nodeID": "host-8"})
            other = difference("node-id", "host-7", "host-8")
            is_found(scene, found(of_driver(driver, other, agrees=False), agrees=False), code=DIFFERS)
            is_repaired(scene, driver, lost=driver)


@check
def a_csinode_that_a_new_node_has_inherited_is_named_and_repaired_when_it_is_collected(scene):
    scene.begin()
    cluster = scene.cluster
    driver = scene.driver(topology=ZONE)
    with KnownDriver(scene, driver):
        scene.registered(driver)
        scene.age_registrations()
        mark = cluster.mark()
        try:
            # The kubelet creates its Node when it starts, and never again.
            cluster.request("DELETE", NODE_PATH)
            is_found(scene, found(of_driver(driver), agrees=False, node_found=False), code=DIFFERS)
            assert f"The Node object {NODE} does not exist. Restart the kubelet" in text(scene), text(scene)
            listed = cluster.unlist(DRIVER)
            lost = of_driver(driver, missing(driver), agrees=False)
            not_announced(scene, found(lost, agrees=False, node_found=False), "the Node object does not exist")
            cluster.list_driver(listed)
            scene.nothing_since(mark)
        finally:
            cluster.stop_kubelet()
            cluster.start_kubelet()
            scene.wait_listed(driver)
        # Nothing here collects garbage, so the old CSINode is still there.
        assert owner(cluster) != cluster.node()["metadata"]["uid"]
        is_found(scene, found(of_driver(driver), stale_owner=True), code=AGREES)
        assert f"CSINode {NODE} belongs to an earlier Node object" in text(scene), text(scene)
        scene.age_registrations()
        words = "Node recreated, its old CSINode garbage-collected, verify --repair"
        with scene.row(words, driver, 1, 0, 4, is_real_only=True):
            cluster.request("DELETE", CSI_NODE)
            is_repaired(scene, driver, lost=driver)
        assert owner(cluster) == cluster.node()["metadata"]["uid"]


def owner(cluster):
    """The uid of the Node that CSINode belongs to."""
    [owner] = cluster.get(CSI_NODE)["metadata"]["ownerReferences"]
    return owner["uid"]


@check
def a_pod_keeps_its_volume_through_a_repair_and_gives_it_back(scene):
    with pod_with_volume(scene) as (driver, pod):
        scene.age_registrations()
        scene.cluster.request("DELETE", CSI_NODE)
        # As the timer does it, in the sandbox of the unit.
        scene.systemctl("start", VERIFY, check=False)
        said = scene.journal(unit=VERIFY)
        assert f"{DRIVER}: repaired\nThe cluster agrees with 1 of 1 driver." in said, said
        scene.wait_listed(driver)
        pod.wait_published()
        pod.delete()
        pod.wait_gone()
