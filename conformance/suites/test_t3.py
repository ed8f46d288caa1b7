"""Tier 3: every message counted exactly once while processes die.

Each test looks for a counterexample first, then for the evidence that the fault fired
while data was in flight: without it a clean history proves nothing.
"""

from __future__ import annotations

from tickproof.conformance import apps
from tickproof.conformance.history import events
from tickproof.conformance.history.events import FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.log_server.frames import Code
from tickproof.conformance.suites.evidence import (
    CHANGED,
    LOSS,
    ORDER_KINDS,
    STATE,
    VALUES,
    refetched,
    values,
    whole,
)
from tickproof.conformance.suites.judge import Fail, NotClaimed, Unknown, decides
from tickproof.conformance.suites.promises import forbidden_repeats
from tickproof.conformance.suites.require import (
    not_fetched_below,
    require_completed,
    require_fired,
    require_no,
)
from tickproof.conformance.suites.workers import require_standstill
from tickproof.conformance.verdicts import Reason


def _state(history: History, faults: int = 1) -> None:
    """State is exact and nothing is missing, though processes died."""
    require_no(history, values(history), (*VALUES, *LOSS))
    require_fired(history, faults)


# -- totals ------------------------------------------------------------------------


@decides("EO-WORKER-DEATH", "count-worker-death")
def test_totals_after_a_worker_death(history: History) -> None:
    _state(history)


@decides("EO-WORKER-DEATH-BACKLOG", "count-worker-death-backlog")
def test_totals_after_a_worker_death_in_a_backlog(history: History) -> None:
    _state(history)
    _with_backlog(history)


@decides("EO-ENGINE-DEATH", "count-engine-death")
def test_totals_after_an_engine_death(history: History) -> None:
    _state(history)


@decides("EO-ENGINE-DEATH", "count-engine-death-backlog")
def test_totals_after_an_engine_death_in_a_backlog(history: History) -> None:
    _state(history)
    _with_backlog(history)


def _with_backlog(history: History) -> None:
    burst = history.faults[0].step.burst
    if history.faults[0].backlog < burst // 4:
        raise Unknown(
            Reason.NOTHING_IN_FLIGHT,
            f"a backlog of at least {burst // 4:,} records at the kill",
            f"{history.faults[0].backlog:,}",
        )


@decides("EO-TWO-DEATHS", "count-after-accept")
def test_totals_after_two_engine_deaths(history: History) -> None:
    _state(history, 2)


@decides("EO-TWO-DEATHS", "count-two-worker-deaths")
def test_totals_after_two_worker_deaths(history: History) -> None:
    _state(history, 2)


@decides("EO-TWO-DEATHS", "count-deaths-of-one-worker")
def test_totals_after_many_deaths_of_one_worker(history: History) -> None:
    _after_all_deaths(history)


@decides("EO-DEATH-IN-RECOVERY", "count-death-in-recovery")
def test_totals_after_a_death_in_recovery(history: History) -> None:
    _after_all_deaths(history)


def _after_all_deaths(history: History) -> None:
    """As `_state`; of many deaths, the first at least met records in flight."""
    require_no(history, values(history), (*VALUES, *LOSS))
    require_fired(history, len(history.run["scenario"]["faults"]), in_flight=False)
    require_fired(history, 1)


@decides("EO-EARLY-DEATH", "count-early-death")
def test_all_is_right_after_a_death_before_the_first_cut(history: History) -> None:
    _all_right(history)
    fault = require_fired(history, len(history.run["scenario"]["faults"]), in_flight=False)[0]
    if all(one.released for one in fault.partitions if one.fetched):
        raise Unknown(
            Reason.KILL_MISSED,
            "a death before the first RELEASE of some partition",
            f"{fault.released:,} records released in all",
            fault=fault.text,
        )


@decides("EO-UNEVEN", "count-uneven-death")
def test_all_is_right_after_a_death_among_uneven_partitions(history: History) -> None:
    _all_right(history)
    require_fired(history)


