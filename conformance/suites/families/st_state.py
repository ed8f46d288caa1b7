"""State without faults: the totals of app count."""

from __future__ import annotations

import random
from functools import partial
from typing import Final

import numpy as np

from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.carriers import COUNT, SOME, STATE_FIRST
from tickproof.conformance.suites.evidence import ENDS, LOSS, ORDER_KINDS, STATE, end_keys, values
from tickproof.conformance.suites.judge import Unknown
from tickproof.conformance.suites.promises import forbidden_repeats
from tickproof.conformance.suites.require import require_correct, require_no, require_values
from tickproof.conformance.suites.requirement import Family, Needs
from tickproof.conformance.suites.scenarios import SILENCES_S, Context, carried, scenario
from tickproof.conformance.verdicts import Reason

ST: Final = Family("ST", "State", tier=1)
#: As many as 16 bits can tell.
MANY_KEYS: Final = 1 << 16
#: A silence that an engine's idle time-out may notice.
SHORTEST_SILENCE_S: Final = 1.0


@scenario(*STATE_FIRST)
def count(context: Context, _rng: random.Random) -> Scenario:
    # Paced, so that an engine of micro-batches has to carry its state over some of them.
    return carried(context, context.records(100_000), rate=100_000, keyed={"key_shape": "limits"})


ST.requirement(
    "ST-TOTALS",
    "each total is the sum of the key's first n values",
    """Every output (key, n, total) is a true point of that key's prefix sums in log order.
    If it fails, a value was applied twice, left out, or given to another key: the finding shows n,
    the sum expected and the one that came.""",
    clauses="""app-count-output app-count-input app-nothing-else app-fetched-first kafka-count
    kafka-key kafka-placement kafka-json""",
    needs=Needs(app=("count",)),
    judges={count: partial(require_values, kinds=STATE)},
)


ST.requirement(
    "ST-LAST-POINT",
    "the last point of every key is delivered",
    """For each key of the input, the point with its full number of values is in the output before
    drain is answered.
    If it fails, the last batch of a partition was still in a buffer when drain was answered.""",
    clauses="app-count-some app-count-every ctl-drain",
    needs=Needs(app=("count",)),
    judges={count: partial(require_values, kinds=LOSS)},
)


def _every_point(history: History) -> None:
    require_no(history, values(history), (*LOSS, *forbidden_repeats(history)))


ST.requirement(
    "ST-EVERY-POINT",
    "with emit every, each record gives one point",
    """With emit "every", each (key, n) from 1 to the key's count appears.
    If it fails, records of one batch with the same key were folded into one output: that is emit
    "some".""",
    clauses="app-count-every ctl-deploy-params",
    needs=Needs(app=("count",), emit=("every",)),
    judges={count: _every_point},
)


ST.requirement(
    "ST-KEY-ORDER",
    "the points of a key arrive in order",
    """In arrival order the n of a key never goes back, and rises by one with emit "every".
    If it fails, two threads or two connections append for the same key, and one overtook the
    other.""",
    clauses="app-count-order log-reply-order log-pipelining kafka-output-partition",
    needs=Needs(app=("count",)),
    judges={count: partial(require_values, kinds=ORDER_KINDS)},
)


@scenario(*COUNT)
def count_edges(context: Context, _rng: random.Random) -> Scenario:
    return carried(
        context, context.records(30_000), keyed={"keys": 200, "edge_keys": True, "wrap": True}
    )


def _any_key(history: History) -> None:
    require_correct(history)
    seen = end_keys(history)
    if not seen.issuperset(ENDS):
        others = values(history).facts["keys"] - len(seen)
        raise Unknown(Reason.NOT_SEEN, "keys at both ends of 64 bits", f"{others} other keys")


ST.requirement(
    "ST-ALL-KEYS",
    "any 64-bit key is a key",
    """Keys such as 0, 2^63 and 2^64-1 are counted like all others, and never mixed up.
    If it fails, keys went through a float or a signed number, were hashed without comparing, or one
    value stands for "empty".""",
    clauses="app-count-any-key",
    needs=Needs(app=("count",)),
    judges={count_edges: _any_key},
)


@scenario(*COUNT)
def count_many_keys(context: Context, _rng: random.Random) -> Scenario:
    # 138,000 keys (82,000 where they are dear), all in one partition; many come again, some of
    # them within a batch.
    keyed = {"keys": 250_000, "hot_share": 0.0, "tick": 1_024}
    records = context.records(100_000 if context.dear else 200_000)
    return carried(context, records, recipe={"partitions": 1}, keyed=keyed)


