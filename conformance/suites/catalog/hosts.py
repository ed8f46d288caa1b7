"""The scenarios of T4 on several hosts: a network that fails, and hosts that die.

A fault names no host: it is that of a worker that works. Input comes all the while, so that each
fault meets some.
"""

from __future__ import annotations

import random
from typing import Any, Final

from tickproof.conformance.scenario import Do, FaultStep, Scenario, Way
from tickproof.conformance.suites.catalog.builders import Context, carried, market, scenario
from tickproof.conformance.suites.catalog.carriers import ON_TWO, STATE_FIRST

#: Short beside any time to recover: TCP sends again at ever longer intervals, and may need as
#: long again once the network is whole.
_PARTED_S: Final = 2.0
#: Longer than an engine needs to give a worker up.
_CUT_OFF_S: Final = 5.0
_DOWN_S: Final = 3.0
_SLOW_S: Final = 2.0
_LOST: Final = 0.05
_BYTES_A_SECOND: Final = 100_000.0
#: One after the other, each for a second.
_OF_PACKETS: Final[tuple[tuple[Do, dict[str, float]], ...]] = (
    ("delay", {"lag_s": 0.1}),
    ("reorder", {"lag_s": 0.02, "share": 0.2}),
    ("duplicate", {"share": 0.2}),
    ("garble", {"share": 0.05}),
)


def _at(rng: random.Random, low: float, do: Any, **rest: Any) -> FaultStep:
    fraction = round(rng.uniform(low, low + 0.1), 4)
    return FaultStep(do, "host", "fetched", fraction=fraction, **rest)


def _parted(rng: random.Random, low: float, way: Way = "both") -> FaultStep:
    return _at(rng, low, "partition", peer="log", way=way, seconds=_PARTED_S)


def _played(context: Context, *faults: FaultStep) -> Scenario:
    return carried(context, context.records(60_000), rate=20_000, faults=faults)


@scenario("count-net-partition", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _played(context, _parted(rng, 0.4))


@scenario("count-net-one-way", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _played(context, _parted(rng, 0.2, "in"), _parted(rng, 0.6, "out"))


@scenario("count-net-cut-off", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _played(context, _at(rng, 0.3, "partition", seconds=_CUT_OFF_S))


def _mute(rng: random.Random) -> FaultStep:
    # It hears the others, and works on: what it says comes late.
    return _at(rng, 0.3, "partition", way="out", seconds=_CUT_OFF_S)


@scenario("count-net-mute", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _played(context, _mute(rng))


@scenario("market-two-net-mute", ON_TWO)
def _(context: Context, rng: random.Random) -> Scenario:
    return market(context, 60_000, rate=20_000, faults=(_mute(rng),))


@scenario("count-host-death", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    return _played(context, _at(rng, 0.3, "kill", down_s=_DOWN_S))


@scenario("count-net-slow", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    lost = _at(rng, 0.1, "loss", share=_LOST, seconds=_SLOW_S)
    slow = _at(rng, 0.6, "throttle", rate=_BYTES_A_SECOND, seconds=_SLOW_S)
    return _played(context, lost, slow)


@scenario("count-net-packets", STATE_FIRST)
def _(context: Context, rng: random.Random) -> Scenario:
    faults = [
        _at(rng, 0.1 + 0.2 * number, do, seconds=1.0, **more)
        for number, (do, more) in enumerate(_OF_PACKETS)
    ]
    return _played(context, *faults)