def _all_right(history: History) -> None:
    """State is exact, nothing is missing, and nothing comes twice where that is claimed."""
    require_no(history, whole(history), (*VALUES, *LOSS, *CHANGED, *forbidden_repeats(history)))


@decides("EO-PAUSE", "count-pause")
def test_totals_after_a_pause(history: History) -> None:
    _state(history)
    if not history.all(events.Resumed):
        raise Unknown(Reason.KILL_MISSED, "a process stopped and continued", "none was continued")


@decides("PR-WORKERS-WORK", "count-all-paused")
def test_nothing_is_done_while_all_workers_stand_still(history: History) -> None:
    require_standstill(history)
    require_completed(history)
    require_fired(history, in_flight=False)
    if not history.all(events.Resumed):
        raise Unknown(Reason.KILL_MISSED, "processes stopped and continued", "none was continued")


@decides("EO-SOME", "count-some-deaths")
def test_some_points_after_two_deaths(history: History) -> None:
    _state(history, 2)


@decides("EO-SOME", "count-some-trickle")
def test_last_points_of_keys_that_never_come_again(history: History) -> None:
    _state(history)


@decides("EO-PASSTHROUGH-DEATH", "passthrough-deaths")
def test_passthrough_after_a_death(history: History) -> None:
    _state(history)


# -- the cut -------------------------------------------------------------------------


@decides("EO-ONE-CUT", "count-engine-death")
def test_state_and_offsets_are_of_one_cut(history: History) -> None:
    require_no(history, values(history), _of_the_cut(history))
    _had_cut(history, require_fired(history)[0])


@decides("EO-ONE-CUT", "count-after-accept")
def test_state_and_offsets_are_of_one_cut_after_two_deaths(history: History) -> None:
    require_no(history, values(history), _of_the_cut(history))
    _had_cut(history, require_fired(history, 2)[0])


def _of_the_cut(history: History) -> tuple[str, ...]:
    """Return what state and offsets of different cuts make of an app's output."""
    return STATE if apps.of(history).numbered else (*VALUES, *LOSS)


@decides("EO-RELEASED", "count-engine-death")
def test_released_records_are_not_needed_again(history: History) -> None:
    for event in history.all(events.Refused, code=int(Code.RELEASED)):
        raise Fail(Reason.RELEASED, "no FETCH below what was released before the kill", event.text)
    require_completed(history)
    if not len(history.releases):
        raise NotClaimed("the engine sends no RELEASE")
    _had_cut(history, require_fired(history)[0])


@decides("EO-FROM-CHECKPOINT", "count-engine-death")
def test_recovery_begins_at_the_checkpoint(history: History) -> None:
    again, before = refetched(history, 0)
    if again >= before > 0 and history.faults[0].released:
        raise Fail(
            Reason.FROM_ZERO,
            "a resumed engine to go on from its last cut",
            f"all {before:,} records fetched before the kill were fetched again",
        )
    _nothing_asked_for_from_zero(history)
    require_completed(history)
    _had_cut(history, require_fired(history)[0])


@decides("EO-FROM-CHECKPOINT", "count-after-drain")
def test_recovery_after_drain_is_not_from_zero(history: History) -> None:
    again, before = refetched(history, 0)
    if again >= before > 0:
        raise Fail(
            Reason.FROM_ZERO,
            "a resumed engine to go on from what drain made durable",
            f"all {before:,} records were fetched again",
        )
    _nothing_asked_for_from_zero(history)
    require_completed(history)
    require_fired(history, in_flight=False)
    _drained_again(history)


def _nothing_asked_for_from_zero(history: History) -> None:
    """Expect no FETCH of a released record at the very beginning; elsewhere it is no sign."""
    for event in history.all(events.Refused, code=int(Code.RELEASED)):
        if event.text.startswith("offset 0 "):
            raise Fail(Reason.FROM_ZERO, "a resumed engine to go on from its last cut", event.text)


