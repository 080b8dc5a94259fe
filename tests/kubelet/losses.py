"""What somebody deletes: the link, the socket, the directories."""

from check import check
from container import eventually
from host import REGISTRY, UNIT
from restarts import settled
from scene import PLUGINS_REGISTRY


@check
def what_the_kubelet_does_not_watch_is_put_back_unnoticed(scene):
    driver = settled(scene)
    socket = scene.socket()
    with scene.row("reg.sock deleted", driver):
        socket.unlink()
        eventually("it is back", socket.is_socket)
    with scene.row("registry_dir deleted and recreated", driver):
        scene.run("sh", "-c", f"until rm -rf {REGISTRY}; do :; done; mkdir -p {REGISTRY}")
        eventually("the socket is back", socket.is_socket)


@check
def a_link_that_is_deleted_is_put_back_and_the_driver_registered_again(scene):
    driver = settled(scene)
    with scene.row("link deleted", driver, 1, 1, 4):
        scene.link().unlink()
    with scene.row("link replaced while the registrar is down", driver, 1, 1, 4):
        scene.systemctl("kill", "--signal=STOP", UNIT)
        target = scene.link().readlink()
        scene.link().unlink()
        scene.link().symlink_to(target)
        scene.wait_unlisted()
        scene.kill()
    with scene.row("link removed while the driver is down", driver, 1, 1, 4):
        scene.lose(driver)
        scene.link().unlink()
        scene.wait_unlisted()
        driver.start()


@check
def a_plugins_registry_that_is_deleted_needs_a_restart_of_the_kubelet_and_the_status_says_so(scene):
    driver = settled(scene)
    with scene.row("plugins_registry deleted and recreated, then kubelet restarts", driver, 1, 1, 4):
        # Awake, the registrar would put the link back before the directory is gone.
        scene.systemctl("kill", "--signal=STOP", UNIT)
        scene.run("rm", "-r", PLUGINS_REGISTRY)
        scene.systemctl("kill", "--signal=CONT", UNIT)
        scene.wait_unlisted()
        scene.run("mkdir", "-m", "0750", PLUGINS_REGISTRY)
        status = scene.wait_status("it says what helps", lambda status: "restart the kubelet" in (status["reason"] or ""))
        assert status["phase"] == "waiting-for-kubelet", status
        eventually("the link is back", scene.link().is_symlink)
        scene.calm()
        assert not scene.cluster.csi_node()
        scene.cluster.stop_kubelet()
        scene.cluster.start_kubelet()
