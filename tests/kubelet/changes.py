"""A driver that is another one when it comes back: in CSINode within seconds."""

from check import check
from host import UNIT

ZONE = {"topology.cucloud.test/zone": "z1"}


def becomes(scene, words, **says):
    scene.begin()
    driver = scene.driver(node_id="host-1", limit=8, topology=ZONE)
    scene.registered(driver)
    with scene.row(words, driver, 1, 1, 4):
        driver.be(**({"node_id": "host-1", "limit": 8, "topology": ZONE} | says))
        driver.restart()


@check
def another_node_id_is_in_the_cluster(scene):
    becomes(scene, "driver restarts with another node id", node_id="host-2")


@check
def another_limit_is_in_the_cluster(scene):
    becomes(scene, "driver restarts with another volume limit", limit=16)


@check
def another_topology_key_is_in_the_cluster(scene):
    becomes(scene, "driver restarts with another topology key", topology=ZONE | {"topology.cucloud.test/rack": "r1"})


@check
def a_stop_takes_the_driver_out_of_the_cluster_and_a_start_puts_it_back(scene):
    scene.begin()
    driver = scene.driver(topology=ZONE)
    scene.registered(driver)
    mark = scene.cluster.mark()
    scene.systemctl("stop", UNIT)
    scene.wait_unlisted()
    scene.calm()
    seen = scene.cluster.seen_since(mark)
    assert seen == {"registrations": 0, "deregistrations": 1, "csi_node_writes": 1, "node_patches": 1}, seen
    scene.systemctl("start", UNIT)
    scene.registered(driver)
