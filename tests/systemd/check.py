"""Checks: functions in the order they were written, each with a sentence for its name."""

import sys
import time
import traceback

_checks = []


def check(function):
    """Makes a function a check; its name, read as a sentence, is the check's."""
    _checks.append(function)
    return function


def run(node, label, wanted, share=(0, 1), suits=lambda function: True):
    """Runs the checks whose names contain any of the wanted words; gives how many they were and how many failed.

    With a share of (1, 3), only every third of them, from the second on; and of them those that suit.
    """
    passed = failed = 0
    for node.check, function in enumerate(_checks):
        if node.check % share[1] != share[0] or not suits(function):
            continue
        name = f"{label}: {function.__name__.replace('_', ' ')}"
        # Installing is not a choice: everything after it needs it.
        if wanted and not any(word in name for word in wanted) and "install" not in name:
            continue
        begun = time.monotonic()
        try:
            function(node)
        except Exception as error:
            failed += 1
            why = " ".join(str(error).split()) or type(error).__name__
            print(f"FAILED {name}: {why}", flush=True)
            if not isinstance(error, AssertionError):
                traceback.print_exc(file=sys.stderr)
            node.report()
        else:
            passed += 1
            print(f"ok {name} ({time.monotonic() - begun:.1f} s)", flush=True)
    print(f"{label}: {passed} passed, {failed} failed", flush=True)
    return passed + failed, failed
