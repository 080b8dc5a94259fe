"""Who comes when: driver, registrar, kubelet; one driver and several."""

from check import check
from container import eventually
from host import DRIVER, PROGRAM, UNIT
from scene import PLUGINS_REGISTRY

ZONE = {"topology.cucloud.test/zone": "z1", "topology.cucloud.test/rack": "r7"}


@check
def a_driver_that_comes_last_is_in_the_cluster_with_all_that_it_says(scene):
    scene.begin()
    mark = scene.cluster.mark()
    driver = scene.driver(node_id="host-7", limit=24, topology=ZONE)
    scene.registered(driver)
    scene.calm()
    seen = scene.cluster.seen_since(mark)
    assert seen == {"registrations": 1, "deregistrations": 0, "csi_node_writes": 1, "node_patches": 1}, seen


@check
def a_registrar_that_comes_last_registers_the_driver(scene):
    scene.begin(start=False)
    driver = scene.driver()
    scene.systemctl("start", UNIT)
    scene.registered(driver)


@check
def a_kubelet_that_comes_last_registers_the_driver(scene):
    scene.begin()
    scene.cluster.stop_kubelet()
    driver = scene.driver()
    scene.wait_phase("waiting-for-kubelet")
    assert scene.link().is_symlink()
    with scene.row("kubelet comes last", driver, registrations=1, writes=2):
        scene.cluster.start_kubelet()


@check
def drivers_with_a_table_and_drivers_without_are_all_registered(scene):
    first, second, third = "a.csi.test", "b.csi.test", "c.csi.test"
    scene.begin(f'[drivers."{first}"]\n[drivers.renamed]\ncsi_socket = "/vdata/storage/plugins/elsewhere/csi.sock"\n')
    assert {driver["id"] for driver in scene.status()["drivers"]} == {first, "renamed"}
    drivers = [scene.driver(first), scene.driver(second, directory="elsewhere"), scene.driver(third)]
    scene.registered(*drivers)
    assert {driver["id"] for driver in scene.status()["drivers"]} == {first, "renamed", third}


@check
def in_the_layout_of_node_driver_registrar_a_driver_is_registered_and_a_restart_costs_nothing(scene):
    # The socket in the kubelet's own directory, and the link beside it.
    scene.begin(f'registry_dir = "{PLUGINS_REGISTRY}"\n')
    driver = scene.driver()
    scene.registered(driver)
    with scene.row("our restart, in one directory", driver):
        scene.systemctl("restart", UNIT)
    with scene.row("kubelet restarts, in one directory", driver, registrations=1):
        scene.cluster.stop_kubelet()
        scene.cluster.start_kubelet()


@check
def the_command_line_of_node_driver_registrar_registers_a_driver_unchanged(scene):
    scene.begin(start=False)
    driver = scene.driver()
    command = [
        "systemd-run", "--quiet", "--unit=ndr", "--collect", PROGRAM,
        "--v=5", f"--csi-address={driver.socket}", f"--kubelet-registration-path={driver.socket}",
        f"--plugin-registration-path={PLUGINS_REGISTRY}",
    ]
    listed = lambda: scene.cluster.csi_node().get(DRIVER) == driver.entry
    scene.run(*command)
    try:
        eventually("CSINode has the driver", listed)
        scene.calm()
        mark = scene.cluster.mark()
        scene.systemctl("kill", "--signal=KILL", "ndr")
        eventually("it has ended", lambda: scene.show("ActiveState", unit="ndr")["ActiveState"] != "active")
        scene.run(*command)
        scene.nothing_since(mark)
        assert listed(), scene.cluster.csi_node()
    finally:
        scene.systemctl("stop", "ndr")
    scene.wait_unlisted()
