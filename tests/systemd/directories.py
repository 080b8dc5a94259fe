"""Directories from the configuration, wherever they are, under the shipped unit."""

import shutil

from check import check
from host import DRIVER, KUBELET, PROGRAM, RUNTIME, UNIT

# Hidden or read-only in the sandbox.
REFUSED = ("/home", "/root", "/tmp", "/var/tmp", "/usr", "/etc", "/boot")


def use(node, base, driver=DRIVER):
    """Our two directories below base, after nothing but an edit and a plain restart."""
    node.configure(
        f'plugins_dir = "{base}/plugins"\nregistry_dir = "{base}/plugins_registry"\n'
        f'[drivers."{driver}"]\n'
    )
    node.write(
        "/run/systemd/system/elsewhere.service",
        f"[Service]\nExecStart=/opt/bed/fake-driver {base}/plugins/{driver}/csi.sock {driver}\n",
    )
    node.systemctl("daemon-reload")
    node.systemctl("restart", UNIT)


def is_served(node, base, driver=DRIVER):
    node.wait_phase("registered", driver)
    node.wait_registered(driver)
    assert node.socket(driver, f"{base}/plugins_registry").is_socket()


@check
def directories_made_after_the_start_work(node):
    node.settle()
    node.systemctl("stop", f"driver@{DRIVER}")
    base = "/srv/made/later"
    use(node, base)
    node.wait_phase("waiting-for-driver")
    node.systemctl("start", "elsewhere")
    is_served(node, base)
    node.systemctl("stop", "elsewhere")


@check
def directories_that_are_deleted_and_made_anew_work(node):
    node.settle()
    node.systemctl("stop", f"driver@{DRIVER}")
    base = "/srv/made/anew"
    use(node, base)
    node.systemctl("start", "elsewhere")
    is_served(node, base)
    node.systemctl("stop", "elsewhere")
    # Moved first: the daemon makes its directory anew faster than a tree can be deleted.
    shutil.rmtree(node.path(base).rename(node.path(base).with_name("old")))
    node.systemctl("start", "elsewhere")
    is_served(node, base)
    node.systemctl("stop", "elsewhere")


@check
def a_file_system_that_is_mounted_after_the_start_works(node):
    node.settle()
    node.systemctl("stop", f"driver@{DRIVER}")
    base = "/media/disk"
    node.path(base).mkdir(parents=True)
    use(node, base)
    node.wait_phase("waiting-for-driver")
    node.run("mount", "-t", "tmpfs", "tmpfs", base)
    try:
        node.systemctl("start", "elsewhere")
        is_served(node, base)
        assert node.run("mountpoint", base)
    finally:
        node.systemctl("stop", "elsewhere")
        node.settle()
        # Nothing of ours may keep the disk from being taken out.
        node.run("umount", base)


@check
def a_kubelet_with_a_root_of_its_own_works(node):
    node.settle()
    root = "/data/kubelet"
    unit = node.path("/etc/systemd/system/kubelet.service").read_text()
    node.path(root).mkdir(parents=True)
    node.write("/etc/systemd/system/kubelet.service", unit.replace(KUBELET, root))
    node.systemctl("daemon-reload")
    node.systemctl("restart", "kubelet")
    try:
        node.configure(f'[kubelet]\nroot_dir = "{root}"\n[drivers."{DRIVER}"]\n')
        node.systemctl("restart", UNIT)
        node.wait_phase("registered")
        node.wait_registered()
        assert node.link(directory=f"{root}/plugins_registry").is_symlink()
    finally:
        node.write("/etc/systemd/system/kubelet.service", unit)
        node.systemctl("daemon-reload")
        node.systemctl("restart", "kubelet")


