#!/usr/bin/env python3
"""Compares what the real kubelet and the test kubelet did, and keeps docs/survival.md true to it."""

import argparse
import json
import os
import sys
from pathlib import Path

# In the docs, between these; the text between them is ours.
END = "<!-- end -->\n"
EVENTS = "<!-- events on a real kubelet: written by tests/kubelet/run with UPDATE_DOCS=1 -->\n"
CASES = "<!-- plugins_registry: written by tests/kubelet/run with UPDATE_DOCS=1 -->\n"
# The table that tests/matrix writes; its first column of figures is for kubelets before 1.25.
COUNTS = "<!-- counts: written by tests/matrix with UPDATE_DOCS=1 -->\n"
# Rows of that table that the real kubelet does not have: what only a fault in the test kubelet or a setting of
# the driver's server brings about, and what has another row here.
NOT_HERE = {
    "registrar stops (on_stop = keep) and starts",
    "driver's server closes idle connections",
    "driver's server closes idle connections, then a kubelet starts",
    "first registration, Notify lost",
    "first registration, NodeGetInfo fails for 8 s",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partial", action="store_true", help="not all of it was run: leave the docs alone")
    for name in ("real", "bed"):
        parser.add_argument(f"--{name}", type=Path, nargs="+", required=True)
    parser.add_argument("--docs", type=Path, required=True)
    options = parser.parse_args()
    real, bed = together(options.real), together(options.bed)
    if not real["told"]:
        sys.exit("no story has these words in its name")
    checks = list(differences(real, bed))
    if options.partial:
        print("docs/survival.md is not compared: not all of it was run, or something failed")
    else:
        checks += documented(real, options.docs)
    failed = 0
    for words, fault in checks:
        failed += fault is not None
        print(f"FAILED both kubelets: {words}: {fault}" if fault else f"ok both kubelets: {words}")
    sys.exit(1 if failed else 0)


def together(paths):
    """The results of all parts, in the order of the stories."""
    parts = [json.loads(path.read_text()) for path in paths]
    results = {"told": sum(part["told"] for part in parts)}
    for kind in ("rows", "cases"):
        items = [item for part in parts for item in part[kind].items()]
        results[kind] = dict(sorted(items, key=lambda item: item[1]["check"]))
    return results


def differences(real, bed):
    """What was tried on both, each with how they differ."""
    for kind, part in (("rows", "cost"), ("cases", "outcome")):
        shared = {words for words, item in real[kind].items() if not item.get("is_real_only")}
        for words in sorted(shared | bed[kind].keys()):
            both = [results[kind].get(words, {}).get(part, "not tried") for results in (real, bed)]
            fault = None if both[0] == both[1] else f"the real one: {both[0]}; the test kubelet: {both[1]}"
            yield words, fault


def documented(real, path):
    """The docs' tables against what was just seen."""
    tables = {EVENTS: events(real["rows"]), CASES: cases(real["cases"])}
    docs = path.read_text()
    if os.environ.get("UPDATE_DOCS"):
        for begin, table in tables.items():
            old = between(docs, begin, END)
            docs = docs.replace(begin + old + END, begin + table + END)
        path.write_text(docs)
    for begin, table in tables.items():
        written = comparable(between(docs, begin, END))
        fault = None if written == comparable(table) else f"{path} is not so; UPDATE_DOCS=1 writes it"
        yield begin.strip("<!- \n"), fault
    for line in between(docs, COUNTS, "<!-- end of counts -->\n").splitlines()[2:]:
        words, figures = [field.strip() for field in line.split("|")[1:3]]
        if words in NOT_HERE:
            continue
        seen = " / ".join(map(str, real["rows"].get(words, {}).get("cost", ["not tried"])))
        yield f"{words}: in the matrix of tests/matrix", None if seen == figures else f"{seen}, not {figures}"


def between(docs, begin, end):
    _, found, rest = docs.partition(begin)
    text, closed, _ = rest.partition(end)
    if not found or not closed:
        sys.exit(f"docs/survival.md has no {begin.strip()} with its end")
    return text


def comparable(table):
    """Without the seconds, which differ from run to run."""
    return [line.rpartition(" s |")[0].rpartition("|")[0] or line for line in table.splitlines()]


def events(rows):
    table = "| event | 1.20.2 | until registered |\n|---|---|---|\n"
    for words, row in rows.items():
        # Where nothing happens, the driver was registered all the time.
        time = f"{row['seconds']:.1f} s" if any(row["cost"]) else "always"
        table += f"| {words} | {' / '.join(map(str, row['cost']))} | {time} |\n"
    return table


def cases(outcomes):
    table = "| in plugins_registry | calls of the kubelet | in CSINode |\n|---|---|---|\n"
    for words, case in outcomes.items():
        calls, listed = case["outcome"].rsplit(": ", 1)
        table += f"| {words} | {calls} | {listed} |\n"
    return table


main()
