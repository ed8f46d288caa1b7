"""Schedules drawn by hypothesis within what an engine claims, near the moments where engines break.

The same seed draws the same schedules. Hypothesis only draws: runs depend on timing, which
it would take for an error of the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, zip_longest
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tickproof.conformance import apps
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.fault_steps import (
    ALONE_S,
    GRACE_S,
    WAYS,
    CutStep,
    DelayHostStep,
    DelayStep,
    DripStep,
    DuplicateStep,
    FaultStep,
    FillStep,
    GarbleStep,
    HalfOpenStep,
    KillBrokerStep,
    KillEngineStep,
    KillHostStep,
    KillLeaderStep,
    KillStep,
    LastingStep,
    LateStep,
    LossStep,
    Moment,
    PartitionStep,
    PauseStep,
    RefuseStep,
    ReorderStep,
    SilenceStep,
    ThrottleHostStep,
    ThrottleStep,
)
from tickproof.conformance.faults.host_fault import HostFault
from tickproof.conformance.faults.kill import KILLS
from tickproof.conformance.faults.kinds import fault_of, within
from tickproof.conformance.faults.moments import FETCHED, moment_of
from tickproof.conformance.faults.scale import Scale
from tickproof.conformance.faults.schedule_file import KINDS, PREFIX, tick_for
from tickproof.conformance.faults.space.offers import Offer, space_of
from tickproof.conformance.faults.space.offers import offers as claimed
from tickproof.conformance.faults.space.scenarios import pace
from tickproof.conformance.faults.space.scenarios import scenario as scenario_of
from tickproof.conformance.faults.space.strikes import scale
from tickproof.conformance.scenario import Scenario, survived

#: Schedules drawn at a time: beyond this number, hypothesis only varies earlier ones.
BATCH: Final = 10
MOST_FAULTS: Final = 6
MOST_RECORDS: Final = 200_000
#: Records for each fault, so that each finds some that are not yet fetched.
RECORDS_A_FAULT: Final = 12
#: Parts of the input between which faults come: some of it is left for the last recovery.
_FIRST, _SPAN = 0.05, 0.8
#: Bytes of the input of passthrough.
_MOST_BYTES: Final = 16_000_000
#: Moments of a kill, the ones around a cut most often.
_MOMENTS: Final[tuple[Moment, ...]] = (
    "fetched",
    "fetched",
    "fetched",
    "staged",
    "accepted",
    "committing",
)


def offers(spec: EngineSpec, *, on_hosts: bool = False) -> list[Offer]:
    """Return what there is to explore: nothing where no state is claimed to be exact."""
    return [offer for offer in claimed(spec, on_hosts=on_hosts) if _deeds(offer)]


def drawn(offered: list[Offer], search_seed: int) -> Iterator[Scenario]:
    """Yield scenarios without end."""
    strategy, number = scenarios(offered), count(1)
    for batch in count():
        made: list[Scenario] = []
        # A batch has a seed of its own: the first ones do not depend on how many follow.
        _collect(strategy, search_seed * 1_000_003 + batch, made)
        # Each batch begins with the simplest schedule of all: playing it once is enough.
        for scenario in made[min(batch, 1) :]:
            yield replace(scenario, name=f"{PREFIX}{next(number)}")


def led(offered: list[Offer], space: tuple[Offer, ...], search_seed: int) -> Iterator[Scenario]:
    """Yield scenarios without end: points of the fault space in turn with others.

    offered: what is explored. space: all that the engine claims.

    Each point holds pairs of values that none before it holds, as long as there are such pairs.
    """
    survives = {one.carrier: one.survives for one in space}
    points = space_of(space, "full").covering(search_seed)
    for number, (point, other) in enumerate(zip_longest(points, drawn(offered, search_seed)), 1):
        if point is not None:
            seed = search_seed * 1_000_003 + number
            name = f"{PREFIX}point-{number}"
            yield scenario_of(point, survives[point.carrier], name, seed % 2**48, "full")
        yield other


def _collect(strategy: st.SearchStrategy[Scenario], batch_seed: int, made: list[Scenario]) -> None:
    @seed(batch_seed)
    @settings(
        max_examples=BATCH,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def take(scenario: Scenario) -> None:
        made.append(scenario)

    take()


@st.composite
def scenarios(draw: st.DrawFn, offered: list[Offer]) -> Scenario:
    """Draw a scenario from one of the offers."""
    offer = draw(st.sampled_from(offered))
    number = draw(st.integers(1, MOST_FAULTS))
    records = draw(_records(number))
    partitions = draw(st.sampled_from((4, 1, 2, 3, 8)))
    # The death of a worker without a partition might go unnoticed.
    workers = min(partitions, draw(st.sampled_from((2, 1, 3))))
    if "all-workers" not in survived(offer.survives):
        workers, partitions = max(workers, 2), max(partitions, 2)
    recipe: dict[str, Any] = {
        "kind": KINDS[offer.app],
        "seed": draw(st.integers(0, 2**32 - 1)),
        "records": records,
        "partitions": partitions,
        "tick": tick_for(records),
    }
    recipe |= draw(_content(offer, records))
    faults = within(offer.survives, draw(_faults(offer, number, records)), workers)
    seconds = draw(st.sampled_from((1.0, 0.5, 2.0, 3.0)))
    rate = pace(records, seconds, faults)
    return Scenario(PREFIX, offer.app, offer.params, recipe, workers, rate, faults=faults)


def _records(faults: int) -> st.SearchStrategy[int]:
    """Few records are as likely as many."""
    least = RECORDS_A_FAULT * (faults + 1)
    ratio = MOST_RECORDS / least
    return st.integers(0, 40).map(lambda part: round(least * ratio ** (part / 40)))


@st.composite
def _content(draw: st.DrawFn, offer: Offer, records: int) -> dict[str, Any]:
    """Keys of the recipe that only this app has."""
    match offer.app:
        case "passthrough":
            sizes = [size for size in (24, 8, 1_000, 60_000) if size * records <= _MOST_BYTES]
            return {"size": draw(st.sampled_from(sizes))}
        case "count":
            keys = draw(st.sampled_from((1_000, 1, 2, 3, 30, 30_000)))
            share = draw(st.sampled_from((0.8, 0.99)))
            return {
                "keys": keys,
                "hot_share": share,
                "edge_keys": draw(st.booleans()),
                "wrap": draw(st.booleans()),
            }
        case "market-spread":
            symbols = draw(st.sampled_from((350, 1, 2, 20, 3_000)))
            made = {
                "symbols": min(symbols, records // 8),
                "reject_one_in": 5,
                "inputs": offer.params["inputs"],
            }
            # Only orders without a quote distinguish silence from a correct interleaving.
            return made | ({"probe_one_in": 20} if offer.params["inputs"] == "two" else {})
    return {}


#: Moments for deaths alone.
_OF_DEATHS: Final[tuple[Moment, ...]] = ("losing", "recovery", "checkpoint")
#: Seconds that an action lasts, until they are drawn.
_DRAWN: Final = 1.0
#: What is done, kills most often.
_DEEDS: Final[tuple[FaultStep, ...]] = (
    *(KillEngineStep("fetched"),) * 5,
    KillEngineStep("fetched", grace_s=GRACE_S),
    *(KillStep("fetched", target="worker"),) * 4,
    KillStep("fetched", target="workers"),
    KillStep("fetched", target="coordinator"),
    PauseStep("fetched", target="worker", seconds=_DRAWN),
    PauseStep("fetched", target="workers", seconds=_DRAWN),
    FillStep("fetched", seconds=_DRAWN),
    CutStep("fetched", target="source"),
    HalfOpenStep("fetched", target="source", seconds=_DRAWN),
    DripStep("fetched", target="source", seconds=_DRAWN),
    SilenceStep("fetched", seconds=_DRAWN),
    CutStep("accepted", target="sink"),
    LateStep("accepted"),
    HalfOpenStep("accepted", target="sink", seconds=_DRAWN),
    RefuseStep("accepted", seconds=_DRAWN),
    DripStep("accepted", target="sink", seconds=_DRAWN),
    DelayStep("fetched", target="source", seconds=_DRAWN, lag_s=0.3),
    DelayStep("accepted", target="sink", seconds=_DRAWN, lag_s=0.3),
    ThrottleStep("fetched", target="source", seconds=_DRAWN, rate=50_000.0),
    KillBrokerStep("fetched"),
    KillLeaderStep("accepted"),
    KillLeaderStep("accepted", alone_s=ALONE_S),
    KillLeaderStep("accepted", grace_s=GRACE_S),
    *(scale(workers, 0.0) for workers in (1, 3, 4)),
    *(KillHostStep("fetched", down_s=seconds) for seconds in (0.5, 1.0, 3.0)),
    *(
        PartitionStep("fetched", seconds=_DRAWN, peer=peer, way=way)
        for peer in ("", "log")
        for way in WAYS
    ),
    *(LossStep("fetched", seconds=_DRAWN, share=share) for share in (0.05, 0.3)),
    ThrottleHostStep("fetched", seconds=_DRAWN, rate=100_000.0),
    DelayHostStep("fetched", seconds=_DRAWN, lag_s=0.1),
    ReorderStep("fetched", seconds=_DRAWN, lag_s=0.02, share=0.2),
    DuplicateStep("fetched", seconds=_DRAWN, share=0.2),
    GarbleStep("fetched", seconds=_DRAWN, share=0.2),
)


def _deeds(offer: Offer) -> list[FaultStep]:
    """Return the faults that the offer claims to survive, or has to tolerate."""
    return [
        step
        for step in _DEEDS
        if ((fault := fault_of(step)).needs is None or fault.needs in offer.survives)
        and (not isinstance(fault, Scale) or offer.scales)
        and (not isinstance(fault, HostFault) or offer.hosts)
    ]


@st.composite
def _faults(draw: st.DrawFn, offer: Offer, number: int, records: int) -> list[FaultStep]:
    deeds = st.sampled_from(_deeds(offer))
    slot = _SPAN / number
    steps: list[FaultStep] = []
    for place in range(number):
        # Unevenly spaced, but not so close that one fault meets the aftermath of another.
        fraction = round(_FIRST + slot * (place + draw(st.integers(0, 60)) / 100), 3)
        before = steps[-1] if steps else None
        burst = int(0.3 * slot * records)
        steps.append(draw(_step(offer, draw(deeds), fraction, burst, before)))
    last = KillEngineStep("drained")
    if fault_of(last).needs in offer.survives and draw(st.integers(0, 9)) == 9:
        steps[-1] = last
    return steps


@st.composite
def _step(
    draw: st.DrawFn,
    offer: Offer,
    step: FaultStep,
    fraction: float,
    burst: int,
    before: FaultStep | None,
) -> FaultStep:
    """Aim an action at a moment."""
    fault = fault_of(step)
    if isinstance(step, LastingStep):
        longer = (3.0,) if isinstance(fault, HostFault) else ()
        seconds = draw(st.sampled_from((0.5, 0.2, 1.0, 2.0, *longer)))
        return replace(step, fraction=fraction, seconds=seconds)
    if not isinstance(fault, KILLS):
        return replace(step, fraction=fraction)
    kind: Moment = draw(st.sampled_from((*_MOMENTS, *_OF_DEATHS)))
    if kind == "recovery" and before and isinstance(fault_of(before), KILLS):
        return replace(step, at="recovery")
    if kind == "losing" and fault.ends_engine:
        return replace(step, at="losing", fraction=fraction, delay_s=0.25)
    if kind == "checkpoint" and fault.ends_engine and apps.of(offer).one_each:
        return replace(step, at="checkpoint", fraction=fraction)
    at = kind if kind in _MOMENTS else FETCHED.name
    step = replace(step, at=at, fraction=fraction, cut=draw(st.booleans()))
    if moment_of(step) is FETCHED and draw(st.integers(0, 3)) == 3:
        return replace(step, burst=burst)
    return replace(step, delay_s=draw(st.sampled_from((0.0, 0.005, 0.03, 0.1))))
