"""Links of a page, and the anchors that they may lead to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from docs.tools import pages
from tests.docs.blocks import ROOT, prose

#: Pages that only the site has.
MADE: Final = {
    ROOT / "docs" / name: text
    for name, text in (pages.pages() | dict.fromkeys(pages.survey(), "")).items()
}

_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    found: set[str] = set()
    for heading in _HEADING.findall(prose(MADE.get(page) or page.read_text("utf-8"))):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        number = 0
        while (one := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(one)
    return found


def dead_links(page: Path) -> list[str]:
    """Return the targets of a page that lead nowhere: no such file, or no such heading in it."""
    dead = []
    text = re.sub(r"`[^`\n]*`", "", prose(page.read_text("utf-8")))
    for target in _LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not (path in MADE or path.exists()) or (anchor and anchor not in anchors(path)):
            dead.append(target)
    return dead