def _many_keys(history: History) -> None:
    require_correct(history)
    keys = values(history).facts["keys"]
    if keys <= MANY_KEYS:
        raise Unknown(Reason.NOT_SEEN, f"more than {MANY_KEYS:,} keys", f"{keys:,}")


ST.requirement(
    "ST-MANY-KEYS",
    "more than 65,536 keys in one partition are counted",
    """With more than 65,536 keys in one partition, most of which come again, every total is right.
    If it fails, keys or rows are numbered in 16 bits, or a table of fixed size drops what no longer
    fits.""",
    clauses="app-count-any-key app-count-every",
    needs=Needs(app=("count",)),
    judges={count_many_keys: _many_keys},
)


@scenario(*STATE_FIRST)
def count_silence(context: Context, rng: random.Random) -> Scenario:
    hold = (round(rng.uniform(0.4, 0.6), 3), SILENCES_S[context.profile])
    return carried(context, context.records(20_000), rate=60_000, hold=hold)


def _silence(history: History) -> None:
    require_correct(history)
    gap_s = float(np.max(np.diff(history.publishes["t_ns"].astype(np.int64)), initial=0)) / 1e9
    if gap_s < SHORTEST_SILENCE_S:
        raise Unknown(
            Reason.NOT_SEEN, f"no record for {SHORTEST_SILENCE_S} s", f"for {gap_s:.1f} s"
        )


ST.requirement(
    "ST-SILENCE",
    "a silence of more than a second changes nothing",
    """After more than a second without a record, totals and output numbers go on where they were.
    If it fails, something idle was closed or forgotten: a connection, a writer, or the state of a
    key.""",
    clauses="log-fetch-wait app-count-every out-seq",
    judges={count_silence: _silence},
)


ST.requirement(
    "ST-WRAPS",
    "totals wrap at 64 bits",
    """A total that leaves the signed 64-bit range wraps in two's complement and stays exact after
    it.
    If it fails, sums saturate, raise an error, or lose their low bits in a float.""",
    clauses="app-wrap app-count-output",
    needs=Needs(app=("count",)),
    judges={count_edges: partial(require_values, kinds=STATE)},
)


@scenario(*COUNT)
def count_hot_key(context: Context, _rng: random.Random) -> Scenario:
    # More than 2**16 values of one key.
    return carried(
        context, context.records(80_000), keyed={"keys": 2, "hot_share": 0.99, "hot_keys": 0.5}
    )


ST.requirement(
    "ST-HOT-KEY",
    "one key with nearly all records is counted exactly",
    """A key that takes nearly all records of the input has exact totals, and the rare keys beside
    it do too.
    If it fails, a batch that holds a key many times was applied as if it held it once.""",
    clauses="app-count-output app-count-one-partition",
    needs=Needs(app=("count",)),
    judges={count_hot_key: require_correct},
)


@scenario(SOME)
def count_some(context: Context, _rng: random.Random) -> Scenario:
    # So many partitions that a number of three bits does not tell them apart.
    return carried(
        context,
        context.records(100_000),
        rate=150_000,
        recipe={"partitions": 12},
        keyed={"key_shape": "same-low-32", "units": True, "edges": False},
    )


ST.requirement(
    "ST-SOME",
    "with emit some, true points and the last one",
    """With emit "some", each point is true, none goes back, and the last of each key is there.
    If it fails, a key that was quiet at the end never got its last point out.""",
    clauses="app-count-some app-count-order ctl-deploy-params",
    needs=Needs(app=("count",), emit=("some",)),
    judges={count_some: require_correct},
)


@scenario(*STATE_FIRST)
def long_run(context: Context, _rng: random.Random) -> Scenario:
    return carried(
        context, context.records(1_500_000), rate=300_000, keyed={"keys": 20_000, "tick": 256}
    )


ST.requirement(
    "ST-LONG-RUN",
    "a long run without any fault is exact",
    """A run much longer than the others, without any fault, loses nothing and counts nothing twice.
    If it fails where short runs pass, the defect is rare: look at batch borders, at buffers that
    fill, and at checkpoints that run beside the work.""",
    clauses="app-count-output app-count-every fair-long-run log-fetch-again",
    judges={long_run: require_correct},
)
