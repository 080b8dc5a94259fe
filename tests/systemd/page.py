"""Fenced blocks of the pages, which the checks run as they are."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def block(page, kind, words):
    """The one block of this kind that has these words."""
    text = (DOCS / page).read_text()
    found = [one for one in re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) if words in one]
    assert len(found) == 1, f"{page} has {len(found)} blocks of {kind} with '{words}'"
    return found[0]
