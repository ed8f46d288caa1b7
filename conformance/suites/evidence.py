"""The checkers' findings for a history, computed once and kept with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tickproof.conformance import apps
from tickproof.conformance.apps.app import Leeway
from tickproof.conformance.checkers import delivery, recount
from tickproof.conformance.checkers.causality import AHEAD, FirstFetches
from tickproof.conformance.checkers.findings import Findings
from tickproof.conformance.checkers.timeline import NEVER
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.outputs import OutputLog
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.usage import noise
from tickproof.generators.layouts import COUNT_IN, NUMBER, ORDER

#: Kinds of findings by what they break; see the checkers for each.
STATE = ("unknown-key", "beyond-input", "wrong-total")
VERDICTS = ("malformed", "wrong-verdict", "unknown-quote", "from-the-future", "went-back",
            "must-reject", "invented")  # fmt: skip
LOSS = ("lost", "gap")
TWICE = ("duplicate", "redelivered")
CHANGED = ("conflict", "retracted")
ORDER_KINDS = ("step-back", "skipped-order")
VALUES = (*STATE, *VERDICTS, "stale-quote")
#: The lowest and the highest key of app count.
ENDS = (0, 2**64 - 1)
#: What stays wrong however the run ended: it needs no record that might still have come.
SEEN = frozenset(
    (
        *VALUES,
        *TWICE,
        *CHANGED,
        "step-back",
        "wrong-size",
        AHEAD,
        "NOT_GREETED",
        "BAD_FRAME",
        "TOO_LARGE",
        "UNKNOWN_STREAM",
        "BEYOND_END",
        "RELEASED",
    )
) - {"must-reject"}


def cached(function: Callable[[History], Any]) -> Callable[[History], Any]:
    """Compute once for each History; the history may know another way to compute it."""

    def lookup(history: History) -> Any:
        name = function.__name__
        if name not in history.cache:
            history.cache[name] = history.other_ways.get(name, function)(history)
        return history.cache[name]

    lookup.__doc__ = function.__doc__
    return lookup


@cached
def outputs(history: History) -> OutputLog:
    """Return the output log."""
    return apps.of(history).output(history)


@cached
def outputs_once(history: History) -> OutputLog:
    """Return the output log as if no record had been counted again, where that is claimed.

    Points of app count that count records again which were fetched again after a fault are put
    back to those that count them once, if state is claimed at least once.
    """
    log, since_ns = outputs(history), disturbed_ns(history)
    if since_ns is None or not may_count_again(history):
        return log
    return apps.of(history).counted_once(history, log, since_ns)


@cached
def values(history: History) -> Findings:
    """Judge the values of the app's output against its input."""
    return check(history)


def check(history: History) -> Findings:
    """Judge the values of the output in this process."""
    leeway = Leeway(
        replay_allowed_after(history),
        outputs_once(history),
        lambda: [*history.pauses(), *noise.withheld(history)],
        first_fetches(history),
    )
    return apps.of(history).check(history, outputs(history), leeway)


@cached
def first_fetches(history: History) -> tuple[FirstFetches, ...]:
    """Return when the records of each input stream were fetched first.

    Of app count, an output after a fault says how many records it counts only if the state is
    exact; others are not compared. The proxy before Kafka may see no answer to a request that
    another one overtook: there a FETCH of later records stands for earlier ones.
    """
    app, disturbed = apps.of(history), disturbed_ns(history)
    exact = not app.numbered or history.claims.state == "exactly-once" or disturbed is None
    records: dict[int, list[int]] = {}
    for part in history.partitions:
        records.setdefault(part.stream, []).append(part.records)
    return tuple(
        FirstFetches.of(
            history.fetches,
            counts,
            stream,
            until_ns=NEVER if exact or disturbed is None else disturbed,
            in_order=not app.stateless and len(records) == 1,
            skips=not history.claims.over_kafka,
        )
        for stream, counts in sorted(records.items())
    )


@cached
def due(history: History) -> int:
    """Return how many outputs the input asks for at least, as far as that is easily told."""
    return apps.of(history).due(history)


