"""Schedules as scenarios of tier 3: named schedule-NAME, judged as a whole."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tickproof.conformance import apps
from tickproof.conformance.faults.corrupt import Corrupt
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.moments import moment_of
from tickproof.conformance.history.events import FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.log_server.timed_faults import LinkEffect
from tickproof.conformance.suites.evidence import CHANGED, LOSS, ORDER_KINDS, SEEN, VALUES, whole
from tickproof.conformance.suites.judge import Unknown
from tickproof.conformance.suites.promises import forbidden_repeats
from tickproof.conformance.suites.require import (
    raise_first,
    refused_clearly,
    require_completed,
    require_fired,
    require_no,
    require_noticeable,
    require_settled,
)
from tickproof.conformance.suites.state_faults import require_effect
from tickproof.conformance.verdicts import Reason

#: The requirement that every schedule decides.
REQUIREMENT: Final = "EO-SCHEDULE"
#: The requirement that every point of the fault space decides.
COVERING: Final = "EO-COVERING"


def held(history: History, *, may_refuse: bool = False) -> None:
    """All that the engine claims held, and every fault met what it was meant for.

    Where output may come twice and a replay may differ, two versions of it are no fault.
    may_refuse: an engine that refuses to go on after damage to its state, having said nothing
    wrong before, passes.
    """
    kinds = [*VALUES, *LOSS, *forbidden_repeats(history)]
    if apps.of(history).numbered:
        kinds += ORDER_KINDS
    if history.claims.delivery == "exactly-once":
        kinds += CHANGED
    found = whole(history)
    damaged = [one for one in history.faults if isinstance(fault_of(one.step), Corrupt)]
    if damaged and found.first(kinds):
        for fault in damaged:
            require_noticeable(fault)
    if damaged and history.ended.engine_failed:
        raise_first(found, (kind for kind in kinds if kind in SEEN))
        if not refused_clearly(history):
            require_completed(history)
        if may_refuse:
            return
        raise Unknown(
            Reason.NO_RECOVERY_SEEN,
            "a run that goes on after damage, which may be refused, too",
            history.ended.message,
        )
    require_no(history, found, kinds)
    if all(_only_slows(fired) for fired in history.faults):
        require_settled(history)  # no life left a transaction behind
    _met(history, require_fired(history, in_flight=False))


def _only_slows(fired: FiredFault) -> bool:
    """Tell whether a fault leaves connections and processes as they are."""
    effect = fault_of(fired.step)
    return isinstance(effect, LinkEffect) and (effect.slows or effect.withholds)


def _met(history: History, faults: list[FiredFault]) -> None:
    """Expect that each fault met data, a frame or a process, and that those that last ended."""
    lanes: Counter[tuple[str, str]] = Counter()
    for fired in faults:
        fault = fault_of(fired.step)
        lanes[fault.lane] += 1
        proofs = fault.proofs(history)
        if proofs is not None and len(proofs) < lanes[fault.lane]:
            raise Unknown(
                Reason.KILL_MISSED,
                "each fault to meet something and to end",
                "one did not",
                fault=fired.text,
            )
        busy = fault.meets_records and not moment_of(fired.step).idle
        if busy and apps.of(history).in_flight(fired) <= 0:
            raise Unknown(
                Reason.NOTHING_IN_FLIGHT,
                "records fetched and not yet released at each fault",
                f"none: {fired.fetched} fetched, {fired.released} released",
                fault=fired.text,
            )
    require_effect(history, faults)


def point_held(history: History) -> None:
    """All that the engine claims held at a point of the fault space."""
    held(history, may_refuse=True)
