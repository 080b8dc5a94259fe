"""systemctl reload: the difference is applied, and nothing else."""

from check import check
from container import eventually
from host import DRIVER, UNIT

OTHER = "other.csi.test"


@check
def reload_adds_a_driver_and_leaves_the_other_alone(node):
    node.settle()
    node.systemctl("start", f"driver@{OTHER}")
    before = len(node.events())
    node.configure(f'[drivers."{OTHER}"]\n', name="60-other.toml")
    node.systemctl("reload", UNIT)
    assert node.phase(OTHER) is not None, "reload returned before it was applied"
    node.wait_registered(OTHER)
    touched = {fields.get("name") for _, fields in node.events()[before:]} - {None}
    assert touched == {OTHER}, touched


@check
def reload_with_a_changed_driver_is_not_noticed(node):
    pid = node.pid()

    def change():
        node.configure(f'[drivers."{OTHER}"]\nrequest_timeout = "3s"\n', name="60-other.toml")
        node.systemctl("reload", UNIT)

    node.unnoticed(change)
    assert node.pid() == pid
    node.wait_phase("registered", OTHER)


@check
def reload_removes_a_driver_and_leaves_the_other_alone(node):
    before = len(node.events())
    node.configure(None, name="60-other.toml")
    node.systemctl("reload", UNIT)
    assert node.phase(OTHER) is None, "reload returned before it was applied"
    node.wait_deregistered(OTHER)
    touched = {fields.get("name") for _, fields in node.events()[before:]} - {None}
    assert touched == {OTHER}, touched
    assert not node.link(OTHER).is_symlink() and not node.socket(OTHER).exists()
    node.systemctl("stop", f"driver@{OTHER}")


@check
def reload_with_a_broken_file_fails_with_the_reason_and_changes_nothing(node):
    node.settle()
    pid = node.pid()

    def refused():
        node.configure('[service]\nready_when = "soon"\n', name="70-broken.toml")
        assert node.systemctl("reload", UNIT, check=False).returncode != 0, "it was not refused"

    try:
        since = node.now()
        node.unnoticed(refused)
        journal = node.journal("--since", since)
        for word in ("70-broken.toml", "ready_when", "soon"):
            assert journal.count(word) == 1, f"not once {word}: {journal[-800:]}"
        assert node.is_active() and node.pid() == pid
        assert node.phase() == "registered"
        assert "refused" in node.status_line(), f"STATUS does not say it: {node.status_line()}"
    finally:
        node.configure(None, name="70-broken.toml")
    node.systemctl("reload", UNIT)
    assert node.status_line() == "1 of 1 drivers registered", node.status_line()


@check
def sighup_with_a_broken_file_says_so_in_status_and_changes_nothing(node):
    node.settle()
    pid = node.pid()
    node.configure("plugins_dir = 3\n", name="70-broken.toml")
    try:
        node.unnoticed(lambda: node.systemctl("kill", "-s", "HUP", UNIT))
        eventually("STATUS says so", lambda: "refused" in node.status_line(), 5)
        assert "70-broken.toml" in node.status_line(), node.status_line()
        assert node.pid() == pid and node.phase() == "registered"
    finally:
        node.configure(None, name="70-broken.toml")
    node.systemctl("kill", "-s", "HUP", UNIT)
    eventually("STATUS is well", lambda: node.status_line() == "1 of 1 drivers registered", 5)


@check
def a_start_with_a_broken_file_fails_with_78_and_is_not_tried_again(node):
    node.settle()
    node.configure("plugins_dir = 3\n", name="70-broken.toml")
    try:
        restarts = node.show("NRestarts")["NRestarts"]
        node.systemctl("restart", UNIT, check=False)
        state = node.show("ActiveState", "ExecMainStatus", "NRestarts")
        assert state["ActiveState"] == "failed" and state["ExecMainStatus"] == "78", state
        assert state["NRestarts"] in (restarts, "0"), state
        assert "70-broken.toml" in node.journal(), "the journal does not name the file"
    finally:
        node.configure(None, name="70-broken.toml")
