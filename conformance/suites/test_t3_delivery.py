"""Tier 3: what is delivered while processes die, and to whom a fenced process still speaks.

Each test looks for a counterexample first, then for the evidence that the fault fired
while data was in flight: without it a clean history proves nothing.
"""

from __future__ import annotations

from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.suites.evidence import CHANGED, LOSS, TWICE, VALUES, whole
from tickproof.conformance.suites.judge import Fail, decides
from tickproof.conformance.suites.promises import forbidden_repeats
from tickproof.conformance.suites.require import (
    require_acknowledged,
    require_completed,
    require_fired,
    require_no,
)
from tickproof.conformance.verdicts import Reason


@decides("DL-NO-LOSS", "count-engine-death-backlog")
def test_nothing_is_lost_over_a_death(history: History) -> None:
    _nothing_lost(history)


@decides("DL-NO-LOSS", "count-engine-death")
def test_nothing_is_lost_over_a_death_in_mid_stream(history: History) -> None:
    _nothing_lost(history)


@decides("DL-NO-LOSS", "count-tail")
def test_nothing_is_lost_over_a_death_at_the_end(history: History) -> None:
    _nothing_lost(history)


def _nothing_lost(history: History) -> None:
    """No output is missing; with state at least once no record in any output either.

    The values of an exact state are for the family EO.
    """
    counted = VALUES if history.claims["state"] == "at-least-once" else ()
    require_no(history, whole(history), (*counted, *LOSS))
    require_fired(history)


@decides("DL-EXACTLY-ONCE", "count-engine-death-backlog")
def test_nothing_comes_twice_after_an_engine_death(history: History) -> None:
    _exactly_once(history, 1)


@decides("DL-EXACTLY-ONCE", "count-worker-death-backlog")
def test_nothing_comes_twice_after_a_worker_death(history: History) -> None:
    _exactly_once(history, 1)


@decides("DL-EXACTLY-ONCE", "count-some-deaths")
def test_nothing_comes_twice_where_replay_differs(history: History) -> None:
    _exactly_once(history, 2)


@decides("DL-EXACTLY-ONCE", "market-two-after-accept")
def test_no_verdict_comes_twice(history: History) -> None:
    _exactly_once(history, 2)


def _exactly_once(history: History, faults: int) -> None:
    require_no(history, whole(history), (*TWICE, *CHANGED, *LOSS))
    require_fired(history, faults)


@decides("DL-AFTER-STAGE", "count-after-accept")
def test_kills_after_an_acknowledged_append(history: History) -> None:
    _exactly_once(history, 2)


@decides("DL-AFTER-STAGE", "market-two-after-accept")
def test_kills_after_an_acknowledged_stage(history: History) -> None:
    _exactly_once(history, 2)


@decides("DL-AFTER-COMMIT", "count-after-accept")
def test_kills_between_append_and_its_reply(history: History) -> None:
    _exactly_once(history, 2)


@decides("DL-AFTER-COMMIT", "market-two-committing")
def test_a_kill_between_commit_and_its_reply(history: History) -> None:
    _exactly_once(history, 1)


@decides("DL-UNANSWERED", "count-losing")
def test_an_append_that_is_lost_with_the_engine(history: History) -> None:
    require_no(history, whole(history), (*LOSS, *CHANGED, *forbidden_repeats(history)))
    require_fired(history)


@decides("DL-UNANSWERED", "market-two-losing")
def test_a_commit_that_is_lost_with_the_engine(history: History) -> None:
    require_no(history, whole(history), (*LOSS, *CHANGED, *forbidden_repeats(history)))
    require_fired(history)


@decides("DL-SLOW-ACKS", "count-tail")
def test_a_kill_while_the_last_acknowledgements_are_late(history: History) -> None:
    require_acknowledged(history)
    require_no(history, whole(history), (*LOSS, *CHANGED, *forbidden_repeats(history)))
    require_fired(history)


@decides("PR-FENCED", "count-worker-death-backlog")
def test_a_fenced_process_is_silent_after_a_death(history: History) -> None:
    _silent(history)


@decides("PR-FENCED", "count-pause")
def test_a_fenced_process_is_silent_after_a_pause(history: History) -> None:
    _silent(history)


def _silent(history: History) -> None:
    for event in history.all(events.HaveAfterFence, events.OutputAfterFence):
        raise Fail(Reason.AFTER_FENCE, "silence on a connection that got error 7", event.KIND)
    require_completed(history)
    require_fired(history)
