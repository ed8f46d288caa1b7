"""From a schedule that fails to the smallest that still does: fewer faults, less input, simpler.

Delta debugging of our own: each candidate is tried by running it, and timing is not
deterministic, so ``fails`` decides by several runs and may say no where it once said yes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from tickproof.conformance.explore.subject import Schedule
from tickproof.conformance.fault_steps import FaultStep, LastingStep
from tickproof.conformance.faults.moments import moment_of
from tickproof.conformance.faults.schedule_file import out_of_place, tick_for
from tickproof.conformance.faults.space.scenarios import LASTING_TIMES, pace
from tickproof.conformance.scenario import Scenario
from tickproof.generators.placement import NUMBERING

Fault = TypeVar("Fault")
#: Index of the first candidate that fails in the same way as the original; None: none does.
Fails = Callable[[Sequence[Schedule]], int | None]

#: Sizes of input to try, smallest first: small runs cost next to nothing.
_SIZES: Final = (6, 12, 24, 48, 100, 400, 2_000, 10_000, 50_000)
#: Records that each fault needs so that some are not yet fetched when it strikes.
_RECORDS_A_FAULT: Final = 4
#: How long the input of a small run lasts beside its faults, and what is tried when that is
#: too short.
_SECONDS: Final = (0.3, 1.0)
#: Recipe keys to try at their simplest value.
_SIMPLEST: Final[dict[str, Any]] = {
    "partitions": 1, "keys": 1, "symbols": 1, "size": 8,
}  # fmt: skip
#: ... and those to leave out.
_GONE: Final = (
    "hot_share", "hot_keys", "edge_keys", "wrap", "hot_symbols", "crossed", "edges",
    "rate", "start_ns",
    *NUMBERING, "skew", "key_shape", "event_times",
)  # fmt: skip


def shrink(
    schedule: Schedule,
    passes: Sequence[Callable[[Schedule], Sequence[Schedule]]],
    fails: Fails[Schedule],
    over: Callable[[], bool],
) -> Iterator[Schedule]:
    """Yield ever smaller schedules that fail; the last one is the smallest that was found.

    passes: make smaller ones of one. It ends when no pass does, or at the first look after
    ``over`` is true.
    """
    smaller = True
    while smaller:
        smaller = False
        for candidates in passes:
            while not over():
                tried = candidates(schedule)
                found = fails(tried) if tried else None
                if found is None:
                    break
                schedule, smaller = tried[found], True
                yield schedule
        smaller = smaller and not over()


def _plays(scenario: Scenario) -> bool:
    """Tell whether a schedule's faults make sense one after another."""
    steps = scenario.faults
    if any(out_of_place(step, steps[:number]) for number, step in enumerate(steps)):
        return False
    return bool(scenario.faults)


