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
    "test_a_reply_of_the_source_is_cut": [LOST, WRONG_TOTAL, FAILED],
    "test_a_reply_of_two_sources_is_cut": [LOST, WRONG_VERDICT, FAILED],
    "test_the_acknowledgement_of_an_append_is_cut": EXACT,
    "test_the_acknowledgement_of_a_transaction_is_cut": [LOST, TWICE, GAP, WRONG_VERDICT, FAILED],
    "test_an_append_of_an_old_connection_is_late": ONCE,
    "test_a_stage_of_an_old_connection_is_late": [LOST, TWICE, GAP, FAILED],
    "test_connections_stand_still_and_break": EXACT,
    "test_output_is_refused_for_a_time": ONCE,
    "test_replies_are_late_slow_and_dripping": EXACT,
    "test_the_source_is_silent_for_a_time": EXACT,
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
    "test_a_reply_of_the_source_is_cut": _needs(("cut", "source")),
    "test_a_reply_of_two_sources_is_cut": _needs(("cut", "source")),
    "test_the_acknowledgement_of_an_append_is_cut": _needs(("cut", "sink")),
    "test_the_acknowledgement_of_a_transaction_is_cut": _needs(("cut", "sink")),
    "test_an_append_of_an_old_connection_is_late": [*_needs(("late", "sink")), DROPPED],
    "test_a_stage_of_an_old_connection_is_late": [*_needs(("late", "sink")), DROPPED],
    "test_connections_stand_still_and_break": _needs(
        ("half-open", "source"), ("half-open", "sink")
    ),
    "test_output_is_refused_for_a_time": _needs(("refuse", "sink")),
    "test_replies_are_late_slow_and_dripping": _needs(
        ("delay", "source"), ("drip", "sink"), ("throttle", "source"), ("delay", "sink")
    ),
    "test_the_source_is_silent_for_a_time": _needs(("silence", "source")),
}