@cached
def sequences(history: History) -> Findings:
    """Judge the numbers of the writers: redelivery, conflicts, gaps."""
    return delivery.check_sequences(outputs(history))


@cached
def whole(history: History) -> Findings:
    """Values and sequences together."""
    return Findings().merge(values(history)).merge(sequences(history))


def may_count_again(history: History) -> bool:
    """Tell whether records that were fetched again may count again in a total."""
    weak = history.claims.state == "at-least-once"
    return apps.of(history).numbered and weak and disturbed_ns(history) is not None


@cached
def disturbed_ns(history: History) -> int | None:
    """Return from when on an engine may do as it claims; None: all has to come once.

    That is the first fault but for replies that are late or slow, which cost no engine anything.
    Over Kafka a group rebalances unasked, too, which shows by records that are fetched again.
    """
    faults = [one for one in history.faults if not fault_of(one.step).only_slows]
    if history.claims.over_kafka:
        again = recount.rewinds(history.fetches, len(history.partitions), 0)
        return 0 if faults or again else None
    return faults[0].t_ns if faults else None


def replay_allowed_after(history: History) -> int | None:
    """Return the time after which a key may go back to an earlier n, None: never."""
    return None if history.claims.delivery == "exactly-once" else disturbed_ns(history)


def wrapping(records: np.ndarray) -> int:
    """Count the NUMBER records whose double leaves 64 bits."""
    x = records["x"]
    return int(((x >= 2**62) | (x < -(2**62))).sum())


@cached
def wrapping_inputs(history: History) -> int:
    """Count the records of app double whose double leaves 64 bits."""
    return sum(map(wrapping, history.inputs(NUMBER)))


def ends_among(records: np.ndarray) -> set[int]:
    """Return which of the lowest and the highest key COUNT_IN records hold."""
    ends = np.array(ENDS, np.uint64)
    return set(ends[np.isin(ends, records["key"])].tolist())


@cached
def end_keys(history: History) -> set[int]:
    """Return which of the lowest and the highest key the input of app count holds."""
    return set().union(*map(ends_among, history.inputs(COUNT_IN)))


def rejects_by_symbol(history: History) -> dict[str, list[int]]:
    """Return symbol -> [rejected orders seen in the output, orders], by original symbol.

    Counts distinct orders, so that a duplicate delivery does not count twice.
    """
    stream = 0 if history.params["inputs"] == "merged" else 1
    kind = apps.of(history).input_layouts(0)[stream]
    orders: dict[bytes, int] = {}
    for part in history.inputs(kind, stream):
        view = part.view(ORDER) if part.flags.contiguous else np.array(part).view(ORDER)
        symbols, counts = np.unique(view["symbol"][view["kind"] == 1], return_counts=True)
        for symbol, number in zip(symbols.tolist(), counts.tolist(), strict=True):
            orders[symbol] = orders.get(symbol, 0) + number
    rejected: dict[bytes, int] = {}
    log = outputs(history)
    seen = np.array(log.payloads[["order_id", "symbol", "verdict"]])
    seen = np.unique(seen[seen["verdict"] == 1])
    for symbol, number in zip(*np.unique(seen["symbol"], return_counts=True), strict=True):
        rejected[bytes(symbol)] = int(number)
    names = history.record.input.symbols
    return {
        names.get(key := symbol.decode("ascii", "replace").strip(), key): [
            rejected.get(symbol, 0),
            number,
        ]
        for symbol, number in sorted(orders.items())
    }


def refetched(history: History, fault: int) -> tuple[int, int]:
    """Return (records fetched again after a fault, records fetched before it)."""
    again = before = 0
    if len(history.faults) <= fault:
        return 0, 0
    for stream, partition, _, _, fetched, _ in history.faults[fault].partitions:
        rows = of_partition(history.fetches, stream, partition)
        rows = rows[rows["t_ns"] > history.faults[fault].t_ns]
        before += fetched
        if len(rows):
            again += max(0, fetched - int(rows["base"].min()))
    return again, before
