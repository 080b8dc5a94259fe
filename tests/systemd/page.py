"""Fenced blocks of the pages, which the checks run as they are."""

import re
import textwrap
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def block(page, kind, words):
    """The one block of this kind that has these words."""
    text = (DOCS / page).read_text()
    blocks = re.findall(rf"^( *)```{kind}\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    found = [textwrap.dedent(one) for _, one in blocks if words in one]
    assert len(found) == 1, f"{page} has {len(found)} blocks of {kind} with '{words}'"
    return found[0]
