"""The quadlets of the examples, through podman's generator. No image can be pulled in here."""

from check import check
from host import KUBELET
from sandbox import EXAMPLES

QUADLETS = "/etc/containers/systemd"
GENERATOR = "/usr/lib/systemd/system-generators/podman-system-generator"


@check
def podman_makes_a_unit_of_each_quadlet_with_the_order_and_the_propagation(node):
    examples = sorted(node.path(f"{EXAMPLES}/drivers").glob("*.container"))
    assert len(examples) == 6, examples
    for example in examples:
        node.write(f"{QUADLETS}/{example.name}", example.read_text())
    # The generator names it, and systemd-analyze wants it to exist.
    node.write("/usr/bin/podman", "#!/bin/sh\nexit 1\n", mode=0o755)
    try:
        dry = node.run(GENERATOR, "--dryrun")
        complaints = [line for line in dry.stderr.splitlines() if "Loading source unit file" not in line]
        assert not complaints, complaints
        node.systemctl("daemon-reload")
        wrong = []
        for example in examples:
            unit = f"{example.stem}.service"
            shown = node.show("FragmentPath", "SourcePath", "Before", "WantedBy", "ExecStart", unit=unit)
            if shown["FragmentPath"] != f"/run/systemd/generator/{unit}":
                wrong.append(f"{unit} was not generated: {shown}")
                continue
            command = shown["ExecStart"].split()
            expected = {
                "SourcePath": shown["SourcePath"] == f"{QUADLETS}/{example.name}",
                "Before": {"kubelet.service", "k3s.service"} <= set(shown["Before"].split()),
                "WantedBy": "multi-user.target" in shown["WantedBy"],
                "rshared": f"{KUBELET}:{KUBELET}:rshared" in command,
                "--privileged": "--privileged" in command,
                "the host's network": {"--network=host", "host"} & set(command),
            }
            wrong += [f"{unit}: {name}: {shown}" for name, is_right in expected.items() if not is_right]
            said = node.run("systemd-analyze", "verify", "--man=no", shown["FragmentPath"], check=False).stderr
            wrong += [line for line in said.splitlines() if example.stem in line]
        assert not wrong, wrong
    finally:
        for example in examples:
            node.path(f"{QUADLETS}/{example.name}").unlink()
        node.path("/usr/bin/podman").unlink()
        node.systemctl("daemon-reload")
