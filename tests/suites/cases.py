"""What most tests must reject, or call unknown: a change to a copy of a run, and its reason."""

from __future__ import annotations

from pathlib import Path

from tests.suites import tampering as t
from tickproof.generators.layouts import COUNT_OUT, VERDICT

Cases = list[tuple[t.Tamper, str]]

LOST = (t.drop_last, "lost")
TWICE = (t.again, "duplicate")
GAP = (t.gap, "gap")
CONFLICT = (t.changed_again, "conflict")
FAILED = (t.engine_failure, "TIMEOUT")
#: Ended before drain, without output: what is open was not lost, and no order accepted.
BROKEN_OFF = (t.broken_off, "TIMEOUT")
ODD = (t.odd_size, "wrong-size")
WRONG_TOTAL = (t.alter(), "wrong-total")
AHEAD = (t.ahead, "ahead-of-fetch")
STEP_BACK = (t.swap_points, "step-back")
#: The verdict byte stands before 7 zeros.
WRONG_VERDICT = (t.alter(where=-8), "wrong-verdict")
MALFORMED = (t.alter(), "malformed")


def _count_field(name: str, value: int) -> t.Tamper:
    def change(folder: Path) -> None:
        log, arrivals = t.read_output(folder)
        t.records(log, COUNT_OUT)[name][-1] = value
        t.write_output(folder, log, arrivals)

    return change


UNKNOWN_KEY = (_count_field("key", 0x1234_5678_9ABC_DEF0), "unknown-key")
BEYOND = (_count_field("n", 2**40), "beyond-input")


def unknown_quote(folder: Path) -> None:
    log, arrivals = t.read_output(folder)
    t.records(log, VERDICT)["quote_id"][-1] = 2**40
    t.write_output(folder, log, arrivals)


NOT_CORRECT_0: Cases = [LOST, TWICE, (t.alter(), "invented"), ODD, FAILED, AHEAD]
NOT_CORRECT_COUNT: Cases = [LOST, TWICE, WRONG_TOTAL, STEP_BACK, ODD, FAILED, AHEAD]
NOT_CORRECT_SOME: Cases = [LOST, TWICE, WRONG_TOTAL, GAP, FAILED, AHEAD]
NOT_CORRECT_MERGED: Cases = [LOST, TWICE, WRONG_VERDICT, MALFORMED, GAP, FAILED, AHEAD]
NOT_STATE: Cases = [LOST, WRONG_TOTAL, UNKNOWN_KEY, BEYOND, ODD, FAILED]
NOT_ONCE: Cases = [LOST, TWICE, (t.gap, "gap"), FAILED]

MISSED = (t.no_fault, "KILL_MISSED")
NOTHING = (t.nothing_in_flight, "NOTHING_IN_FLIGHT")
NOT_SEEN = "NOT_SEEN"
