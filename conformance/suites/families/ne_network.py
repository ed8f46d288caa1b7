"""Several hosts: a network that fails, and hosts that die.

A fault names no host: it is that of a worker that works. Input comes all the while, so that each
fault meets some. Several faults may meet one run; each judge asks for the proof that its own
fault met something.
"""

from __future__ import annotations

import random
from typing import Any, Final

from tickproof.conformance.fault_steps import FIRST, Do, FaultStep, Way, fault_step
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.carriers import ON_TWO, STATE_FIRST
from tickproof.conformance.suites.judge import Fail, Unknown
from tickproof.conformance.suites.require import require_completed, require_correct
from tickproof.conformance.suites.requirement import Family, Needs
from tickproof.conformance.suites.scenarios import Context, carried, market, scenario
from tickproof.conformance.verdicts import Reason

NE: Final = Family("NE", "Network", tier=4)
_WHERE: Final = {"first": "the first host", "others": "another host than the first"}
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
    return fault_step(do, "host", "fetched", fraction=fraction, **rest)


def _parted(rng: random.Random, low: float, way: Way = "both") -> FaultStep:
    return _at(rng, low, "partition", peer="log", way=way, seconds=_PARTED_S)


def _played(context: Context, *faults: FaultStep) -> Scenario:
    return carried(context, context.records(60_000), rate=20_000, faults=faults)


def _met(history: History, do: Do) -> None:
    planned = history.record.scenario.faults
    wanted = sum(fault_of(step).lane == (do, "host") for step in planned)
    over = history.all(events.Network, do=do)
    if len(over) < wanted:
        if history.ended.engine_failed:
            require_completed(history)
        missed = [
            one.why
            for one in history.missed_faults
            if one.step and fault_of(one.step).lane == (do, "host")
        ]
        why = "; ".join(missed) or "its moment did not come"
        raise Unknown(Reason.KILL_MISSED, f"{wanted} times {do} of a host", f"{len(over)} ({why})")
    if any(not one.packets for one in over):
        raise Unknown(
            Reason.NOTHING_IN_FLIGHT, f"packets that met {do} of a host", "there were none"
        )


@scenario(*STATE_FIRST)
def count_net_partition(context: Context, rng: random.Random) -> Scenario:
    return _played(context, _parted(rng, 0.4))


def _placed(history: History) -> None:
    require_completed(history)
    placed = history.all(events.Placed)
    if not placed:
        raise Unknown(Reason.NOT_SEEN, "a look at the hosts of the processes", "none")
    for event in placed:
        for one in event.placed:
            if not one.host:
                continue  # it ended before it was looked at
            if one.where != "any" and (one.where == "first") != (one.host == FIRST):
                raise Fail(
                    Reason.WRONG_HOST,
                    f"a {one.role} on {_WHERE[one.where]}",
                    f"pid {one.pid} on {one.host}",
                )


NE.requirement(
    "NE-PLACES",
    "processes run on the hosts that engine.toml names",
    """Every coordinator and every worker that topology names runs on a host that [hosts] names for
    its role, in every answer of a run in which a host is cut off.
    If it fails, the engine is not spread over hosts as it says, and faults of the network show
    little about it.""",
    clauses="toml-hosts ctl-deploy-hosts",
    needs=Needs(state=("exactly-once",), survives=("connection",), hosts=True),
    judges={count_net_partition: _placed},
)


def _correct(history: History, *faults: Do) -> None:
    """Expect that all is right, and that each kind of fault was carried out and met packets."""
    require_correct(history)
    for do in faults:
        _met(history, do)


def _correct_after_partition(history: History) -> None:
    _correct(history, "partition")


NE.requirement(
    "NE-PARTITION",
    "output is exact after a host was cut off from the log",
    """For two seconds no packet passes between the log and a host that works: once the network is
    whole again, every value is right, in order, and none is missing.
    If it fails, a connection that stands still is taken for the end of its input, what was sent
    into it is taken for delivered, or the engine gives up.""",
    clauses="toml-claim-survives eut-one-cut",
    needs=Needs(state=("exactly-once",), survives=("connection",), hosts=True),
    judges={count_net_partition: _correct_after_partition},
)


@scenario(*STATE_FIRST)
def count_net_one_way(context: Context, rng: random.Random) -> Scenario:
    return _played(context, _parted(rng, 0.2, "in"), _parted(rng, 0.6, "out"))


NE.requirement(
    "NE-ONE-WAY",
    "output is exact after packets of one direction were lost",
    """For two seconds nothing that the log sends arrives at a host, and later nothing that a host
    sends arrives at the log: every value is right, in order, and none is missing.
    If it fails, a request without an answer is taken for one that was not carried out, or the other
    way round.""",
    clauses="toml-claim-survives eut-one-cut",
    needs=Needs(state=("exactly-once",), survives=("connection",), hosts=True),
    judges={count_net_one_way: _correct_after_partition},
)


