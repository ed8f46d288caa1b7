"""Stack traces of engines, cut to what one looks at first."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final

#: The innermost frame of a trace: where it is, and its line of code.
_KEPT: Final = 2
_BLANKS: Final = (" ", "\t", "\\t")  # the last one: a tab that was made safe to print


def shortened(lines: Iterable[str]) -> list[str]:
    """Return lines of standard error with all frames but the last taken out of each trace.

    A trace is a run of indented lines, as in Python, Java and Rust. What stands around it
    stays: with its last frame and the error below it, a trace keeps three lines.
    """
    found: list[str] = []
    marked = (line for line in lines if not line.strip() or line.strip(" ^~"))
    for inside, run in groupby(marked, key=lambda line: line.startswith(_BLANKS)):
        some = list(run)
        if inside and len(some) > _KEPT + 1:
            found.append(f"  ... {len(some) - _KEPT} lines of the trace left out")
            some = some[-_KEPT:]
        found += some
    return found