def _had_cut(history: History, fault: FiredFault) -> None:
    """Expect proof of a cut before the kill: a RELEASE, or a recovery that skips records."""
    again, before = refetched(history, 0)
    if fault.released == 0 and again >= before:
        raise Unknown(
            Reason.NO_CUT_BEFORE_KILL,
            "a RELEASE before the kill, or a recovery not from zero",
            f"no RELEASE in {fault.fetched:,} fetched records, and all were fetched again",
        )


@decides("EO-TAIL", "count-tail")
def test_the_end_of_the_stream_arrives(history: History) -> None:
    require_no(history, values(history), (*VALUES, *LOSS))
    if require_fired(history)[0].remaining:
        raise Unknown(
            Reason.KILL_MISSED, "a kill after the last record was fetched", "an earlier one"
        )


@decides("EO-AFTER-DRAIN", "market-after-drain")
def test_nothing_changes_after_a_drain_without_output(history: History) -> None:
    _unchanged_after_drain(history)


@decides("EO-AFTER-DRAIN", "count-after-drain")
def test_nothing_changes_after_drain(history: History) -> None:
    _unchanged_after_drain(history)


def _unchanged_after_drain(history: History) -> None:
    drained = history.all(events.Drained)
    if drained:
        not_fetched_below(history, drained[0], "drain was answered")
    kinds = (*VALUES, *LOSS, *forbidden_repeats(history))
    require_no(history, whole(history), kinds)
    require_fired(history, in_flight=False)
    _drained_again(history)


def _drained_again(history: History) -> None:
    """Expect a second drain; over Kafka there is none before the engine looks at its input."""
    if len(history.all(events.Drained)) < 2:
        raise Unknown(Reason.NO_RECOVERY_SEEN, "a second drain after the restart", "none")


@decides("EO-CHECKPOINT-OP", "count-checkpoint")
def test_a_checkpoint_answer_is_durable(history: History) -> None:
    for row in history.missed_faults:
        if "no checkpoint op" in row.why:
            raise NotClaimed("the engine has no checkpoint op")
    for event in history.all(events.Checkpointed):
        not_fetched_below(history, event, "a checkpoint was answered")
    require_no(history, values(history), (*VALUES, *LOSS))
    require_fired(history, in_flight=False)


# -- what was visible -------------------------------------------------------------------


@decides("EO-KEY-ORDER", "count-engine-death")
def test_order_of_a_key_is_kept_over_a_death(history: History) -> None:
    require_no(history, values(history), ORDER_KINDS)
    require_fired(history)


@decides("EO-KEY-ORDER", "count-pause")
def test_order_of_a_key_is_kept_over_a_pause(history: History) -> None:
    require_no(history, values(history), ORDER_KINDS)
    require_fired(history)


@decides("EO-NO-RETRACTION", "count-after-accept")
def test_nothing_visible_is_changed(history: History) -> None:
    require_no(history, whole(history), CHANGED)
    require_fired(history, 2)


# -- Market Spread -------------------------------------------------------------------------


@decides("EO-MARKET-WORKER-DEATH", "market-worker-death")
def test_verdicts_after_a_worker_death(history: History) -> None:
    _state(history)


@decides("EO-MARKET-ENGINE-DEATH", "market-engine-death")
def test_verdicts_after_an_engine_death(history: History) -> None:
    _state(history)


@decides("EO-TWO-STREAMS-DEATH", "market-two-after-accept")
def test_two_streams_after_two_deaths(history: History) -> None:
    _two_deaths(history)


@decides("EO-TWO-STREAMS-DEATH", "market-two-rejects-deaths")
def test_rejects_of_two_streams_after_two_deaths(history: History) -> None:
    _two_deaths(history)


def _two_deaths(history: History) -> None:
    changed = CHANGED if history.claims["delivery"] == "exactly-once" else ()
    require_no(history, values(history), (*VALUES, *LOSS, *changed))
    require_fired(history, 2)
