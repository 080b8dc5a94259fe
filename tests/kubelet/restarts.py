"""Restarts and crashes: ours and the driver's cost nothing, the kubelet's no write."""

from check import check
from container import eventually
from host import CONFIG, DRIVER, PLUGINS, UNIT
from peers import NODE_GET_INFO
from pod_volume import set_up_volume, tear_down_volume
from scene import is_silent


def settled(scene, config=None):
    """One driver, registered, with nothing going on."""
    scene.begin(config)
    driver = scene.driver(topology={"topology.cucloud.test/zone": "z1"})
    scene.registered(driver)
    return driver


@check
def our_restart_crash_upgrade_and_reload_are_not_noticed(scene):
    driver = settled(scene)
    with scene.row("our restart", driver):
        scene.systemctl("restart", UNIT)
    with scene.row("kill -9 and start of the registrar", driver):
        scene.kill()
    with scene.row("upgrade to another binary", driver):
        old = scene.run("readlink", f"/proc/{scene.pid()}/exe").stdout
        scene.install_binary(more=b"another")
        scene.systemctl("try-restart", UNIT)
        assert scene.run("readlink", f"/proc/{scene.pid()}/exe").stdout == old
        assert scene.run("tail", "--bytes=7", f"/proc/{scene.pid()}/exe").stdout == "another"
    with scene.row("reload with another setting", driver):
        scene.write(f"{CONFIG}/config.d/60-log.toml", '[log]\nlevel = "debug"\n')
        scene.systemctl("reload", UNIT)
    with scene.row("driver's id renamed in the configuration, reload", driver):
        table = f'[drivers.renamed]\ncsi_socket = "{driver.socket}"\n'
        scene.write(f"{CONFIG}/config.d/50-test.toml", table)
        scene.systemctl("reload", UNIT)
        scene.wait_phase("registered", "renamed")


@check
def a_stop_and_a_lost_table_are_not_noticed_while_volumes_are_in_use(scene):
    file, tables_only = f"{CONFIG}/config.d/50-test.toml", "[discovery]\nenabled = false\n"
    table = f'[drivers."{DRIVER}"]\n{tables_only}'
    driver = settled(scene, table)
    set_up_volume(scene)
    try:
        with scene.row("registrar stops (on_stop = auto) and starts, volumes of the driver in use", driver):
            scene.systemctl("stop", UNIT)
            scene.systemctl("start", UNIT)
        with scene.row("driver's table removed, reload, table back, reload, volumes of the driver in use", driver):
            scene.write(file, tables_only)
            scene.systemctl("reload", UNIT)
            scene.wait_status("the driver stays", lambda status: "1 volume is in use" in (status["reason"] or ""))
            scene.write(file, table)
            scene.systemctl("reload", UNIT)
    finally:
        tear_down_volume(scene)


@check
def restarts_of_the_driver_are_not_noticed(scene):
    driver = settled(scene)
    with scene.row("driver restarts, same as before", driver):
        scene.lose(driver)
        driver.start()
        scene.wait_status("the driver is back", lambda status: not is_silent(status))
    with scene.row("driver's kill -9 and start", driver):
        driver.restart()
    with scene.row("driver's volume limit changes while it runs, kill -9 and start of the registrar", driver):
        entry = driver.entry
        driver.be(limit=5, topology=driver.topology)
        driver.entry = entry
        scene.kill()
        scene.wait_status("the limit is shown", lambda status: "limit of 5" in (status["reason"] or ""))


@check
def a_kubelet_that_restarts_has_the_driver_again(scene):
    driver = settled(scene)
    with scene.row("kubelet restarts", driver, registrations=1):
        scene.cluster.stop_kubelet()
        scene.cluster.start_kubelet()
    with scene.row("kubelet's kill -9 and start", driver, registrations=1):
        scene.cluster.kill_kubelet()
        scene.cluster.start_kubelet()
    with scene.row("kubelet and registrar restart at once", driver, registrations=1):
        scene.systemctl("stop", "kubelet")
        scene.systemctl("restart", UNIT)
        scene.cluster.start_kubelet()
    with scene.row("kubelet restarts while the driver is down", driver, registrations=1):
        scene.lose(driver)
        scene.cluster.stop_kubelet()
        eventually("the link goes", lambda: not scene.link().is_symlink())
        scene.cluster.start_kubelet()
        driver.start()


@check
def a_driver_that_moves_to_another_directory_is_announced_once(scene):
    tables = f'[drivers."{DRIVER}"]\n[drivers.elsewhere]\n'
    driver = settled(scene, tables)
    with scene.row("driver comes back in another directory", driver, 1, 1, 4):
        driver.stop()
        moved = scene.driver(directory="elsewhere", topology=driver.topology)
        endpoint = f"{PLUGINS}/elsewhere/csi.sock"
        scene.wait_status("the other socket is registered", lambda status: status["endpoint"] == endpoint)
    assert moved.called(NODE_GET_INFO) >= 2, moved.calls()
