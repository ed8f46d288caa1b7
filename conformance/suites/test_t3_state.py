"""Tier 3: all workers or the coordinator die, the disk is full, a checkpoint is damaged."""

from __future__ import annotations

import numpy as np

from tickproof.conformance import apps
from tickproof.conformance.history import events
from tickproof.conformance.history.events import FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.log_server.frames import Code
from tickproof.conformance.suites.evidence import CHANGED, LOSS, VALUES, refetched, values, whole
from tickproof.conformance.suites.judge import Fail, Unknown, decides
from tickproof.conformance.suites.promises import forbidden_repeats
from tickproof.conformance.suites.require import (
    not_fetched_below,
    raise_first,
    refused_clearly,
    require_fired,
    require_no,
    require_noticeable,
)
from tickproof.conformance.suites.state_faults import fell, held_back, require_held_back
from tickproof.conformance.verdicts import Reason


@decides("EO-ALL-WORKERS", "count-all-workers-death")
def test_totals_after_the_death_of_all_workers(history: History) -> None:
    require_no(history, values(history), (*VALUES, *LOSS))
    require_fired(history)


@decides("EO-COORDINATOR-DEATH", "count-coordinator-death")
def test_totals_after_the_death_of_the_coordinator(history: History) -> None:
    require_no(history, values(history), (*VALUES, *LOSS))
    require_fired(history)


# -- a full disk ---------------------------------------------------------------------


@decides("EO-FULL-DISK", "count-full-disk-at-the-end")
def test_drain_waits_for_a_full_disk(history: History) -> None:
    drained = history.all(events.Drained)
    if drained:
        not_fetched_below(history, drained[0], "drain was answered")
    require_no(history, whole(history), (*VALUES, *LOSS, *forbidden_repeats(history)))
    full = require_fired(history, 2, in_flight=False)[0]
    in_flight = apps.of(history).in_flight(full)
    over = history.all(events.FillOver)
    if not in_flight or not over:
        raise Unknown(
            Reason.KILL_MISSED,
            "records in flight as the disk was full, and room again after that",
            "its end was not noted" if in_flight else "none in flight",
        )
    over_ns = over[0].to_ns
    if not any(event.t_ns < over_ns for event in history.all(events.DrainAsked)):
        raise Unknown(Reason.KILL_MISSED, "drain asked for before the disk had room", "it was not")
    ended = over_ns > _all_reached_ns(history, history.fetches)
    # An engine that works in batches fetches nothing before the cut of the last one.
    ended |= over_ns > _all_reached_ns(history, history.publishes) and not _went_on(
        history, full, over_ns
    )
    if not (fell(history, full) or ended):
        raise Unknown(
            Reason.KILL_MISSED,
            "a disk that was full as the last record was fetched, or an engine "
            "that fetches no more while it is",
            "it had room again before, and more was fetched",
        )
    require_held_back(history, full, over[0])


def _went_on(history: History, full: FiredFault, over_ns: int) -> bool:
    """Tell whether records that came while the disk was full were fetched while it was."""
    for one in full.partitions:
        rows = of_partition(history.fetches, one.stream, one.partition)
        meanwhile = rows[(rows["t_ns"] > full.t_ns) & (rows["t_ns"] < over_ns)]
        if (meanwhile["end"] > one.published).any():
            return True
    return False


def _all_reached_ns(history: History, table: np.ndarray) -> int:
    """Return when a table of fetches, or of publications, had reached the end of the input."""
    last = 0
    for part in history.partitions:
        if part["records"]:
            rows = of_partition(table, part["stream"], part["partition"])
            times = rows["t_ns"][rows["end"] >= part["records"]]
            last = max(last, int(times.min(initial=np.iinfo(np.int64).max)))
    return last


@decides("EO-FULL-DISK", "count-full-disk")
def test_totals_over_a_full_disk(history: History) -> None:
    for event in history.all(events.Refused, code=int(Code.RELEASED)):
        raise Fail(Reason.RELEASED, "no RELEASE of what no cut on the disk covers", event.text)
    require_no(history, whole(history), (*VALUES, *LOSS, *CHANGED, *forbidden_repeats(history)))
    full = require_fired(history)[0]
    over = history.all(events.FillOver)
    if not over:
        raise Unknown(Reason.KILL_MISSED, "a disk that is full for a time", "its end was not noted")
    require_held_back(history, full, over[0])
    died = fell(history, full) or any(f.t_ns < over[0].to_ns for f in history.faults[1:])
    if not (died or held_back(history, full, over[0].to_ns)):
        raise Unknown(
            Reason.KILL_MISSED,
            "a death while the disk was full, as RELEASE went on",
            "; ".join(row.why for row in history.missed_faults) or "it came later",
        )


# -- a damaged checkpoint ---------------------------------------------------------------


@decides("EO-DAMAGED-CHECKPOINT", "count-damaged-checkpoint")
def test_totals_after_damage_to_the_newest_file(history: History) -> None:
    _right_or_refused(history)


@decides("EO-DAMAGED-CHECKPOINT", "count-rotten-checkpoint")
def test_totals_after_bits_of_the_newest_file_changed(history: History) -> None:
    _right_or_refused(history)


@decides("EO-DAMAGED-CHECKPOINT", "count-rotten-checkpoint-2")
def test_totals_after_a_second_bit_changed(history: History) -> None:
    _right_or_refused(history)


@decides("EO-DAMAGED-CHECKPOINT", "count-rotten-checkpoint-3")
def test_totals_after_a_third_bit_changed(history: History) -> None:
    _right_or_refused(history)


@decides("EO-DAMAGED-CHECKPOINT", "count-lost-checkpoint")
def test_totals_after_the_newest_file_was_lost(history: History) -> None:
    if whole(history).first((*VALUES, *CHANGED, *LOSS)):
        for fault in history.faults:
            require_noticeable(fault)
    _right_or_refused(history)


def _right_or_refused(history: History) -> None:
    kinds = (*VALUES, *CHANGED, *forbidden_repeats(history))
    if history.faults and refused_clearly(history):
        raise_first(whole(history), kinds)
    else:
        whole_run = history.ended["how"] == "completed"
        require_no(history, whole(history), (*kinds, *LOSS) if whole_run else kinds)
    fault = require_fired(history)[0]
    was_read = any(event.read for event in history.all(events.DamageOver))
    file = fault.file or None
    # Nobody can read a file that was removed: to go on, and rightly, is all there is to see.
    # Who releases nothing shows that there was a cut by going on from one.
    removed = fault.step.damage == "missing"
    again, before = refetched(history, 0)
    if not file or not (fault.released or was_read or (removed and again < before)):
        raise Unknown(
            Reason.NO_CUT_BEFORE_KILL,
            "a file with content, and a RELEASE before the damage, or the file read after it, "
            "or a restart not from zero",
            f"{fault.released} records released, file {file}, not read",
        )
    if history.ended["how"] == "completed" and not (was_read or removed):
        raise Unknown(
            Reason.DAMAGE_UNREAD,
            "the damaged file read after the restart, or a clear refusal",
            f"the engine went on, and {file} was not seen to be read",
        )