@check
def a_directory_that_the_sandbox_hides_is_refused_with_the_reason(node):
    node.settle()
    wrong = []
    for top in REFUSED:
        since = node.now()
        node.configure(f'registry_dir = "{top}/registry"\n')
        node.systemctl("restart", UNIT, check=False)
        state = node.show("ActiveState", "ExecMainStatus")
        if state != {"ActiveState": "failed", "ExecMainStatus": "78"}:
            wrong.append(f"{top}: {state}")
        elif f"{top}/registry" not in node.journal("--since", since):
            wrong.append(f"{top}: the journal does not name it")
        node.systemctl("reset-failed", UNIT, check=False)
    node.settle()
    assert not wrong, "; ".join(wrong)


@check
def check_refuses_a_directory_that_the_sandbox_hides_as_the_daemon_does(node):
    node.settle()
    wrong = []
    try:
        for top in REFUSED:
            node.configure(f'registry_dir = "{top}/registry"\n')
            done = node.run(PROGRAM, "check", check=False)
            if done.returncode != 78 or f'registry_dir = "{top}/registry": ' not in done.stderr:
                wrong.append(f"{top}: {done.returncode}: {done.stderr}")
                continue
            since = node.now()
            node.systemctl("reload", UNIT, check=False)
            words = done.stderr.strip().removeprefix("error: ")
            if words not in node.journal("--since", since):
                wrong.append(f"{top}: the daemon has other words than {words}")
        assert not wrong, "; ".join(wrong)
        # By hand, and with a drop-in, another directory will do.
        file = "/etc/node-storage-driver-registrar/config.toml"
        node.configure('registry_dir = "/home/registry"\n')
        done = node.run(PROGRAM, "check", "--config", file)
        assert "warning: registry_dir" in done.stderr, done.stderr
        node.drop_in("[Service]\nProtectHome=no\n")
        node.run(PROGRAM, "check")
    finally:
        node.configure(None)
        node.settle()


@check
def a_driver_of_another_user_needs_the_drop_in_of_the_examples(node):
    node.settle()
    driver = "foreign.csi.test"
    node.write(
        "/run/systemd/system/foreign.service",
        "[Service]\nUser=nobody\nPermissionsStartOnly=yes\n"
        f"ExecStartPre=/bin/sh -c 'mkdir -p /srv/foreign && chown nobody /srv/foreign'\n"
        f"ExecStart=/opt/bed/fake-driver /srv/foreign/csi.sock {driver}\n",
    )
    node.systemctl("daemon-reload")
    node.systemctl("start", "foreign")
    node.configure(f'[drivers."{driver}"]\ncsi_socket = "/srv/foreign/csi.sock"\n', "60-foreign.toml")
    try:
        node.systemctl("restart", UNIT)
        node.wait_phase("waiting-for-driver", driver)
        example = "/usr/share/doc/node-storage-driver-registrar/examples/driver-of-another-user.conf"
        node.drop_in(node.path(example).read_text())
        node.systemctl("restart", UNIT)
        node.wait_phase("registered", driver)
    finally:
        node.configure(None, "60-foreign.toml")
        node.settle()
        node.systemctl("stop", "foreign")


@check
def a_deleted_runtime_directory_is_made_again_within_the_sandbox(node):
    node.settle()

    def delete():
        shutil.rmtree(node.path(RUNTIME))
        assert node.status() is None, "nothing was deleted"
        node.wait_phase("registered")

    node.unnoticed(delete)
    assert (node.path(RUNTIME) / "state.json").exists()
    node.unnoticed(lambda: node.systemctl("restart", UNIT))


@check
def without_a_runtime_directory_of_systemd_a_restart_is_not_noticed_either(node):
    # systemd before 235 is not to be had; the drop-in that it needs is tried on this one.
    example = "/usr/share/doc/node-storage-driver-registrar/examples/systemd-before-235.conf"
    node.settle()
    node.drop_in(node.path(example).read_text())
    node.systemctl("restart", UNIT)
    node.wait_phase("registered")
    assert node.show("RuntimeDirectory")["RuntimeDirectory"] == ""
    node.unnoticed(lambda: node.systemctl("restart", UNIT))
    node.settle()
