"""Back-pressure: a slow reader of the output, a fast or a silent source of the input."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tickproof.conformance import apps
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario, SinkBehaviour
from tickproof.conformance.suites.carriers import ON_TWO, PASSTHROUGH, STATE_FIRST, STATELESS_FIRST
from tickproof.conformance.suites.judge import Fail, Unknown
from tickproof.conformance.suites.require import require_correct, require_exact, require_met
from tickproof.conformance.suites.requirement import Family
from tickproof.conformance.suites.scenarios import (
    Context,
    at_sink,
    at_source,
    carried,
    deaths,
    market,
    scenario,
)
from tickproof.conformance.verdicts import Reason

BP: Final = Family("BP", "Back-pressure", tier=3)
#: How long the sink stands still, by profile: longer than requests are commonly waited for.
STALLS_S: Final = {"quick": 6.5, "full": 35.0}
#: Growth of resident memory that no bounded engine needs while the sink stands still.
UNBOUNDED_BYTES: Final = 96 << 20


@scenario(*STATELESS_FIRST)
def slow_sink(context: Context, _rng: random.Random) -> Scenario:
    stall_s = STALLS_S[context.profile]
    sink = SinkBehaviour(stall_after=2_000, stall_s=stall_s, budget_s=2 * stall_s)
    payloads, workers = 160_000, 2
    if context.transport == "kafka":
        # As JSON they are twice as long. No transaction may end by its timeout meanwhile.
        payloads, workers = 80_000, 1
        sink = replace(sink, stall_s=min(5.0, context.transaction_s / 2 or 5.0))
    if context.carried_by == PASSTHROUGH:
        # 160 MB of input: an engine that reads on while the sink stands still shows it.
        return carried(context, payloads, recipe={"size": 1_000}, workers=workers, sink=sink)
    recipe: dict[str, Any] = {"tick": 256}
    if context.carried_by.app == "market-spread":
        recipe["reject_one_in"] = 2  # so that there is output to hold back
    keyed = {"keys": 100_000}
    return carried(context, 1_400_000, keyed=keyed, recipe=recipe, workers=workers, sink=sink)


def _stalled(history: History) -> list[events.Progress]:
    """Return looks at the engine in the stall, over which memory was bounded; or Unknown, Fail."""
    require_correct(history)
    began, over = history.all(events.Stall), history.all(events.StallEnded)
    if not began or not over:
        raise Unknown(Reason.STALL_TOO_SHORT, "a stall from begin to end", "none")
    inside = [
        row for row in history.all(events.Progress) if began[0].t_ns <= row.t_ns <= over[0].t_ns
    ]
    if len(inside) < 3:
        raise Unknown(
            Reason.STALL_TOO_SHORT, "three looks at the engine in the stall", str(len(inside))
        )
    evidence = _evidence(inside)
    grown, served = evidence["rss_growth"], evidence["fetched_in_stall"]
    # Over Kafka a client fetches 64 MiB of each partition ahead by default.
    if grown > UNBOUNDED_BYTES and not history.claims.over_kafka:
        raise Fail(
            Reason.UNBOUNDED,
            f"memory that grows by less than {UNBOUNDED_BYTES >> 20} MiB in the stall",
            f"{grown >> 20} MiB more, {served:,} records fetched",
            **evidence,
        )
    return inside


def _evidence(inside: Sequence[events.Progress]) -> dict[str, int]:
    """Return the evidence of a stall: records fetched by its end, bytes that memory grew by."""
    grown = max(row.rss for row in inside) - inside[0].rss
    return {"fetched_in_stall": inside[-1].served, "rss_growth": grown}


def _held_back(history: History) -> None:
    inside = _stalled(history)
    if history.claims.over_kafka:
        return
    last, evidence = inside[-1], _evidence(inside)
    if last.served >= history.input_records and not apps.of(history).any_size:
        raise Unknown(
            Reason.STALL_TOO_SHORT,
            "more input than the engine may hold",
            f"all {last.served:,} records fetched, which are small",
            **evidence,
        )
    if last.served >= history.input_records:
        raise Fail(
            Reason.UNBOUNDED,
            "FETCH to stop while nothing can be delivered",
            f"all {last.served:,} records fetched",
            **evidence,
        )
    if last.served != inside[len(inside) // 2].served:
        raise Unknown(Reason.STALL_TOO_SHORT, "FETCH to stop", "it went on to the end of the stall")


@scenario(*ON_TWO)
def market_two_slow_sink(context: Context, _rng: random.Random) -> Scenario:
    """Output is staged, and more of it than one frame may hold."""
    # So long that an engine without bounds reads on to the end on a busy machine, too.
    stall_s = STALLS_S["quick"]
    sink = SinkBehaviour(stall_after=2_000, stall_s=stall_s, budget_s=2 * stall_s)
    # As many in each profile: the frame that may not be is no larger for more of them.
    recipe = {"records": 1_200_000, "tick": 256, "partitions": 1}
    return market(context, recipe["records"], recipe=recipe, workers=1, sink=sink)


def _staged(history: History) -> None:
    """As `_held_back`; of orders, which are small, a bounded engine may hold all."""
    _stalled(history)


BP.requirement(
    "BP-SLOW-SINK",
    "a slow sink loses nothing, and memory stays bounded",
    """With acknowledgements held back, the engine waits, holds a bounded amount of output, and
    delivers all of it in the end. Over Kafka memory is not judged: clients fetch far ahead.
    If it fails, it kept fetching without end, gave up on a slow reply, or dropped what did not
    fit.""",
    tier=2,  # one of its apps is Market Spread, whose rules have requirements of their own there
    clauses="eut-bounded out-append fair-bounded-delay kafka-connections",
    judges={slow_sink: _held_back, market_two_slow_sink: _staged},
)


@scenario(*STATE_FIRST)
def fast_source(context: Context, _rng: random.Random) -> Scenario:
    # In one partition, so that what there is to fetch, and what comes of it, exceeds a frame.
    return carried(
        context,
        700_000,
        recipe={"partitions": 1, "tick": 1_024},
        keyed={"key_shape": "same-low-16"},
    )


BP.requirement(
    "BP-FAST-SOURCE",
    "a source that is faster than the engine loses nothing",
    """With the whole input published at once, the engine reads it at its own speed and processes
    all of it.
    If it fails, a queue overflowed, or a FETCH reply larger than expected was cut.""",
    tier=1,
    clauses="eut-reads-at-offsets eut-bounded log-fetch-max-bytes log-fetch",
    judges={fast_source: require_correct},
)


#: Duration of a fault that has to meet the next batch of an engine, and of one that need not.
_LONG_S: Final = 0.8
_SHORT_S: Final = 0.5


@scenario(*STATE_FIRST)
def count_links_slow(context: Context, rng: random.Random) -> Scenario:
    late_s = round(rng.uniform(0.7, 1.2), 2)
    faults = (
        at_source("delay", rng.uniform(0.08, 0.1), seconds=_LONG_S, lag_s=late_s),
        at_sink("drip", rng.uniform(0.25, 0.27), seconds=_SHORT_S),
        at_source("throttle", rng.uniform(0.42, 0.44), seconds=_SHORT_S, rate=50_000),
        at_sink("delay", rng.uniform(0.59, 0.61), seconds=_LONG_S, lag_s=late_s),
        at_source("silence", rng.uniform(0.76, 0.78), seconds=_SHORT_S),
    )
    return deaths(context, *faults)


def _slow_links(history: History) -> None:
    require_exact(history)
    require_met(history, "delay", "source")
    require_met(history, "drip", "sink")
    require_met(history, "throttle", "source")
    require_met(history, "delay", "sink")


BP.requirement(
    "BP-SLOW-LINKS",
    "late, slow and dripping replies lose and double nothing",
    """Replies of source and sink come late, slowly, or byte by byte for a time: the output is
    complete and right.
    If it fails, the engine gave up on a reply and asked or sent again, or took a part of it for the
    whole.""",
    clauses="conn-slow log-pieces fair-bounded-delay",
    judges={count_links_slow: _slow_links},
)


def _silent_source(history: History) -> None:
    require_exact(history)
    require_met(history, "silence", "source")


BP.requirement(
    "BP-SILENT-SOURCE",
    "a source that is silent for a time has not ended",
    """FETCH and TAIL tell of nothing new for a time, though more is there: everything is still
    processed.
    If it fails, an empty reply was taken for END, or the engine stopped asking.""",
    clauses="conn-silent log-fetch-wait log-end-flag",
    judges={count_links_slow: _silent_source},
)
