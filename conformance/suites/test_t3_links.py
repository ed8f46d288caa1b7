"""Tier 3: connections to source and sink that break, stand still, refuse, or are slow.

Several faults meet one run; each test asks for the proof that its own fault met something.
"""

from __future__ import annotations

from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Do, Target
from tickproof.conformance.suites.evidence import CHANGED, LOSS, VALUES, values, whole
from tickproof.conformance.suites.judge import Unknown, decides
from tickproof.conformance.suites.promises import forbidden_repeats
from tickproof.conformance.suites.require import require_completed, require_no
from tickproof.conformance.verdicts import Reason


def _met(history: History, do: Do, target: Target) -> None:
    """Expect that a fault was carried out and met something, or raise Unknown."""
    name = f"{do} of the {target}"
    struck = [f for f in history.faults if (f.step.do, f.step.target) == (do, target)]
    proofs = history.all(events.Link, do=do, target=target)
    if not struck or not proofs:
        if history.ended["how"] == "engine-failure":
            require_completed(history)
        missed: list[events.FaultMissed | events.LinkMissed]
        missed = history.all(events.FaultMissed, events.LinkMissed)
        whys = [
            one.why for one in missed if one.step and (one.step.do, one.step.target) == (do, target)
        ]
        why = "; ".join(whys) or "its moment did not come"
        raise Unknown(Reason.KILL_MISSED, f"{name} carried out", f"it was not ({why})")
    if not proofs[0].count:
        raise Unknown(Reason.NOTHING_IN_FLIGHT, f"{name} to meet something", "it met nothing")
    if proofs[0].outcome == "dropped":
        raise Unknown(Reason.KILL_MISSED, "a late frame handled", "the run was over before")


def _once(history: History) -> None:
    """Nothing is lost, nothing changed, and nothing comes twice where that is claimed."""
    require_no(history, whole(history), (*LOSS, *CHANGED, *forbidden_repeats(history)))


def _exact(history: History) -> None:
    require_no(history, whole(history), (*VALUES, *LOSS, *CHANGED, *forbidden_repeats(history)))


@decides("EO-SOURCE-CUT", "count-links-cut")
def test_a_reply_of_the_source_is_cut(history: History) -> None:
    require_no(history, values(history), (*VALUES, *LOSS))
    _met(history, "cut", "source")


@decides("EO-SOURCE-CUT", "market-two-links-cut")
def test_a_reply_of_two_sources_is_cut(history: History) -> None:
    require_no(history, values(history), (*VALUES, *LOSS))
    _met(history, "cut", "source")


@decides("EO-SINK-CUT", "count-links-cut")
def test_the_acknowledgement_of_an_append_is_cut(history: History) -> None:
    _exact(history)
    _met(history, "cut", "sink")


@decides("EO-SINK-CUT", "market-two-links-cut")
def test_the_acknowledgement_of_a_transaction_is_cut(history: History) -> None:
    _exact(history)
    _met(history, "cut", "sink")


@decides("DL-LATE-BYTES", "count-links-cut")
def test_an_append_of_an_old_connection_is_late(history: History) -> None:
    _once(history)
    _met(history, "late", "sink")


@decides("DL-LATE-BYTES", "market-two-links-cut")
def test_a_stage_of_an_old_connection_is_late(history: History) -> None:
    _once(history)
    _met(history, "late", "sink")


@decides("EO-HALF-OPEN", "count-links-down")
def test_connections_stand_still_and_break(history: History) -> None:
    _exact(history)
    _met(history, "half-open", "source")
    _met(history, "half-open", "sink")


@decides("DL-REFUSED", "count-links-down")
def test_output_is_refused_for_a_time(history: History) -> None:
    _once(history)
    _met(history, "refuse", "sink")


@decides("BP-SLOW-LINKS", "count-links-slow")
def test_replies_are_late_slow_and_dripping(history: History) -> None:
    _exact(history)
    _met(history, "delay", "source")
    _met(history, "drip", "sink")
    _met(history, "throttle", "source")
    _met(history, "delay", "sink")


@decides("BP-SILENT-SOURCE", "count-links-slow")
def test_the_source_is_silent_for_a_time(history: History) -> None:
    _exact(history)
    _met(history, "silence", "source")
