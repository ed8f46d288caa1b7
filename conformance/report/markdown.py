"""Markdown in which whatever an engine said is plain text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Final

from tickproof.conformance.text import shown

_MARKUP: Final = re.compile(r"([\\`*_\[\]|#~$@])")


def escaped(text: str, limit: int) -> str:
    """Return text on one line that Markdown and HTML show as it is, in a table cell too."""
    return _MARKUP.sub(r"\\\1", html.escape(shown(text, limit), quote=False))


def code(text: str, limit: int) -> str:
    """Return text as a code span, which may stand in a table."""
    return "`" + shown(text, limit).replace("`", "'").replace("|", "\\|") + "`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; its cells are Markdown."""
    first, *rest = (f"| {' | '.join(cells)} |" for cells in (head, *rows))
    return [first, "|---" * len(head) + "|", *rest]
