"""What the journal has: fields, ids, and the catalog's explanations."""

import re

from check import check
from container import eventually
from host import DRIVER, UNIT

CATALOG = "/usr/lib/systemd/catalog/node-storage-driver-registrar.catalog"
IDENTIFIER = "SYSLOG_IDENTIFIER=node-storage-driver-registrar"


def message_ids(node):
    """Id by the subject's first words, from the shipped catalog."""
    text = node.path(CATALOG).read_text()
    return {
        subject: message_id
        for message_id, subject in re.findall(r"^-- ([0-9a-f]{32})\nSubject: (.*)$", text, re.M)
    }


def id_of(node, words):
    found = [one for subject, one in message_ids(node).items() if words in subject]
    assert len(found) == 1, f"{words}: {found}"
    return found[0]


def wait_entry(node, words, **fields):
    """An entry with that message's id and these fields."""
    message_id = id_of(node, words)

    def found():
        entries = node.entries(IDENTIFIER, f"MESSAGE_ID={message_id}")
        return [one for one in entries if all(one.get(k) == v for k, v in fields.items())]

    return eventually(f"a message about '{words}' with {fields}", found, 10)[-1]


@check
def entries_have_a_stable_identifier_and_the_driver_as_fields(node):
    node.settle()
    entries = node.entries(IDENTIFIER, f"DRIVER={DRIVER}", "PHASE=registered")
    assert entries, "no entry has DRIVER and PHASE"
    entry = entries[-1]
    assert entry["CSI_SOCKET"].endswith(f"/{DRIVER}/csi.sock"), entry
    assert entry["_SYSTEMD_UNIT"] == UNIT, entry
    assert entry["PRIORITY"] == "6", f"info is filed as {entry['PRIORITY']}"


@check
def the_registered_message_has_its_id_and_the_link(node):
    node.settle()
    node.run("node-storage-driver-registrar", "reannounce", DRIVER)
    entry = wait_entry(node, "has registered", DRIVER=DRIVER)
    assert entry.get("LINK", "").endswith(f"/{DRIVER}-reg.sock"), entry
    node.settle()


@check
def the_rejected_message_has_its_id(node):
    node.settle()
    faults = {"refuse": "no such luck", "fail_api_writes": None, "lose_notify": 0,
              "delay_after_get_info": {"secs": 0, "nanos": 0}, "pause": False}
    node.tell_kubelet({"Faults": faults})
    try:
        node.run("node-storage-driver-registrar", "reannounce", DRIVER)
        node.wait_phase("rejected")
        wait_entry(node, "has refused", DRIVER=DRIVER)
    finally:
        node.tell_kubelet({"Faults": faults | {"refuse": None}})
    node.run("node-storage-driver-registrar", "reannounce", DRIVER)


@check
def the_driver_lost_message_has_its_id(node):
    node.settle()
    node.systemctl("stop", f"driver@{DRIVER}")
    wait_entry(node, "no longer answers", DRIVER=DRIVER)


@check
def the_link_repaired_message_has_its_id(node):
    node.settle()
    node.link().unlink()
    wait_entry(node, "restored the registration", DRIVER=DRIVER)
    node.wait_registered()


@check
def the_conflict_message_has_its_id(node):
    node.settle()
    driver = "taken.csi.test"
    node.link(driver).mkdir()
    node.systemctl("start", f"driver@{driver}")
    node.configure(f'[drivers."{driver}"]\n', name="60-taken.toml")
    try:
        node.systemctl("reload", UNIT)
        node.wait_phase("conflict", driver)
        wait_entry(node, "is occupied", DRIVER=driver)
    finally:
        node.configure(None, name="60-taken.toml")
        node.systemctl("reload", UNIT)
        node.systemctl("stop", f"driver@{driver}")
        node.link(driver).rmdir()


@check
def the_config_refused_message_has_its_id(node):
    node.settle()
    node.configure("plugins_dir = 3\n", name="70-broken.toml")
    try:
        node.systemctl("kill", "-s", "HUP", UNIT)
        wait_entry(node, "refused the changed configuration")
    finally:
        node.configure(None, name="70-broken.toml")
        node.systemctl("reload", UNIT)


@check
def the_catalog_is_installed_and_explains_every_id(node):
    ids = message_ids(node)
    assert len(ids) == 8, ids
    known = node.run("journalctl", "--list-catalog", *ids.values()).stdout
    for subject, message_id in ids.items():
        assert f"{message_id} node-storage-driver-registrar: {subject}" in known, known


@check
def journalctl_x_explains_a_message_with_its_fields_filled_in(node):
    # Written here, so that the catalog is tested whether or not the daemon has the message.
    entry = {
        "MESSAGE": "a message of the test",
        "MESSAGE_ID": id_of(node, "no longer answers"),
        "DRIVER": "explained.csi.test",
        "CSI_SOCKET": "/explained/csi.sock",
        "SYSLOG_IDENTIFIER": "catalog-test",
    }
    text = "".join(f"{name}={value}\n" for name, value in entry.items())
    node.run("logger", "--journald", input=text)
    explained = lambda: node.run("journalctl", "-q", "-x", "-t", "catalog-test").stdout
    eventually("the entry is there", lambda: "a message of the test" in explained(), 5)
    shown = explained()
    assert "Subject: The CSI driver explained.csi.test no longer answers" in shown, shown
    assert "/explained/csi.sock" in shown and "withdraw_after" in shown, shown


# One datagram from each socket, for each has room of its own.
FILL = """
import socket
while True:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.setblocking(False)
    try:
        one.sendto(b"MESSAGE=x\\n", "/run/systemd/journal/socket")
    except BlockingIOError:
        break
"""


@check
def a_journal_that_hangs_holds_nobody_up(node):
    node.settle()
    node.systemctl("kill", "-s", "STOP", "systemd-journald.service")
    try:
        node.run("python3", "-c", FILL)
        # Both have something to log.
        node.run("node-storage-driver-registrar", "reload")
        node.run("node-storage-driver-registrar", "reannounce", DRIVER)
        node.wait_phase("registered")
        node.systemctl("restart", UNIT)
        node.wait_phase("registered")
    finally:
        node.systemctl("kill", "-s", "CONT", "systemd-journald.service")
    node.settle()