def less_input(scenario: Scenario) -> list[Scenario]:
    """Return the scenario with less input, the least first; fractions stay as they are."""
    records = scenario.recipe["records"]
    least = _RECORDS_A_FAULT * len(scenario.faults)
    sizes = [size for size in (*_SIZES, records // 2) if least <= size < records]
    return [resized(scenario, size, seconds) for seconds in _SECONDS for size in sizes]


def resized(scenario: Scenario, records: int, seconds: float) -> Scenario:
    """Return the scenario with another number of records, over ``seconds`` beside its faults."""
    before = scenario.recipe["records"]
    recipe = scenario.recipe | {"records": records, "tick": tick_for(records)}
    if "symbols" in recipe:
        # Each symbol is quoted once before the first order.
        recipe["symbols"] = max(1, min(recipe["symbols"], records // 4))
    faults = tuple(
        replace(step, burst=step.burst and max(1, step.burst * records // before))
        for step in scenario.faults
    )
    rate = pace(records, seconds, faults)
    return replace(scenario, recipe=recipe, rate=rate, faults=faults)


def fewer_faults(scenario: Scenario) -> list[Scenario]:
    """Return the scenario with some of its faults."""
    return [_with_faults(scenario, some) for some in fewer(scenario.faults)]


def fewer(faults: tuple[Fault, ...]) -> list[tuple[Fault, ...]]:
    """Return some of the faults, the fewest first: halves alone, then without a half, ..."""
    kept: list[tuple[Fault, ...]] = []
    size = len(faults) // 2
    while size:
        starts = range(0, len(faults), size)
        kept += [faults[at : at + size] for at in starts]
        kept += [faults[:at] + faults[at + size :] for at in starts]
        size //= 2
    unique = [one for one in dict.fromkeys(kept) if 0 < len(one) < len(faults)]
    return sorted(unique, key=len)


def _with_faults(scenario: Scenario, faults: tuple[FaultStep, ...]) -> Scenario:
    """Return the scenario with other faults, its input shorter by the time of those dropped."""
    rate, records = scenario.rate, scenario.recipe["records"]
    seconds = sum(s.lasts_s for s in scenario.faults) - sum(s.lasts_s for s in faults)
    if rate and seconds > 0:
        left = max(records / rate - LASTING_TIMES * seconds, min(_SECONDS))
        rate = max(rate, pace(records, left, ()))
    return replace(scenario, faults=faults, rate=rate)


def simpler_whole(scenario: Scenario) -> list[Scenario]:
    """Return the scenario with everything at its simplest at once: often that still fails."""
    recipe = _simplest(scenario.recipe, (*_SIMPLEST, *_GONE))
    faults = tuple(_plainest(step) for step in scenario.faults)
    simple = replace(scenario, workers=1, recipe=recipe)
    return [one for one in (replace(simple, faults=faults), simple) if one != scenario]


def simpler_parts(scenario: Scenario) -> list[Scenario]:
    """Return the scenario with one thing simpler each."""
    found = [replace(scenario, workers=1)]
    for key in (*_SIMPLEST, *_GONE):
        found.append(replace(scenario, recipe=_simplest(scenario.recipe, (key,))))
    for number, step in enumerate(scenario.faults):
        for simpler in _simpler(step):
            faults = (*scenario.faults[:number], simpler, *scenario.faults[number + 1 :])
            found.append(_with_faults(scenario, faults))
    return [one for one in found if one != scenario]


def _simplest(recipe: dict[str, Any], keys: Any) -> dict[str, Any]:
    gone = {key for key in keys if key in _GONE}
    if "partitions" in keys:
        gone |= {*NUMBERING}  # they number partitions that are no more
    simple = {k: v for k, v in recipe.items() if k not in gone}
    return {k: _SIMPLEST[k] if k in keys and k in _SIMPLEST else v for k, v in simple.items()}


def _plainest(step: FaultStep) -> FaultStep:
    plain = replace(step, burst=0, delay_s=0.0)
    return replace(plain, fraction=round(step.fraction, 1)) if moment_of(step).placed else plain


def _simpler(step: FaultStep) -> list[FaultStep]:
    """Return the step with one field simpler each, never one that is not simpler."""
    found = [replace(step, burst=0), replace(step, delay_s=0.0), replace(step, cut=False)]
    if moment_of(step).placed:
        found.append(replace(step, fraction=round(step.fraction, 1)))
        found.append(replace(step, at="fetched", cuts=0, idle_s=0.0))
    for seconds in (0.2, 1.0):
        if isinstance(step, LastingStep) and step.seconds > seconds:
            found.append(replace(step, seconds=seconds))
    return [one for one in dict.fromkeys(found) if one != step]


def _sound(
    candidates: Callable[[Scenario], list[Scenario]],
) -> Callable[[Scenario], list[Scenario]]:
    return lambda scenario: [one for one in candidates(scenario) if _plays(one)]


#: What makes scenarios smaller.
PASSES: Final = tuple(map(_sound, (less_input, fewer_faults, simpler_whole, simpler_parts)))
