"""The plan of a selftest: its mutants and sound engines, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tickproof.conformance.engines import network, spec
from tickproof.conformance.errors import RequestError
from tickproof.conformance.report import machine
from tickproof.conformance.selftest import mutants
from tickproof.conformance.selftest.mutants import Copy, Mutant, SoundVariant
from tickproof.conformance.selftest.trial import Task, alone, on_hosts, tests_of
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.catalog import draw, seconds
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.text import shown

#: Sound engines that are always tried; Spark only beside a mutant of it.
SOUND: Final = ("miniature", "single", "minimal", "kafka-miniature")
#: A sound variant plays one scenario of so many, each of them others, unless it is asked for.
SHARE: Final = 4
#: In a part of a selftest each sound engine plays one scenario of so many; others with each seed.
SHARE_OF_PART: Final = 96
#: How long an engine takes to start, in seconds: only used to order the trials.
_START_S: Final = {
    "miniature": 1.0, "single": 1.0, "minimal": 1.0, "spark": 20.0,
    "kafka-miniature": 5.0,
}  # fmt: skip
#: The reference, which starts slowly.
SPARK: Final = "spark"
#: These speak Kafka. They, and what is made of them, are tried only when they are asked for:
#: they need a broker.
KAFKA: Final = ("kafka-miniature",)


@dataclass(frozen=True)
class Engine:
    """A subject with its engine.toml and the scenarios that it has to play."""

    id: str
    toml: Path
    base: str
    scenarios: tuple[str, ...]
    mutant: Mutant | None = None
    variant: SoundVariant | None = None

    @property
    def repeats(self) -> bool:
        """True if it is tried again with other seeds: a sound engine that starts fast."""
        return self.mutant is None and self.base != SPARK


@cache
def seconds_of(scenario: str, base: str) -> float:
    """Estimate how long a scenario takes on an engine made of ``base``."""
    return seconds(scenario) + _START_S[base]


def without_mutant(of: Iterable[Mutant]) -> list[str]:
    """Return the requirements of the registry that no mutant names."""
    named = {requirement for mutant in of for requirement in mutant.breaks}
    return [requirement for requirement in registry.load() if requirement not in named]


def chosen(
    fixtures: Path,
    folder: Path,
    *,
    only: Sequence[str] = (),
    base: str | None = None,
    part: bool = False,
    sound: bool = False,
    seed: int = 0,
) -> list[Engine]:
    """Return the engines to try; copies of them are made under ``folder``.

    only: ids (empty: all). base: only what is made of this engine. part: the mutants of
    `covering`, and sound engines on a few scenarios, which ``seed`` turns to others. sound: no
    mutants; sound variants then play all scenarios, unless ``part``. Raises RequestError, and
    InvalidFile for a file that cannot be used.
    """
    known = mutants.available(fixtures)
    variants = mutants.sound_variants(fixtures)
    _check(only, [*(m.id for m in known), *(v.id for v in variants), *SOUND])
    wrong = [m for m in known if _is_asked_for(m, only, base)]
    if sound:
        wrong = []
    elif part:
        # A part is for shared machines, where timing tests say little and cost most.
        wrong = covering([m for m in wrong if not any(map(alone, scenarios_of([m])))], seed)
    if network.obstacle():
        wrong = [m for m in wrong if not any(map(on_hosts, scenarios_of([m])))]
    found = [_mutant(mutant, fixtures, folder) for mutant in wrong]
    first = 0
    if part:
        first, shares = seed, (SHARE_OF_PART, SHARE_OF_PART)
    else:
        shares = (1, 1) if sound or only else (SHARE, 1)
    found += _sound_ones(fixtures, folder, variants, only, base, first, *shares)
    if wrong and base == SPARK:
        # What fails a mutant of Spark must not fail Spark; `run spark` judges all of it.
        found.append(Engine(base, spec.find(base, fixtures), base, scenarios_of(wrong)))
    if not found:
        raise RequestError("--only, --engine and --sound: nothing is in all of them")
    return found


def runs_at_once(engines: Iterable[Engine]) -> int:
    """Return how many trials this machine plays at once: those of the engine that bears most."""
    each = {engine.base: engine.toml for engine in engines}  # copies bear what their base does
    return max(machine.runs_at_once(spec.load(toml).runs_per_processor) for toml in each.values())


def _sound_ones(
    fixtures: Path,
    folder: Path,
    variants: Sequence[SoundVariant],
    only: Sequence[str],
    base: str | None,
    first: int,
    share: int,
    of_plain: int,
) -> Iterator[Engine]:
    """Yield sound engines, each with other scenarios: every ``share``-th, from ``first``."""
    number = first
    for variant in variants:
        if _is_asked_for(variant, only, base):
            toml = mutants.make(variant, fixtures, folder / "sound_variants" / variant.id)
            # Most variants are slow: they promise no latency.
            mine = [
                s
                for s in _playable(variant.engine)
                if not alone(s) and (not variant.apps or _app(s) in variant.apps)
            ]
            scenarios = _every(share, mine, number)
            yield Engine(variant.id, toml, variant.engine, scenarios, variant=variant)
            number += 1
    for name in SOUND if base is None else {base}.intersection(SOUND):
        everything = _playable(name)
        if name in only or (not only and (base == name or name not in KAFKA)):
            # A part is for shared machines: no timing tests, see above.
            mine = everything if of_plain == 1 else [s for s in everything if not alone(s)]
            scenarios = _every(of_plain, mine, number)
            yield Engine(name, spec.find(name, fixtures), name, scenarios)
            number += 1


def _every(share: int, scenarios: Sequence[str], turn: int) -> tuple[str, ...]:
    """Return one scenario of ``share``, at least one; another ``turn`` gives others."""
    share = min(share, len(scenarios))
    return tuple(scenarios[turn % share :: share])


def _is_asked_for(copy: Copy, only: Sequence[str], base: str | None) -> bool:
    if only and copy.id not in only:
        return False
    return copy.engine == base or (base is None and (bool(only) or copy.engine not in KAFKA))


def _playable(base: str) -> tuple[str, ...]:
    """Return what an engine can be tried on: without rights to make hosts, nothing on hosts."""
    found = tests_of(transport=_transport(base))
    without = bool(network.obstacle())
    return tuple(one for one in found if not (without and on_hosts(one)))


def _transport(base: str) -> str:
    return "kafka" if base in KAFKA else "log"


def _app(scenario: str) -> str:
    return draw(scenario, Context(seed=0, freshness_s=5.0)).app


def _check(only: Sequence[str], known: Sequence[str]) -> None:
    for id_ in only:
        if id_ not in known:
            raise RequestError(f"--only: no mutant, sound variant or sound engine {shown(id_, 80)}")


def _mutant(mutant: Mutant, fixtures: Path, folder: Path) -> Engine:
    toml = mutants.make(mutant, fixtures, folder / "mutants" / mutant.id)
    transport = _transport(mutant.engine)
    scenarios = scenarios_of([mutant], transport)
    return Engine(mutant.id, toml, mutant.engine, scenarios, mutant=mutant)


def scenarios_of(of: Sequence[Mutant], transport: str = "log") -> tuple[str, ...]:
    """Return the scenarios that decide what the mutants name."""
    named = {requirement for mutant in of for requirement in mutant.breaks}
    return tuple(tests_of(named, transport))


def covering(of: Sequence[Mutant], seed: int = 0) -> list[Mutant]:
    """Return few mutants, by id, that name every requirement which all of them name.

    Those that name most are taken first, the quickest of them before others, and among equals
    those that ``seed`` turns to.
    """
    left = {requirement for mutant in of for requirement in mutant.breaks}
    taken: list[Mutant] = []
    by_id = sorted(of, key=lambda m: m.id)
    turned = [by_id[(place + seed) % len(by_id)] for place in range(len(by_id))]
    cost = {m.id: sum(seconds_of(name, m.engine) for name in scenarios_of([m])) for m in of}
    while left:
        best = max(turned, key=lambda m: (len(left.intersection(m.breaks)), -cost[m.id]))
        taken.append(best)
        left.difference_update(best.breaks)
    return sorted(taken, key=lambda m: m.id)


def rounds(engines: Sequence[Engine], folder: Path, seed: int) -> Iterator[list[Task]]:
    """Yield lists of tasks, longest first: all engines, then sound ones with other seeds."""
    number = 0
    while True:
        of_round = [engine for engine in engines if number == 0 or engine.repeats]
        pairs = [
            (engine, scenario)
            for engine in of_round
            for scenario in engine.scenarios
            if number == 0 or not alone(scenario)
        ]
        pairs.sort(key=lambda pair: -seconds_of(pair[1], pair[0].base))
        yield [
            Task(
                engine.id,
                engine.toml,
                scenario,
                seed + number,
                folder / engine.id / str(seed + number),
            )
            for engine, scenario in pairs
        ]
        number += 1
