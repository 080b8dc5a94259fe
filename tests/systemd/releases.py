"""Releases of systemd: what those from 239 on do not know of the units, as the table in docs/packaging.md has it."""

import gzip
import re
from pathlib import Path

from check import check
from host import TIMER, UNIT, VERIFY
from sandbox import prepare, probed, probes_of, sandbox

PAGE = Path(__file__).parents[2] / "docs/packaging.md"
OLDEST = 239
PAGES = ("unit", "service", "timer", "exec", "kill", "resource-control")
# The first systemd whose man pages say since when a directive exists.
SAID_SINCE = 255
# Its entry in the man page is younger than the directive: 239 has it.
ENTRY_IS_YOUNGER = {"ConditionPathExists"}


def table():
    """The rows of the table: a line of the units, the first systemd that knows it, and what is allowed before."""
    section = PAGE.read_text().split("### Old systemd\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| `([^`]+)`(?: in `SystemCallFilter=`)? \| (\d+)[^|]*\| (.*) \|$", section, re.MULTILINE)
    assert rows, f"{PAGE} has no table of old systemd"
    return {line.partition("=")[0]: (int(since), allowed) for line, since, allowed in rows}


def said_since(node):
    """The first systemd that knows a directive, from the man pages of this one."""
    found = {}
    for page in PAGES:
        text = gzip.decompress(node.path(f"/usr/share/man/man5/systemd.{page}.5.gz").read_bytes()).decode()
        for entry in re.split(r"\n\.PP\n(?=\\fI\w+=)", text)[1:]:
            versions = [int(version) for version in re.findall(r"Added in version (\d+)", entry)]
            for name in re.findall(r"\\fI(\w+)=", entry.partition("\n")[0]) if versions else []:
                found.setdefault(name, min(versions))
    return found


@check
def the_page_has_every_line_that_is_younger_than_systemd_239(node):
    if node.systemd() < SAID_SINCE:
        print(f"# the man pages of systemd {node.systemd()} do not say since when a directive exists", flush=True)
        return
    units = "".join(node.path(f"/usr/lib/systemd/system/{unit}").read_text() for unit in (UNIT, VERIFY, TIMER))
    names = set(re.findall(r"^(\w+)=", units, re.MULTILINE)) - ENTRY_IS_YOUNGER
    said = said_since(node)
    assert said.keys() & names > {"ProtectProc", "ReadOnlyPaths", "RandomizedDelaySec"}, said
    younger = {name: said[name] for name in names if said.get(name, 0) > OLDEST}
    # The man pages do not say it of groups of system calls.
    listed = {name: since for name, (since, _) in table().items() if not name.startswith("@")}
    assert listed == younger, f"the page has {listed}, the man pages {younger}"


@check
def without_the_younger_lines_only_what_the_page_says_is_allowed(node):
    """As on systemd 239, which ignores these lines."""
    prepare(node)
    known = probed(node, []).keys()
    rows = table()
    for unit in (UNIT, VERIFY):
        old = [
            (name, " ".join(word for word in value.split() if word not in rows))
            for name, value in sandbox(node, unit)
            if name not in rows
        ]
        assert len(old) < len(sandbox(node, unit)), old
        probes = [name for line in sandbox(node, unit) for name in probes_of(line, known)]
        answers = probed(node, old, *probes)
        allowed = {name.removeprefix("SystemCallFilter ") for name in probes if answers[name] is None}
        expected = {name for name, (_, words) in rows.items() if not words.startswith("nothing")}
        # The probe of set-uid files writes where verify cannot write.
        if unit == VERIFY:
            expected.discard("RestrictSUIDSGID")
        assert allowed == expected, f"{unit}: allowed are {sorted(allowed)}, the page has {sorted(expected)}"


@check
def without_the_younger_lines_the_daemon_works_and_a_restart_is_not_noticed(node):
    node.settle()
    rows = table()
    lines = [(name, "no" if value == "yes" else "default") for name, value in sandbox(node, UNIT) if name in rows]
    assert len(lines) == len([name for name in rows if not name.startswith("@")]), lines
    node.drop_in("[Service]\n" + "".join(f"{name}={value}\n" for name, value in lines))
    node.systemctl("restart", UNIT)
    node.wait_phase("registered")
    node.unnoticed(lambda: node.systemctl("restart", UNIT))
    node.settle()
