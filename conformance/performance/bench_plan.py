"""The plan of a bench: its parameters, and the scenario of each of its runs."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any, Final

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.fault_steps import Target, fault_step
from tickproof.conformance.scenario import App, Pace, Scenario

APPS: Final[tuple[App, ...]] = ("passthrough", "double", "count", "market-spread")
TARGETS: Final[tuple[Target, ...]] = ("worker", "engine")
#: Percentiles that a bench shows.
LATENCY: Final = ("p50", "p99", "max")
#: At least; more where there are more workers.
PARTITIONS: Final = 4
#: A passthrough record is as long as one of Market Spread.
PAYLOAD_BYTES: Final = 52
KEYS: Final = 10_000
#: The most bytes that a record of a steady run takes on disk, its output included. A market
#: rejects few orders.
_DISK_BYTES: Final[dict[App, int]] = {
    "passthrough": 2 * (PAYLOAD_BYTES + 4),
    "double": 2 * 12,
    "count": 20 + 28,
    "market-spread": PAYLOAD_BYTES + 4 + 1,
}
#: The part of the input of a paced run that is not measured: the engine warms up meanwhile.
_WARM_UP: Final = 0.2
_TICKS_A_SECOND: Final = 100
#: The kill is drawn from this part of a paced input: not always in the same phase of a batch.
KILL_PART: Final = (0.4, 0.6)


#: The params of steady runs and the apps of paced runs; the first that is offered is taken.
_STEADY: Final[dict[App, tuple[dict[str, str], ...]]] = {
    "count": ({"emit": "some"}, {"emit": "every"}),
    "market-spread": ({"inputs": "merged", "emit": "rejects"},),
}
_PACED: Final[tuple[tuple[App, dict[str, str]], ...]] = (
    ("count", {"emit": "every"}), ("passthrough", {}), ("count", {"emit": "some"}),
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """The parameters of a bench, the same for every engine.

    messages: records of each steady run. workers: with how many each app is measured. keys:
    with how many count is. The first of each is that of paced runs. symbols: of the market.
    pace (records a second) and seconds: the input of a paced run. latency: whether one without
    a kill is made. kills: the targets of the others.
    """

    apps: tuple[App, ...] = ("passthrough", "count", "market-spread")
    messages: int = 20_000_000
    workers: tuple[int, ...] = (2,)
    keys: tuple[int, ...] = (KEYS,)
    symbols: int = 350
    rounds: int = 1
    latency: bool = True
    kills: tuple[Target, ...] = TARGETS
    pace: int = 20_000
    seconds: float = 30.0
    seed: int = 1

    @property
    def steady(self) -> tuple[tuple[App, int, int], ...]:
        """The steady runs of a round: (app, workers, keys); keys is 0 for what has none."""
        return tuple(
            (app, workers, keys)
            for app in self.apps
            for keys in (self.keys if app == "count" else (0,))
            for workers in self.workers
        )

    @property
    def input_partitions(self) -> int:
        """Partitions of every input: one for each worker, at least."""
        return max(PARTITIONS, *self.workers)

    @property
    def disk_bytes(self) -> int:
        """Bytes that the largest run takes on disk, without the state of its engine."""
        paced = self.pace * self.seconds if self.latency or self.kills else 0
        steady = self.messages * max(_DISK_BYTES[app] for app in self.apps)
        return max(steady, int(paced * max(_DISK_BYTES.values())))


def steady_scenario(
    spec: EngineSpec, app: App, plan: Plan, number: int, workers: int, keys: int = 0
) -> Scenario | None:
    """Return round ``number`` of an app, all its input published at once; None if not offered."""
    choices = _STEADY.get(app, ({},))
    params = next((params for params in choices if spec.offers(app, params)), None)
    if params is None:
        return None
    recipe = recipe_of(app, plan, plan.messages, plan.seed + number, keys)
    return Scenario(f"bench-{app}", app, params, recipe, workers=workers)


def latency_scenario(spec: EngineSpec, plan: Plan, number: int) -> Scenario | None:
    """Return a run published by a timetable; None where no app shows what came out when."""
    paced = _paced(spec, "latency", plan, number)
    if paced is None:
        return None
    tick = max(1, plan.pace // _TICKS_A_SECOND)
    pace = Pace(round(1e6 * tick / plan.pace), _WARM_UP * plan.seconds)
    return replace(paced, recipe=paced.recipe | {"tick": tick}, pace=pace)


def kill_scenario(spec: EngineSpec, target: Target, plan: Plan, number: int) -> Scenario | None:
    """Return a paced run with one kill; None where no app shows what came out when."""
    paced = _paced(spec, f"kill-{target}", plan, number)
    if paced is None:
        return None
    part = random.Random(f"{plan.seed}:{target}:{number}").uniform(*KILL_PART)
    kill = fault_step("kill", target, "fetched", fraction=round(part, 4), cut=True)
    return replace(paced, recipe=paced.recipe | {"tick": 64}, faults=(kill,))


def _paced(spec: EngineSpec, what: str, plan: Plan, number: int) -> Scenario | None:
    """Return a run at the pace of the plan.

    App count with every point if the engine offers that, else passthrough: output flows
    all the time, and each output shows its partition.
    """
    for app, params in _PACED:
        if spec.offers(app, params):
            recipe = recipe_of(app, plan, int(plan.pace * plan.seconds), plan.seed + number)
            return Scenario(
                f"bench-{what}", app, params, recipe, plan.workers[0], rate=float(plan.pace)
            )
    return None


def recipe_of(app: App, plan: Plan, records: int, seed: int, keys: int = 0) -> dict[str, Any]:
    """Return the input recipe of an app. keys: 0 for the first of the plan."""
    kinds: dict[str, dict[str, Any]] = {
        "passthrough": {"kind": "payloads", "size": PAYLOAD_BYTES},
        "double": {"kind": "numbers"},
        "count": {"kind": "keyed", "keys": keys or plan.keys[0]},
        "market-spread": {
            "kind": "market",
            "inputs": "merged",
            "symbols": plan.symbols,
            "reject_one_in": 70_000,
        },
    }
    return kinds[app] | {"records": records, "partitions": plan.input_partitions, "seed": seed}
