"""Refusals that this kubelet never takes back by itself."""

from check import check
from container import eventually
from host import DRIVER, PROGRAM, UNIT
from peers import NODE_GET_INFO

ZONE = "topology.cucloud.test/zone"


def rejected(status):
    return status["rejections"] >= 1


def served(scene):
    """A driver that the registrar serves, and a kubelet that is held back from looking."""
    scene.cluster.hold_kubelet()
    driver = scene.driver()
    scene.wait_phase("waiting-for-kubelet")
    return driver


@check
def a_driver_whose_node_get_info_failed_is_registered_when_it_works(scene):
    scene.begin()
    driver = served(scene)
    # The registrar has its answer; from now on it fails, for the kubelet that is about to ask.
    driver.fail_node_get_info()
    with scene.row("first registration, NodeGetInfo fails when the kubelet asks", driver, 1, 0, 2):
        scene.cluster.release_kubelet()
        scene.wait_status("the kubelet says no", rejected)
        driver.recover()


@check
def a_driver_that_came_while_the_api_server_was_down_is_registered_when_it_is_up(scene):
    scene.begin()
    scene.cluster.stop_api_server()
    driver = scene.driver()
    scene.wait_status("the kubelet says no", rejected)
    with scene.row("first registration, the API server is down", driver, 1, 0, 2):
        scene.cluster.start_api_server()


@check
def a_driver_whose_topology_collides_is_registered_when_the_label_is_gone(scene):
    scene.begin()
    first = scene.driver("a.csi.test", topology={ZONE: "z1"})
    scene.registered(first)
    first.stop()
    second = scene.driver("b.csi.test", topology={ZONE: "z2"})
    status = scene.wait_status("the kubelet says no", rejected, "b.csi.test")
    assert "topology value collision" in status["last_error"], status
    with scene.row("first registration, topology value collision until the label is removed", second, 1, 0, 2):
        scene.cluster.remove_label(ZONE)


@check
def a_registered_driver_whose_topology_value_changes_stays_registered_and_says_what_helps(scene):
    scene.begin()
    driver = scene.driver(topology={ZONE: "z1"})
    scene.registered(driver)
    mark = scene.cluster.mark()
    driver.be(topology={ZONE: "z2"})
    driver.restart()
    scene.wait_status("both values are shown", lambda status: "z1" in status["reason"] and "z2" in status["reason"])
    scene.nothing_since(mark)
    with scene.row("topology value changes, label removed, reannounce", driver, 1, 1, 4):
        scene.cluster.remove_label(ZONE)
        scene.run(PROGRAM, "reannounce", DRIVER)


@check
def a_registration_whose_end_we_were_killed_before_is_heard_of_in_our_next_life(scene):
    scene.begin()
    driver = served(scene)
    with scene.row("first registration, kill -9 and start of the registrar before Notify", driver, 1, 0, 2):
        ask(scene, driver)
        # Held, the kubelet does not notice that the connection is gone, until there is somebody to connect to.
        scene.cluster.hold_kubelet()
        scene.kill()
        driver.recover()
        scene.cluster.release_kubelet()


@check
def a_registration_whose_end_nobody_heard_is_made_again(scene):
    scene.begin()
    driver = served(scene)
    with scene.row("first registration, kill -9 of the registrar before Notify, start after it", driver, 2, 1, 6):
        ask(scene, driver)
        scene.systemctl("kill", "--signal=KILL", UNIT)
        # Before systemd starts it again.
        scene.systemctl("stop", UNIT)
        driver.recover()
        eventually("the cluster has the driver", lambda: DRIVER in scene.cluster.csi_node())
        scene.calm()
        scene.systemctl("start", UNIT)


def ask(scene, driver):
    """Lets the kubelet ask; its call is between GetInfo and Notify until the driver answers."""
    asked = driver.called(NODE_GET_INFO)
    driver.hold_node_get_info()
    scene.cluster.release_kubelet()
    eventually("the kubelet asks", lambda: driver.called(NODE_GET_INFO) > asked)
