"""An API server that cannot be asked: verify says why, and nothing changes for any driver."""

import contextlib
import time

from check import check
from cluster import HOME
from credentials import Authority
from host import DRIVER
from verify import AGREES, KnownDriver, NOT_ASKED, found, is_found, of_driver, verify


@contextlib.contextmanager
def unnoticed(scene):
    """A registered driver. Whatever happens in the block, the daemon, the kubelet and the cluster go on as before."""
    scene.begin()
    driver = scene.driver()
    with KnownDriver(scene, driver):
        scene.registered(driver)
        is_found(scene, found(of_driver(driver)), code=AGREES)
        mark, before = scene.cluster.mark(), ageless(scene.status_of(DRIVER))
        yield
        scene.nothing_since(mark)
        after = ageless(scene.status_of(DRIVER))
        assert after == before | {"cluster_checked": after["cluster_checked"]}, f"{after}, and not {before}"
        is_found(scene, found(of_driver(driver)), code=AGREES)


def ageless(status):
    """Without the words, which say how old the cluster's are."""
    return status | {"reason": None}


def not_asked(scene, *words):
    """A run says why it could not ask. What the daemon knows of the cluster is as old as it was."""
    before = ageless(scene.status_of(DRIVER))
    run = verify(scene, "--repair", "--timeout", "2s", code=NOT_ASKED)
    for part in words:
        assert part in run.said, f"{part} is missing: {run.said}"
    assert ageless(scene.status_of(DRIVER)) == before, scene.status_of(DRIVER)


@check
def an_api_server_that_hangs_is_gone_or_does_not_know_the_token_changes_nothing(scene):
    cluster = scene.cluster
    with unnoticed(scene):
        try:
            with cluster.held_api_server():
                begun = time.monotonic()
                not_asked(scene, "did not answer within 2s", "--timeout")
                assert time.monotonic() - begun < 4, "it took longer than its time"
            cluster.kill_api_server()
            not_asked(scene, "cannot reach the API server https://127.0.0.1:6443", "Connection refused")
            cluster.write_kubeconfig("token")
            cluster.write_tokens("another")
            cluster.start_api_server()
            not_asked(scene, "401 Unauthorized", "its token or certificate has expired or was replaced")
        finally:
            cluster.write_tokens()
            cluster.stop_api_server()
            cluster.start_api_server()
            verify(scene, code=AGREES)
            cluster.write_kubeconfig("certificate")


@check
def a_certificate_is_read_anew_after_its_rotation(scene):
    cluster = scene.cluster
    with unnoticed(scene):
        try:
            cluster.rotate_certificate("kubelet-client-2.pem", Authority())
            not_asked(scene, "401 Unauthorized", "its token or certificate has expired or was replaced")
        finally:
            cluster.rotate_certificate("kubelet-client-3.pem")
        verify(scene, code=AGREES)
        try:
            cluster.write_kubeconfig("certificate", f"{HOME}/client-ca.pem")
            not_asked(scene, "cannot reach the API server https://127.0.0.1:6443", "certificate")
        finally:
            cluster.write_kubeconfig("certificate")


@check
def the_node_of_another_machine_is_not_compared(scene):
    cluster = scene.cluster
    with unnoticed(scene):
        own = {key: cluster.node()["status"]["nodeInfo"][key] for key in ("bootID", "machineID")}
        assert all(own.values()), own
        cluster.hold_kubelet()
        try:
            cluster.set_machine(bootID="9f0c1f2e-0000-4000-8000-000000000000")
            # As a node that is a container has it, in the eyes of a unit.
            verify(scene, code=AGREES)
            cluster.set_machine(machineID="9f0c1f2e000040008000000000000000")
            not_asked(scene, "Node node-1 runs on another machine")
        finally:
            cluster.set_machine(**own)
            cluster.release_kubelet()
