"""Growing and shrinking: an engine goes on with other workers, after a stop or while it runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import Final

from tickproof.conformance.fault_steps import (
    CutStep,
    FaultStep,
    FillStep,
    KillEngineStep,
    KillStep,
    Moment,
    PauseStep,
    RescaleStep,
    ScaleStep,
    Target,
    fault_step,
)
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.space.strikes import scale
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.carriers import ON_MERGED, ON_TWO, STATE_FIRST
from tickproof.conformance.suites.require import require_correct, require_fired
from tickproof.conformance.suites.requirement import Family, Needs
from tickproof.conformance.suites.scales import require_meanwhile, require_numbers, require_scaled
from tickproof.conformance.suites.scenarios import Context, carried, kill, market, scenario

EL: Final = Family("EL", "Growing and shrinking", tier=4)
_BEFORE, _MORE, _FEWER = 2, 3, 1
#: One, then four, then two: from which part of the input on.
_GROWN, _SHRUNK = (0.15, 4), (0.5, 2)
#: Of the input, from a restart to the death after it, which waits for the first cut.
_NEXT = 0.02


def _rescaled(
    context: Context,
    rng: random.Random,
    *numbers: tuple[float, int],
    while_cutting: bool = False,
    victims: Sequence[Target] = ("engine",),
) -> tuple[FaultStep, ...]:
    """Return rescales; after each a death at the first cut, if that is claimed.

    numbers: from which part of the input on there are how many workers. while_cutting: a death
    comes as that cut is written, not after it. victims: who dies, in turn.
    """
    steps: list[FaultStep] = []
    for (low, workers), victim in zip(numbers, cycle(victims), strict=False):
        drawn = kill(rng, "engine", low, low + 0.1, cut=True)
        # A delay: a connection that is held might keep the engine from its stop.
        stop = RescaleStep(
            "fetched", fraction=drawn.fraction, delay_s=0.02, workers=workers, cut=True
        )
        steps.append(stop)
        if victim in context.survives:
            if while_cutting:
                # Over Kafka a cut is the end of a transaction, or a commit of offsets.
                cut: Moment = "committing" if context.transport == "kafka" else "cutting"
                death = fault_step("kill", victim, cut, fraction=drawn.fraction)
            else:
                later = round(drawn.fraction + _NEXT, 4)
                death = fault_step("kill", victim, "fetched", fraction=later, cut=True)
            steps.append(death)
    return tuple(steps)


@scenario(*STATE_FIRST)
def count_rescale(context: Context, rng: random.Random) -> Scenario:
    # There and back again: what the first number left behind lies about by then.
    numbers = (0.15, _MORE), (0.4, _FEWER), (0.65, _BEFORE)
    faults = _rescaled(context, rng, *numbers, victims=("worker", "engine"))
    return carried(context, context.records(90_000), rate=60_000, faults=faults)


@scenario(*ON_TWO, *ON_MERGED)
def market_rescale(context: Context, rng: random.Random) -> Scenario:
    # The other way round: what the second number goes wrong with lasts to the end.
    faults = _rescaled(context, rng, (0.2, _FEWER), (0.55, _MORE))
    return market(context, 90_000, rate=60_000, faults=faults)


def _all_fired(history: History, *, in_flight: bool = True) -> None:
    """Expect that all is right, and that each fault was carried out."""
    require_correct(history)
    require_fired(history, in_flight=in_flight)


EL.requirement(
    "EL-RESTART",
    "output is exact with more workers, and with fewer",
    """Stopped, deployed with resume for more workers, killed at its first cut, and then the same
    with fewer: every value is right, in order, and none is missing.
    If it fails, state or offsets belong to a worker and not to a partition, so that a new owner
    does not find them, or two workers own the same one.""",
    clauses="""toml-claim-rescale kafka-scale ctl-stop-promise ctl-deploy-resume ctl-deploy-workers
    eut-one-cut""",
    needs=Needs(state=("exactly-once",), rescale=("restart", "live")),
    judges={count_rescale: _all_fired, market_rescale: _all_fired},
)


def _grown_and_shrunk(context: Context, rng: random.Random, rate: float | None) -> Scenario:
    faults = _rescaled(context, rng, _GROWN, _SHRUNK, while_cutting=True)
    return carried(context, context.records(180_000), rate=rate, faults=faults, workers=1)


@scenario(*STATE_FIRST)
def count_rescale_backlog(context: Context, rng: random.Random) -> Scenario:
    return _grown_and_shrunk(context, rng, rate=None)


def _rescaled_while_cutting(history: History) -> None:
    # The first cut of a new number may come before it has fetched anything.
    _all_fired(history, in_flight=False)
    require_fired(history, 1)


EL.requirement(
    "EL-BACKLOG",
    "output is exact when workers change behind a backlog",
    """All input is there from the start. One worker becomes four, and four become two; each time
    the engine is killed as it writes its first cut with the new number.
    If it fails, a cut of the old number and one of the new are mixed up, or the first cut counts
    before all of it is written.""",
    clauses="""toml-claim-rescale kafka-scale ctl-deploy-resume ctl-deploy-workers eut-one-cut
    eut-resumes""",
    needs=Needs(state=("exactly-once",), rescale=("restart", "live")),
    judges={count_rescale_backlog: _rescaled_while_cutting},
)


@scenario(*STATE_FIRST)
def count_rescale_steady(context: Context, rng: random.Random) -> Scenario:
    return _grown_and_shrunk(context, rng, rate=60_000)


EL.requirement(
    "EL-STEADY",
    "output is exact when workers change under a steady load",
    """Input comes at a steady rate. One worker becomes four, and four become two; each time the
    engine is killed as it writes its first cut with the new number.
    If it fails, what came while nobody ran was skipped, or the first cut counts before all of it is
    written.""",
    clauses="""toml-claim-rescale kafka-scale ctl-deploy-resume ctl-deploy-workers eut-one-cut
    eut-resumes""",
    needs=Needs(state=("exactly-once",), rescale=("restart", "live")),
    judges={count_rescale_steady: _rescaled_while_cutting},
)


def _scaled(
    rng: random.Random, *numbers: tuple[float, int], then: tuple[FaultStep | None, ...] = ()
) -> tuple[FaultStep, ...]:
    """Return scales: from which part of the input on, to how many; and what comes into each."""
    steps: list[FaultStep] = []
    for number, (low, workers) in enumerate(numbers):
        at = round(rng.uniform(low, low + 0.05), 4)
        into = then[number] if number < len(then) else None
        steps += [scale(workers, at)] if into is None else [scale(workers, at), into]
    return tuple(steps)


@scenario(*STATE_FIRST)
def count_scale(context: Context, rng: random.Random) -> Scenario:
    # One more and one less: most partitions stay where they are, or come back at once.
    faults = _scaled(rng, (0.1, 3), (0.27, 2), (0.44, 4), (0.61, 1), (0.78, 3))
    return carried(context, context.records(120_000), rate=40_000, faults=faults)


@scenario(*ON_TWO, *ON_MERGED)
def market_scale(context: Context, rng: random.Random) -> Scenario:
    faults = _scaled(rng, (0.15, 1), (0.4, 4), (0.65, 2))
    return market(context, 90_000, rate=40_000, faults=faults)


def _shared_work(history: History) -> None:
    _all_fired(history)
    require_scaled(history)


EL.requirement(
    "EL-LIVE",
    "output is exact while workers come and go under load",
    """Asked to scale while input comes, up and down between one worker and four: every value is
    right, in order, and none is missing; those who came do their part of the work.
    If it fails, a key moved without its last records, has two owners or none, or the answer to
    scale came before the new workers owned anything.""",
    clauses="toml-claim-rescale kafka-scale ctl-scale ctl-topology eut-one-cut",
    needs=Needs(state=("exactly-once",), rescale=("live",)),
    judges={count_scale: _shared_work, market_scale: _shared_work},
)


@scenario(*STATE_FIRST)
def count_scale_death(context: Context, rng: random.Random) -> Scenario:
    # Soon enough to come before the answer, and not always at the same step of the move.
    mortal: tuple[Target, ...] = ("worker", "engine", "coordinator")
    victims = [one for one in mortal if one in context.survives]
    deaths = tuple(
        fault_step("kill", one, "scaling", delay_s=round(rng.uniform(0.0, 0.01), 4))
        for one in victims
    )
    faults = _scaled(rng, (0.15, 4), (0.4, 1), (0.65, 3), then=deaths)
    return carried(context, context.records(120_000), rate=40_000, faults=faults)


@scenario(*STATE_FIRST)
def count_scale_trouble(context: Context, rng: random.Random) -> Scenario:
    # Nobody dies, but who is to leave cannot send, stands still, or cannot write. What that left
    # behind is read after the death at the end.
    faults = list(
        _scaled(
            rng,
            (0.12, 1),
            (0.35, 4),
            then=(
                _claimed(context, CutStep("scaling", target="sink")),
                _claimed(context, PauseStep("scaling", target="worker", seconds=1.5)),
            ),
        )
    )
    at = round(rng.uniform(0.58, 0.63), 4)
    if context.transport == "log":  # over Kafka a cut may need no disk
        faults.append(FillStep("fetched", fraction=at, cut=True, seconds=0.8))
    faults.append(replace(scale(2, round(at + _NEXT, 4)), cut=False))
    if last := _claimed(context, kill(rng, "engine", 0.85, 0.9, cut=True)):
        faults.append(last)
    return carried(context, context.records(150_000), rate=40_000, faults=tuple(faults))


def _claimed(context: Context, step: FaultStep) -> FaultStep | None:
    needs = fault_of(step).needs
    return step if needs is None or needs in context.survives else None


def _moving(history: History) -> None:
    _all_fired(history, in_flight=False)
    require_meanwhile(history)


EL.requirement(
    "EL-MOVING",
    "output is exact whatever happens while keys move",
    """Between a request to scale and its answer a worker is killed, and then, at the next ones, the
    whole engine and the coordinator; or a connection is cut, a worker stands still, the disk is
    full: every value is right, in order, and none is missing.
    If it fails, what moves is in two places or in none for a moment, or the engine forgets that it
    was scaling.""",
    clauses="toml-claim-rescale kafka-scale ctl-scale eut-one-cut eut-resumes",
    needs=Needs(state=("exactly-once",), rescale=("live",)),
    judges={count_scale_death: _moving, count_scale_trouble: _moving},
)


def _then(context: Context, *numbers: tuple[float, int, FaultStep]) -> tuple[FaultStep, ...]:
    """Return scales, and what comes when each is over, if that is claimed."""
    steps: list[FaultStep] = []
    for at, workers, after in numbers:
        steps.append(scale(workers, round(at, 4)))
        later = replace(after, fraction=round(at + _NEXT, 4), cut=True)
        steps += [later] if _claimed(context, after) else []
    return tuple(steps)


@scenario(*STATE_FIRST)
def count_scale_then_death(context: Context, rng: random.Random) -> Scenario:
    at = rng.uniform(0.1, 0.15)
    faults = _then(
        context,
        (at, 3, KillStep("fetched", target="worker")),
        (at + 0.28, 2, KillEngineStep("checkpoint")),
        (at + 0.56, 4, KillStep("fetched", target="workers")),
    )
    return carried(
        context,
        context.records(120_000),
        rate=40_000,
        faults=faults,
        recipe={"ended_early": [0]},
        keyed={"units": True, "edges": False},
    )


@scenario(*ON_TWO, *ON_MERGED)
def market_scale_then_death(context: Context, rng: random.Random) -> Scenario:
    at = rng.uniform(0.1, 0.15)
    faults = _then(
        context,
        (at, 3, KillStep("committing", target="worker")),
        (at + 0.35, 2, KillEngineStep("losing", delay_s=0.25)),
    )
    # For a while there are more workers than partitions.
    return market(context, 90_000, rate=40_000, partitions=2, faults=faults)


def _after_scales(history: History) -> None:
    _all_came(history)
    require_fired(history, 1)


def _all_came(history: History) -> None:
    """Expect right output, and every fault but those that wait for an op the engine lacks."""
    require_correct(history)
    planned = len(history.record.scenario.faults)
    lacking = sum("no checkpoint op" in row.why for row in history.missed_faults)
    require_fired(history, planned - lacking, in_flight=False)


EL.requirement(
    "EL-AFTER",
    "output is exact after the deaths that follow a scale",
    """After a scale a worker is killed, after the next one the whole engine, between a cut and its
    COMMIT too: every value is right, in order, and none is missing.
    If it fails, what a scale left behind is taken for the newest, or nobody looks after those who
    came.""",
    clauses="toml-claim-rescale kafka-scale ctl-scale eut-one-cut eut-resumes",
    needs=Needs(state=("exactly-once",), rescale=("live",)),
    judges={count_scale_then_death: _after_scales, market_scale_then_death: _all_fired},
)


@scenario(*STATE_FIRST)
def count_scale_twice(context: Context, rng: random.Random) -> Scenario:
    others = tuple(ScaleStep("scaling", workers=workers) for workers in (3, 1))
    faults = _scaled(rng, (0.2, 4), (0.55, 2), then=others)
    return carried(context, context.records(90_000), rate=40_000, faults=faults)


@scenario(*STATE_FIRST)
def count_scale_between(context: Context, rng: random.Random) -> Scenario:
    # A request is pending, or was answered just now: the processes that scale asks are not idle.
    # Whether both reach one of them together is chance, so it is tried more than once.
    at = rng.uniform(0.3, 0.35)
    beside = [
        ScaleStep("checkpointing", fraction=round(at + 0.05 * number, 4), workers=workers)
        for number, workers in enumerate((3, 2, 3, 2, 3, 2))
    ]
    last = ScaleStep("draining", fraction=round(at + 0.25 + _NEXT, 4), workers=1)
    faults = (*beside, last)
    return carried(context, context.records(60_000), rate=40_000, faults=faults)


def _between(history: History) -> None:
    # A request is in flight, not records: some engines are asked when all of them are released.
    _all_came(history)
    require_numbers(history)


def _overlapping(history: History) -> None:
    _moving(history)
    require_numbers(history)


EL.requirement(
    "EL-OVERLAP",
    "a request to scale beside another request does no harm",
    """The second of two requests to scale is refused definitely, or both are carried out, one after
    the other; asked beside a checkpoint, or before drain was answered, each request gets an answer.
    Output is exact in all cases.
    If it fails, two moves of the same key cross each other, or one request makes the engine forget
    another.""",
    clauses="toml-claim-rescale kafka-scale ctl-scale ctl-answer eut-one-cut",
    needs=Needs(state=("exactly-once",), rescale=("live",)),
    judges={count_scale_twice: _overlapping, count_scale_between: _between},
)