@scenario(*STATE_FIRST)
def count_net_cut_off(context: Context, rng: random.Random) -> Scenario:
    return _played(context, _at(rng, 0.3, "partition", seconds=_CUT_OFF_S))


NE.requirement(
    "NE-CUT-OFF",
    "output is exact after a host was cut off and lived on",
    """For some seconds no packet passes between a host that works and any other, while its
    processes live on; then the network is whole again. The engine may wait, or replace the workers
    that it cannot reach.
    If it fails, two workers own the same key, or nobody does.""",
    clauses="toml-claim-survives eut-one-cut out-have-owner",
    needs=Needs(state=("exactly-once",), survives=("worker", "connection"), hosts=True),
    judges={count_net_cut_off: _correct_after_partition},
)


def _mute(rng: random.Random) -> FaultStep:
    # It hears the others, and works on: what it says comes late.
    return _at(rng, 0.3, "partition", way="out", seconds=_CUT_OFF_S)


@scenario(*STATE_FIRST)
def count_net_mute(context: Context, rng: random.Random) -> Scenario:
    return _played(context, _mute(rng))


@scenario(*ON_TWO)
def market_two_net_mute(context: Context, rng: random.Random) -> Scenario:
    return market(context, 60_000, rate=20_000, faults=(_mute(rng),))


NE.requirement(
    "NE-MUTE",
    "late output of a host that was mute does no harm",
    """For some seconds no packet that a host sends arrives anywhere, while it hears the others and
    works on; then all that it has to say comes at once. Where the engine has replaced its workers
    by then, this output is late: it comes to nothing, and every value is right, in order, and none
    is missing.
    If it fails, a worker that was taken for dead still sends, writes or releases for a key that
    another one owns.""",
    clauses="toml-claim-survives eut-one-cut out-have-owner",
    needs=Needs(state=("exactly-once",), survives=("worker", "connection"), hosts=True),
    judges={
        count_net_mute: _correct_after_partition,
        market_two_net_mute: _correct_after_partition,
    },
)


@scenario(*STATE_FIRST)
def count_host_death(context: Context, rng: random.Random) -> Scenario:
    return _played(context, _at(rng, 0.3, "kill", down_s=_DOWN_S))


def _correct_after_host_death(history: History) -> None:
    _correct(history, "kill")


NE.requirement(
    "NE-HOST-DEATH",
    "output is exact after a whole host died",
    """A host that works dies with all that runs on it, and no connection to it is closed; some
    seconds later it is back, with nothing on it. Every value is right, in order, and none is
    missing.
    If it fails, the engine waits for a process that will never answer.""",
    clauses="toml-claim-survives eut-one-cut eut-resumes",
    needs=Needs(state=("exactly-once",), survives=("worker", "connection"), hosts=True),
    judges={count_host_death: _correct_after_host_death},
)


@scenario(*STATE_FIRST)
def count_net_slow(context: Context, rng: random.Random) -> Scenario:
    lost = _at(rng, 0.1, "loss", share=_LOST, seconds=_SLOW_S)
    slow = _at(rng, 0.6, "throttle", rate=_BYTES_A_SECOND, seconds=_SLOW_S)
    return _played(context, lost, slow)


def _correct_over_slow_network(history: History) -> None:
    _correct(history, "loss", "throttle")


NE.requirement(
    "NE-SLOW",
    "output is exact over a slow network that loses packets",
    """One packet in twenty between a host that works and all others is lost, drawn at random; later
    what it sends and is sent passes at 100,000 bytes a second. TCP sends again and waits, so every
    value is right, in order, and none is missing.
    If it fails, the engine takes slow for dead, or drops what it cannot send in time.""",
    clauses="eut-one-cut",
    needs=Needs(state=("exactly-once",), hosts=True),
    judges={count_net_slow: _correct_over_slow_network},
)


@scenario(*STATE_FIRST)
def count_net_packets(context: Context, rng: random.Random) -> Scenario:
    faults = [
        _at(rng, 0.1 + 0.2 * number, do, seconds=1.0, **more)
        for number, (do, more) in enumerate(_OF_PACKETS)
    ]
    return _played(context, *faults)


def _correct_over_odd_packets(history: History) -> None:
    _correct(history, "delay", "duplicate", "garble", "reorder")


NE.requirement(
    "NE-PACKETS",
    "output is exact over late, doubled and damaged packets",
    """What passes between a host that works and all others arrives a tenth of a second late for a
    second; later one packet in five is overtaken by others, one in five arrives twice, and one in
    twenty has a bit flipped. TCP puts all of that right, so every value is right, in order, and
    none is missing.
    If it fails, the engine takes late for dead, or talks to its own processes by messages that may
    come twice or out of order, and does not expect it.""",
    clauses="eut-one-cut",
    needs=Needs(state=("exactly-once",), hosts=True),
    judges={count_net_packets: _correct_over_odd_packets},
)
