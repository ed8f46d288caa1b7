"""Every kind of fault, and what a schedule of them asks of an engine."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Final, get_type_hints

from tickproof.conformance.fault_steps import FaultStep
from tickproof.conformance.faults.corrupt import Corrupt
from tickproof.conformance.faults.cut import Cut
from tickproof.conformance.faults.delay import Delay, DelayHost
from tickproof.conformance.faults.drip import Drip
from tickproof.conformance.faults.duplicate import Duplicate
from tickproof.conformance.faults.error_answer import ErrorAnswer
from tickproof.conformance.faults.fault import Fault
from tickproof.conformance.faults.fill import Fill
from tickproof.conformance.faults.garble import Garble
from tickproof.conformance.faults.half_open import HalfOpen
from tickproof.conformance.faults.kill import Kill, KillBroker, KillEngine, KillHost, KillLeader
from tickproof.conformance.faults.late import Late
from tickproof.conformance.faults.loss import Loss
from tickproof.conformance.faults.partition import Partition
from tickproof.conformance.faults.pause import Pause, PauseLeader
from tickproof.conformance.faults.power import Power
from tickproof.conformance.faults.refuse import Refuse
from tickproof.conformance.faults.reorder import Reorder
from tickproof.conformance.faults.rescale import Rescale
from tickproof.conformance.faults.scale import Scale
from tickproof.conformance.faults.silence import Silence
from tickproof.conformance.faults.throttle import Throttle, ThrottleHost
from tickproof.conformance.faults.wipe import Wipe
from tickproof.conformance.scenario import survived

FAULTS: Final[tuple[type[Fault], ...]] = (
    Kill, KillEngine, KillHost, KillBroker, KillLeader, Pause, PauseLeader, Cut, Late, HalfOpen,
    Delay, DelayHost, Throttle, ThrottleHost, Drip, Refuse, ErrorAnswer, Silence, Fill, Corrupt,
    Wipe, Power, Rescale, Scale, Partition, Loss, Reorder, Duplicate, Garble,
)  # fmt: skip
_BY_STEP: Final[dict[Any, type[Fault]]] = {get_type_hints(kind)["step"]: kind for kind in FAULTS}


def fault_of(step: FaultStep) -> Fault:
    """Return what a step does."""
    return _BY_STEP[type(step)](step)


def faults_of(steps: Iterable[FaultStep]) -> Iterator[Fault]:
    """Return what each step of a schedule does."""
    return map(fault_of, steps)


def names(steps: Sequence[FaultStep]) -> list[str]:
    """Return what each step is called among the others: "the kill", or "kill 1" and "kill 2"."""
    nouns = [fault_of(step).noun or step.do for step in steps]
    return [
        f"the {noun}" if nouns.count(noun) == 1 else f"{noun} {nouns[:number].count(noun) + 1}"
        for number, noun in enumerate(nouns)
    ]


def loses_power(steps: Iterable[FaultStep]) -> bool:
    """Tell whether a step needs an engine with a disk that can lose its power."""
    return any(isinstance(fault, Power) for fault in faults_of(steps))


def meets_broker(steps: Iterable[FaultStep]) -> bool:
    """Tell whether a step needs a broker, or several, that serve no other run."""
    return any(fault.needs == "broker" for fault in faults_of(steps))


def meets_leader(steps: Iterable[FaultStep]) -> bool:
    """Tell whether a step needs a cluster of brokers."""
    return any(step.target == "leader" for step in steps)


def needs_of(steps: Iterable[FaultStep], workers: int) -> frozenset[str]:
    """Return what an engine of so many workers must claim to survive a schedule.

    What it keeps in the memory of its workers may be lost with the second of them, for the kit
    cannot see when the first has it again. A stop of all puts an end to that.
    """
    found: set[str] = set()
    down = 0
    for fault in faults_of(steps):
        found |= {fault.needs} if fault.needs else set()
        workers = fault.scales_to or workers
        down = 0 if fault.ends_engine else down + fault.takes_worker
        if down > 1 or (fault.takes_worker and workers == 1):
            found.add("all-workers")
    return frozenset(found)


def within(
    survives: Collection[str], steps: Sequence[FaultStep], workers: int
) -> tuple[FaultStep, ...]:
    """Return a schedule up to the first step that asks for more than an engine claims."""
    claimed = frozenset(survived(survives))
    fits = (needs_of(steps[: number + 1], workers) <= claimed for number in range(len(steps)))
    return tuple(step for step, _ in zip(steps, takewhile(bool, fits), strict=False))
