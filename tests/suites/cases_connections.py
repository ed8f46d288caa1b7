"""What the tests of connections that fail must reject, or call unknown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.suites import tampering as t
from tests.suites.cases import CONFLICT, FAILED, GAP, LOST, TWICE, WRONG_TOTAL, WRONG_VERDICT, Cases

ONCE: Cases = [LOST, TWICE, GAP, CONFLICT, FAILED]
EXACT: Cases = [LOST, TWICE, GAP, WRONG_TOTAL, FAILED]

REJECTS: dict[str, Cases] = {
    "EO-SOURCE-CUT:count-links-cut": [LOST, WRONG_TOTAL, FAILED],
    "EO-SOURCE-CUT:market-two-links-cut": [LOST, WRONG_VERDICT, FAILED],
    "EO-SINK-CUT:count-links-cut": EXACT,
    "EO-SINK-CUT:market-two-links-cut": [LOST, TWICE, GAP, WRONG_VERDICT, FAILED],
    "DL-LATE-BYTES:count-links-cut": ONCE,
    "DL-LATE-BYTES:market-two-links-cut": [LOST, TWICE, GAP, FAILED],
    "EO-HALF-OPEN:count-links-down": EXACT,
    "DL-REFUSED:count-links-down": ONCE,
    "DL-REFUSED:count-some-refused": [
        LOST,
        TWICE,
        FAILED,
        (t.edited("drained", staged_open=1), "STAGED_AT_DRAIN"),
    ],
    "BP-SLOW-LINKS:count-links-slow": EXACT,
    "BP-SILENT-SOURCE:count-links-slow": EXACT,
}


def _of(row: dict[str, Any], do: str, target: str) -> bool:
    return row["event"] == "link" and (row["do"], row["target"]) == (do, target)


def _links(do: str, target: str, change: Callable[[dict[str, Any]], dict | None]) -> t.Tamper:
    def edit(folder: Path) -> None:
        def rows_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
            changed = [change(row) if _of(row, do, target) else row for row in rows]
            return [row for row in changed if row is not None]

        t.events(folder, rows_of)

    return edit


def _needs(*faults: tuple[str, str]) -> Cases:
    """No fault at all; each of them without its proof; each of them met nothing."""
    cases: Cases = [(t.no_fault, "KILL_MISSED")]
    for do, target in faults:
        cases.append((_links(do, target, lambda _: None), "KILL_MISSED"))
        nothing = _links(do, target, lambda row: row | {"count": 0})
        cases.append((nothing, "NOTHING_IN_FLIGHT"))
    return cases


DROPPED = (_links("late", "sink", lambda row: row | {"outcome": "dropped"}), "KILL_MISSED")

UNKNOWNS: dict[str, Cases] = {
    "EO-SOURCE-CUT:count-links-cut": _needs(("cut", "source")),
    "EO-SOURCE-CUT:market-two-links-cut": _needs(("cut", "source")),
    "EO-SINK-CUT:count-links-cut": _needs(("cut", "sink")),
    "EO-SINK-CUT:market-two-links-cut": _needs(("cut", "sink")),
    "DL-LATE-BYTES:count-links-cut": [*_needs(("late", "sink")), DROPPED],
    "DL-LATE-BYTES:market-two-links-cut": [*_needs(("late", "sink")), DROPPED],
    "EO-HALF-OPEN:count-links-down": _needs(("half-open", "source"), ("half-open", "sink")),
    "DL-REFUSED:count-links-down": _needs(("refuse", "sink")),
    "DL-REFUSED:count-some-refused": _needs(("refuse", "sink")),
    "BP-SLOW-LINKS:count-links-slow": _needs(
        ("delay", "source"), ("drip", "sink"), ("throttle", "source"), ("delay", "sink")
    ),
    "BP-SILENT-SOURCE:count-links-slow": _needs(("silence", "source")),
}
