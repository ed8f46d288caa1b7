"""What the tests of several deaths and of the state's folder must reject, or call unknown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.suites import tampering as t
from tests.suites.cases import (
    BEYOND,
    FAILED,
    LOST,
    MISSED,
    NOT_STATE,
    NOTHING,
    STEP_BACK,
    TWICE,
    UNKNOWN_KEY,
    WRONG_TOTAL,
    WRONG_VERDICT,
    Cases,
)
from tickproof.conformance.history.json_lines import read_json_lines
from tickproof.conformance.history.rows import FETCH


def _went_on(*more: t.Tamper) -> t.Tamper:
    """Let an engine that refused have gone on: its input is what it had answered by then."""

    def change(folder: Path) -> None:
        _, arrivals = t.read_output(folder)

        def shorter(data: dict) -> None:
            data["ended"] = {"how": "completed"}
            for row in data["input"]["partitions"]:
                mine = arrivals["writer"] == row["partition"]
                row["records"] = int(arrivals["count"][mine].sum())

        t.run_json(folder, shorter)
        t.without("not-restarted")(folder)
        for tamper in more:
            tamper(folder)

    return change


def _hung(folder: Path) -> None:
    ended = {"how": "engine-failure", "code": "NO_ANSWER", "message": "no answer", "stderr": []}
    t.in_run(ended=ended)(folder)
    t.without("not-restarted", "ended-unasked")(folder)
    t.added("not-restarted", code="NO_ANSWER", status=None)(folder)


def _no_sign_of(*more: t.Tamper) -> t.Tamper:
    """Take away all that shows that nothing could be written, or only what came of RELEASE."""

    def change(folder: Path) -> None:
        t.fresh(folder / "releases.bin").write_bytes(b"")
        for tamper in more:
            tamper(folder)

    return change


def _ended_by_request(folder: Path) -> None:
    """Let the restarted engine have ended, with status 0, when it was asked for something."""
    ended = {"how": "engine-failure", "code": "EXITED", "message": "it ended", "stderr": []}
    t.in_run(ended=ended | {"status": 0})(folder)
    t.without("not-restarted", "ended-unasked")(folder)


WRONG_AFTER_DAMAGE: Cases = [
    WRONG_TOTAL,
    UNKNOWN_KEY,
    BEYOND,
    TWICE,
    (_hung, "NO_ANSWER"),
    (_ended_by_request, "EXITED"),
    (_went_on(t.drop_last), "lost"),
]
UNSEEN_DAMAGE: Cases = [
    (_went_on(t.no_fault), "KILL_MISSED"),
    (_went_on(t.nothing_in_flight), "NOTHING_IN_FLIGHT"),
    (_went_on(t.none_released, t.edited("damage-over", read=False)), "NO_CUT_BEFORE_KILL"),
    (t.edited("fault", file=""), "NO_CUT_BEFORE_KILL"),
]
UNREAD_DAMAGE: Cases = [
    (_went_on(t.edited("damage-over", read=False)), "DAMAGE_UNREAD"),
    (_went_on(t.edited("damage-over", read=None)), "DAMAGE_UNREAD"),
]


def _one_idle(folder: Path) -> None:
    """Let another have done what the last of four workers did."""

    def change(rows: list[dict]) -> list[dict]:
        scaled = next(
            at for at, row in enumerate(rows) if row["event"] == "scaled" and row["workers"] == 4
        )
        named = next(row for row in rows[scaled:] if row["event"] == "topology")["processes"]
        pids = [one["pid"] for one in named if one["role"] == "worker"]
        for row in rows:
            for used in row["used"] if row["event"] == "activity" else ():
                if used[1] == pids[-1:]:
                    used[1] = [1]
        return rows

    t.events(folder, change)


def _nobody_holds_them(folder: Path) -> None:
    """Let nobody have seen who held a connection."""

    def change(rows: list[dict]) -> list[dict]:
        for row in rows:
            for used in row["used"] if row["event"] == "activity" else ():
                used[1] = []
        return rows

    t.events(folder, change)


def _one_idle_with_nothing_left(folder: Path) -> None:
    """Let a partition have been fetched to its end before there were four workers."""
    _one_idle_and_its_input_moved(folder, lambda scaled, _end: scaled - 1)


def _one_idle_with_nothing_yet(folder: Path) -> None:
    """Let nothing of a partition have been fetched until there were no more four workers."""
    _one_idle_and_its_input_moved(folder, lambda _scaled, end: end)


def _one_idle_and_its_input_moved(folder: Path, to: Callable[[int, int], int]) -> None:
    events = read_json_lines(folder / "events.jsonl")
    (at,) = (n for n, e in enumerate(events) if e["event"] == "scaled" and e["workers"] == 4)
    begin = events[at]["t_ns"]
    end = next(row["t_ns"] for row in events[at:] if row["event"] == "fault")
    path = folder / "fetches.bin"
    rows = np.fromfile(path, FETCH)
    moved = (rows["partition"] == rows["partition"].max()) & (rows["t_ns"] >= begin)
    rows["t_ns"][moved] = to(begin, end)
    np.sort(rows, order="t_ns", kind="stable").tofile(t.fresh(path))
    log, arrivals = t.read_output(folder)
    late = arrivals["t_ns"] >= begin  # no output before its record
    arrivals["t_ns"][late] = np.maximum(arrivals["t_ns"][late], to(begin, end))
    t.write_output(folder, log, arrivals)
    _one_idle(folder)


def _after_the_answer(folder: Path) -> None:
    """Let what came between a request to scale and its answer have come after that."""

    def change(rows: list[dict]) -> list[dict]:
        last = max(row["t_ns"] for row in rows)
        for row in rows:
            if row["event"] == "fault" and row["step"]["at"] == "scaling":
                row["t_ns"] = row["at_ns"] = last
        return sorted(rows, key=lambda row: row["t_ns"])

    t.events(folder, change)


NOT_SCALED: Cases = [(t.edited("scaled", workers=9), "BAD_ANSWER"), (_one_idle, "IDLE_WORKERS")]
SCALE_UNSEEN: Cases = [
    (t.without("scaled"), "NOT_SEEN"), (_nobody_holds_them, "NOT_SEEN"),
    (_one_idle_with_nothing_left, "NOT_SEEN"),
    (_one_idle_with_nothing_yet, "NOT_SEEN"),
]  # fmt: skip

REJECTS: dict[str, Cases] = {
    "EL-RESTART:count-rescale": [*NOT_STATE, TWICE, STEP_BACK],
    "EL-RESTART:market-rescale": [LOST, WRONG_VERDICT, FAILED],
    "EL-BACKLOG:count-rescale-backlog": [*NOT_STATE, TWICE, STEP_BACK],
    "EL-STEADY:count-rescale-steady": [*NOT_STATE, TWICE, STEP_BACK],
    "EL-LIVE:count-scale": [*NOT_STATE, TWICE, STEP_BACK, *NOT_SCALED],
    "EL-LIVE:market-scale": [LOST, WRONG_VERDICT, FAILED, *NOT_SCALED],
    "EL-MOVING:count-scale-death": [*NOT_STATE, TWICE, STEP_BACK],
    "EL-MOVING:count-scale-trouble": [*NOT_STATE, TWICE, STEP_BACK],
    "EL-AFTER:count-scale-then-death": [*NOT_STATE, TWICE, STEP_BACK],
    "EL-AFTER:market-scale-then-death": [LOST, WRONG_VERDICT, FAILED],
    "EL-OVERLAP:count-scale-twice": [
        *NOT_STATE,
        TWICE,
        STEP_BACK,
        (t.edited("scaled", workers=9), "BAD_ANSWER"),
    ],
    "EL-OVERLAP:count-scale-between": [
        *NOT_STATE,
        TWICE,
        STEP_BACK,
        (t.edited("scaled", workers=9), "BAD_ANSWER"),
    ],
    "EO-ALL-WORKERS:count-all-workers-death": NOT_STATE,
    "EO-COORDINATOR-DEATH:count-coordinator-death": NOT_STATE,
    "EO-FULL-DISK:count-full-disk-at-the-end": [
        (t.fetched_again("drained"), "FETCHED_AGAIN"),
        (t.refused(3), "FETCHED_AGAIN"),
        *NOT_STATE,
        TWICE,
    ],
    "EO-FULL-DISK:count-full-disk-before-the-last": [
        (t.fetched_again("drained"), "FETCHED_AGAIN"),
        *NOT_STATE,
        TWICE,
    ],
    "EO-FULL-DISK:count-full-disk": [(t.refused(3), "RELEASED"), *NOT_STATE, TWICE],
    "EO-FULL-DISK:count-disk-with-room-again": [(t.refused(3), "RELEASED"), *NOT_STATE, TWICE],
    "EO-POWER-LOSS:count-power-loss": NOT_STATE,
    "EO-DAMAGED-CHECKPOINT:count-damaged-checkpoint": WRONG_AFTER_DAMAGE,
    "EO-DAMAGED-CHECKPOINT:count-rotten-checkpoint": WRONG_AFTER_DAMAGE,
    "EO-DAMAGED-CHECKPOINT:count-rotten-checkpoint-2": WRONG_AFTER_DAMAGE,
    "EO-DAMAGED-CHECKPOINT:count-rotten-checkpoint-3": WRONG_AFTER_DAMAGE,
    "EO-DAMAGED-CHECKPOINT:count-rotten-state": WRONG_AFTER_DAMAGE,
    "EO-DAMAGED-CHECKPOINT:count-lost-checkpoint": WRONG_AFTER_DAMAGE,
    "EO-DAMAGED-CHECKPOINT:count-removed-checkpoint": WRONG_AFTER_DAMAGE,
}
UNKNOWNS: dict[str, Cases] = {
    "EL-RESTART:count-rescale": [MISSED, NOTHING],
    "EL-RESTART:market-rescale": [MISSED, NOTHING],
    "EL-BACKLOG:count-rescale-backlog": [MISSED, NOTHING],
    "EL-STEADY:count-rescale-steady": [MISSED, NOTHING],
    "EL-LIVE:count-scale": [MISSED, NOTHING, *SCALE_UNSEEN],
    "EL-LIVE:market-scale": [MISSED, NOTHING, *SCALE_UNSEEN],
    "EL-MOVING:count-scale-death": [MISSED, (_after_the_answer, "KILL_MISSED")],
    "EL-MOVING:count-scale-trouble": [MISSED, (_after_the_answer, "KILL_MISSED")],
    "EL-AFTER:count-scale-then-death": [MISSED, NOTHING],
    "EL-AFTER:market-scale-then-death": [MISSED, NOTHING],
    "EL-OVERLAP:count-scale-twice": [
        MISSED, (_after_the_answer, "KILL_MISSED"), (t.without("scaled"), "NOT_SEEN"),
    ],
    "EL-OVERLAP:count-scale-between": [MISSED, (t.without("scaled"), "NOT_SEEN")],
    "EO-ALL-WORKERS:count-all-workers-death": [MISSED, NOTHING],
    "EO-COORDINATOR-DEATH:count-coordinator-death": [MISSED, NOTHING],
    "EO-FULL-DISK:count-full-disk-at-the-end": [
        (t.nothing_in_flight, "KILL_MISSED"),
        MISSED,
        (t.without("fill-over"), "KILL_MISSED"),
        (t.edited("fill-over", to_ns=0), "KILL_MISSED"),
        (_no_sign_of(t.edited("fill-over", empty=[], words="")), "NOTHING_HELD_BACK"),
        (t.edited("fill-over", lifted=[1]), "NOT_HELD"),
        (t.edited("fill-over", grown=["cut"]), "NOT_HELD"),
    ],
    "EO-FULL-DISK:count-full-disk-before-the-last": [
        MISSED,
        (t.without("fill-over"), "KILL_MISSED"),
        (t.edited("fill-over", to_ns=0), "KILL_MISSED"),
        (_no_sign_of(t.edited("fill-over", empty=[], words="")), "NOTHING_HELD_BACK"),
    ],
    "EO-FULL-DISK:count-full-disk": [
        MISSED, NOTHING, (t.without("fill-over"), "KILL_MISSED"),
        (_no_sign_of(t.edited("fill-over", empty=[], words="")), "NOTHING_HELD_BACK"),
        (t.edited("fill-over", lifted=[1]), "NOT_HELD"),
        (t.edited("fill-over", grown=["cut"]), "NOT_HELD"),
        (_no_sign_of(t.without_last("fault")), "KILL_MISSED"),
    ],
    "EO-FULL-DISK:count-disk-with-room-again": [
        MISSED, (t.without("fill-over"), "KILL_MISSED"),
        (t.without_last("fault"), "KILL_MISSED"),
        # The death came while the disk was still full.
        (t.edited("fill-over", to_ns=2**62, words="no space left"), "KILL_MISSED"),
        (t.edited("fill-over", lifted=[1]), "NOT_HELD"),
        (t.edited("fill-over", grown=["cut"]), "NOT_HELD"),
    ],
    "EO-POWER-LOSS:count-power-loss": [MISSED, (t.edited("fault", writes=0), "NOTHING_IN_FLIGHT")],
    "EO-DAMAGED-CHECKPOINT:count-damaged-checkpoint": UNSEEN_DAMAGE + UNREAD_DAMAGE,
    "EO-DAMAGED-CHECKPOINT:count-rotten-state": UNSEEN_DAMAGE,
    "EO-DAMAGED-CHECKPOINT:count-rotten-checkpoint": UNSEEN_DAMAGE + UNREAD_DAMAGE,
    "EO-DAMAGED-CHECKPOINT:count-rotten-checkpoint-2": UNSEEN_DAMAGE + UNREAD_DAMAGE,
    "EO-DAMAGED-CHECKPOINT:count-rotten-checkpoint-3": UNSEEN_DAMAGE + UNREAD_DAMAGE,
    "EO-DAMAGED-CHECKPOINT:count-lost-checkpoint": UNSEEN_DAMAGE + UNREAD_DAMAGE,
    # A file that is gone cannot be read.
    "EO-DAMAGED-CHECKPOINT:count-removed-checkpoint": [
        *(case for case in UNSEEN_DAMAGE if case[1] != "NO_CUT_BEFORE_KILL"),
        (_went_on(t.no_cut), "NO_CUT_BEFORE_KILL"),
        (t.edited("fault", file=""), "NO_CUT_BEFORE_KILL"),
    ],
    "EO-FROM-CHECKPOINT:count-after-drain": [MISSED],
}  # fmt: skip
