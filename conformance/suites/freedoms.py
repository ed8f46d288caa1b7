"""Freedoms of the protocol as data: each clause, its classes, and those that a run reached.

A freedom is the kit's (how it asks) or the input's (what comes). Its classes are ranges with the
edges that defects hide behind, or kinds; they are read from a recorded run, never declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Final, Literal

import numpy as np

from tickproof.conformance.faults.kill import KillBroker
from tickproof.conformance.faults.kinds import faults_of
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.json_lines import object_of
from tickproof.conformance.history.rows import of_partition
from tickproof.generators.layouts import (
    COUNT_IN,
    MESSAGE,
    NUMBER,
    ORDER,
    ORDER_KIND,
    QUOTE,
    QUOTE_KIND,
)

Owner = Literal["kit", "input"]

_MOST: Final = 2**64
#: Members of requests, by docs/protocol.md.
_MEMBERS: Final = frozenset({
    "id", "op", "protocol", "app", "workers", "params", "inputs", "outputs", "state_dir", "resume",
    "data", "hosts",
})  # fmt: skip


def _power(number: int) -> str:
    """Return a number of 0 to 2^64, beside a power of two as such."""
    near = next((less for less in range(3) if (number + less).bit_count() == 1), None)
    if number < 2**7 or near is None:
        return f"{number}"
    return f"2^{(number + near).bit_length() - 1}" + f" - {near}" * (near > 0)


def _name(low: int, end: int) -> str:
    if end == low + 1:
        return _power(low)
    return f"{_power(low)} and up" if end == _MOST else f"{_power(low)} to {_power(end - 1)}"


class Ranges:
    """Whole numbers from 0 to 2^64-1, in ranges that begin at ``edges``, which rise."""

    def __init__(self, *edges: int) -> None:
        self._edges = np.array(edges, np.uint64)
        self.names = tuple(map(_name, edges, [*edges[1:], _MOST]))

    def of(self, values: Iterable[int] | np.ndarray) -> set[str]:
        """Return the names of the ranges that hold one of the values."""
        numbers = values if isinstance(values, np.ndarray) else np.fromiter(values, np.uint64)
        places = np.searchsorted(self._edges, numbers.astype(np.uint64), side="right")
        return {self.names[place - 1] for place in np.unique(places) if place}


_IDS: Final = Ranges(1, 2**8, 2**16, 2**31, 2**32, 2**53)
_SIZES: Final = Ranges(1, 2, 2**8, 2**15, 2**16, 2**20, 2**20 + 1)
_AMOUNTS: Final = Ranges(0, 1, 2, 2**8, 2**16, 2**32, 2**53)
_KEYS: Final = Ranges(0, 1, 2**8, 2**16, 2**32, 2**53, 2**63, _MOST - 1)
_VALUES: Final = Ranges(0, 1, 2, 2**8, 2**16, 2**31, 2**32, 2**53)
_RECORDS: Final = Ranges(0, 1, 2, 2**8, 2**16, 2**20)
_PARTITIONS: Final = Ranges(1, 2, 16, 64, 2**8)
_WORKERS: Final = Ranges(1, 2, 3, 8)
_REPLAYED: Final = Ranges(0, 1, 2**8, 2**14, 2**16)
#: How far an offer is below its bid: from 2^31 and 2^49 on, 32 and 64 bits are too few for ratios.
_CROSSED: Final = Ranges(1, 2**31, 2**49, 2**53 + 1)
_DEATHS: Final = Ranges(0, 1, 2, 3)
#: Where the classes of a silence begin, in seconds, after the first.
_SILENCE: Final = (0.1, 1.0, 10.0)
_SILENCES: Final = ("under 0.1 s", "0.1 to 1 s", "1 to 10 s", "10 s and more")


class Seen:
    """A recorded run as freedoms see it; raises HistoryError as its history does."""

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def lines(self) -> list[str]:
        """The lines that the kit wrote."""
        return [row["line"] for row in self.history.control if row["direction"] == "to"]

    @cached_property
    def requests(self) -> list[dict[str, Any]]:
        """The requests that the kit wrote."""
        return [one for one in map(object_of, self.lines) if "op" in one]

    @property
    def deployed(self) -> list[dict[str, Any]]:
        """The deploy requests."""
        return [one for one in self.requests if one["op"] == "deploy"]

    def payloads(self, app: str, layout: np.dtype) -> list[np.ndarray]:
        """Return the payloads of each partition of a run of ``app``; none of another's."""
        if self.history.app != app:
            return []
        streams = sorted({row.stream for row in self.history.partitions})
        return [part for stream in streams for part in self.history.inputs(layout, stream)]

    @cached_property
    def quotes(self) -> list[np.ndarray]:
        """The quotes of each partition of a market."""
        return self._messages(QUOTE_KIND, QUOTE)

    @cached_property
    def orders(self) -> list[np.ndarray]:
        """The orders of each partition of a market."""
        return self._messages(ORDER_KIND, ORDER)

    def _messages(self, kind: int, layout: np.dtype) -> list[np.ndarray]:
        parts = self.payloads("market-spread", MESSAGE)
        return [part[part["kind"] == kind].view(layout) for part in parts]


@dataclass(frozen=True)
class Freedom:
    """A freedom of a clause. reached: the classes that a run reached, each of ``classes``."""

    clause: str
    what: str
    of: Owner
    classes: tuple[str, ...]
    reached: Callable[[Seen], Iterable[str]]


# -- what the kit is free to do ------------------------------------------------------------


def _unknown_members(seen: Seen) -> Iterable[str]:
    return ("some" if request.keys() - _MEMBERS else "none" for request in seen.requests)


def _order_of_ids(seen: Seen) -> Iterable[str]:
    ids = [one["id"] for one in seen.requests]
    return ("rising" if after > before else "falling" for before, after in pairwise(ids))


def _form_of_requests(seen: Seen) -> Iterable[str]:
    for line in seen.lines:
        yield "spaces" if ": " in line else "no spaces"
        yield "id first" if next(iter(object_of(line)), "") == "id" else "op or another first"


def _state_dirs(seen: Seen) -> Iterable[str]:
    for one in seen.deployed:
        name = one["state_dir"].rpartition("/")[2]
        yield "spaces" if " " in name else "other signs" if "+" in name else "plain"


def _tokens(seen: Seen) -> Iterable[str]:
    tokens = (one.get("data", {}).get("token", "") for one in seen.deployed)
    return ("0" if token.startswith("00") else "another" for token in tokens if token)


def _log_after_a_restart(seen: Seen) -> Iterable[str]:
    for before, after in pairwise(one.get("data", {}) for one in seen.deployed):
        for member in before.keys() & {"token", "port"}:
            same = before[member] == after.get(member)
            yield f"{'the same' if same else 'another'} {member}"


def _workers_for_partitions(seen: Seen) -> Iterable[str]:
    partitions = len(seen.history.partitions)
    for one in seen.deployed:
        more = int(one["workers"]) - partitions
        yield "more workers" if more > 0 else "as many" if more == 0 else "fewer workers"


def _without_a_record(seen: Seen) -> Iterable[str]:
    empty = sum(not row.records for row in seen.history.partitions)
    yield "none" if not empty else "all" if empty == len(seen.history.partitions) else "some"


def _silences(seen: Seen) -> Iterable[str]:
    rows = seen.history.publishes
    for row in seen.history.partitions:
        times = of_partition(rows, row.stream, row.partition)["t_ns"]
        if len(times) > 1:
            longest = np.searchsorted(_SILENCE, np.diff(times).max() / 1e9, side="right")
            yield _SILENCES[int(longest)]


def _deaths(seen: Seen) -> Iterable[str]:
    faults = faults_of(one.step for one in seen.history.faults)
    return _DEATHS.of([sum(one.kills or isinstance(one, KillBroker) for one in faults)])


# -- what may come in ----------------------------------------------------------------------


def _held(parts: Iterable[np.ndarray], name: str, ranges: Ranges) -> Iterable[str]:
    return chain.from_iterable(ranges.of(part[name]) for part in parts)


def _signed(parts: Iterable[np.ndarray], name: str) -> Iterable[str]:
    for part in parts:
        yield from _VALUES.of(np.abs(part[name]).view(np.uint64))
        yield from ["negative"] * bool((part[name] < 0).any())


def _records_of_a_key(seen: Seen) -> Iterable[str]:
    for part in seen.payloads("count", COUNT_IN):
        yield from _RECORDS.of(np.unique(part["key"], return_counts=True)[1])


def _sides(seen: Seen) -> Iterable[str]:
    for part in seen.quotes:
        bid, offer = part["bid"], part["offer"]
        both = (bid > 0) & (offer > 0)
        yield from _there({
            "ordinary": both & (bid < offer), "locked": both & (bid == offer),
            "crossed": both & (bid > offer), "no bid": (bid == 0) & (offer > 0),
            "no offer": (bid > 0) & (offer == 0), "neither": (bid == 0) & (offer == 0),
        })  # fmt: skip


def _crossed_by(seen: Seen) -> Iterable[str]:
    for part in seen.quotes:
        yield from _CROSSED.of((part["bid"] - part["offer"])[part["bid"] > part["offer"]])


def _times(seen: Seen) -> Iterable[str]:
    for times in (part["event_ns"] for part in (*seen.quotes, *seen.orders)):
        yield from _there({
            "0": times == 0, "2^64 - 1": times == _MOST - 1, "equal": times[1:] == times[:-1],
            "rising": times[1:] > times[:-1], "falling": times[1:] < times[:-1],
        })  # fmt: skip


def _id_orders(seen: Seen) -> Iterable[str]:
    for ids in (part["order_id"] for part in seen.orders):
        yield from _there({"rising": ids[1:] > ids[:-1], "falling": ids[1:] < ids[:-1]})


def _there(kinds: dict[str, np.ndarray]) -> Iterable[str]:
    return (kind for kind, where in kinds.items() if where.any())


def _symbols(seen: Seen) -> Iterable[str]:
    for symbol in {one for part in seen.quotes for one in np.unique(part["symbol"])}:
        text = bytes(symbol).decode("ascii", "replace").rstrip()
        yield {1: "1 character", 8: "8 characters"}.get(len(text), "2 to 7 characters")
        yield "letters" if text.isalpha() else "digits" if text.isdigit() else "others too"
        yield from ["none, to many tools"] * (text in ("NA", "NAN", "NULL", "NONE"))


def _order_sides(seen: Seen) -> Iterable[str]:
    for part in seen.orders:
        yield from ("sell" if side == 2 else "buy" for side in np.unique(part["side"]))


FREEDOMS: Final = (
    Freedom("ctl-request", "ids of requests", "kit", _IDS.names[:-1],
            lambda seen: _IDS.of(one["id"] for one in seen.requests)),
    Freedom("ctl-request", "order of ids", "kit", ("rising", "falling"), _order_of_ids),
    Freedom("ctl-lines", "form of requests", "kit",
            ("spaces", "no spaces", "id first", "op or another first"), _form_of_requests),
    Freedom("ctl-ignore-members", "members that no engine knows", "kit", ("none", "some"),
            _unknown_members),
    Freedom("ctl-deploy-data", "the log after a restart", "kit",
            ("the same port", "another port", "another token"), _log_after_a_restart),
    Freedom("ctl-deploy-state-dir", "the name of state_dir", "kit",
            ("plain", "spaces", "other signs"), _state_dirs),
    Freedom("log-token", "the first byte of the token", "kit", ("0", "another"), _tokens),
    Freedom("ctl-deploy-workers", "workers", "kit", _WORKERS.names,
            lambda seen: _WORKERS.of(one["workers"] for one in seen.deployed)),
    Freedom("ctl-deploy-workers", "workers for the partitions", "kit",
            ("fewer workers", "as many", "more workers"), _workers_for_partitions),
    Freedom("ctl-deploy-streams", "partitions", "kit", _PARTITIONS.names,
            lambda seen: _PARTITIONS.of([len(seen.history.partitions)])),
    Freedom("log-offsets", "records of a partition", "kit", _RECORDS.names,
            lambda seen: _RECORDS.of(row.records for row in seen.history.partitions)),
    Freedom("log-end-flag", "partitions without a record", "kit", ("none", "some", "all"),
            _without_a_record),
    Freedom("log-fetch-wait", "the longest silence of a partition", "kit", _SILENCES, _silences),
    Freedom("out-have", "outputs that HAVE says are recorded", "kit", _REPLAYED.names,
            lambda seen: _REPLAYED.of(one.next_seq for one in seen.history.all(events.Have))),
    Freedom("toml-claim-survives", "deaths in one run", "kit", _DEATHS.names, _deaths),
    Freedom("app-passthrough-sizes", "bytes of a payload", "input", _SIZES.names[:-1],
            lambda seen: _SIZES.of(row.record_size for row in seen.history.partitions
                                   if seen.history.app == "passthrough")),
    Freedom("app-double", "x", "input", (*_VALUES.names, "negative"),
            lambda seen: _signed(seen.payloads("double", NUMBER), "x")),
    Freedom("app-count-any-key", "keys", "input", _KEYS.names,
            lambda seen: _held(seen.payloads("count", COUNT_IN), "key", _KEYS)),
    Freedom("app-count-input", "values", "input", (*_VALUES.names, "negative"),
            lambda seen: _signed(seen.payloads("count", COUNT_IN), "value")),
    Freedom("app-count-order", "records of a key", "input", _RECORDS.names[1:-1],
            _records_of_a_key),
    Freedom("ms-accept", "sides of a quote", "input",
            ("ordinary", "locked", "crossed", "no bid", "no offer", "neither"), _sides),
    Freedom("ms-accept", "how far a quote is crossed", "input", _CROSSED.names[:-1], _crossed_by),
    Freedom("ms-quote", "offer_size", "input", _AMOUNTS.names[:5],
            lambda seen: _held(seen.quotes, "offer_size", _AMOUNTS)),
    Freedom("ms-order", "order_id", "input", _AMOUNTS.names,
            lambda seen: _held(seen.orders, "order_id", _AMOUNTS)),
    Freedom("ms-order", "order of order_id", "input", ("rising", "falling"), _id_orders),
    Freedom("ms-order", "qty", "input", _AMOUNTS.names[:5],
            lambda seen: _held(seen.orders, "qty", _AMOUNTS)),
    Freedom("ms-order", "side", "input", ("buy", "sell"), _order_sides),
    Freedom("ms-prices", "price of an order", "input", _AMOUNTS.names,
            lambda seen: _held(seen.orders, "price", _AMOUNTS)),
    Freedom("ms-event-time", "event_ns", "input",
            ("0", "equal", "rising", "falling", "2^64 - 1"), _times),
    Freedom("ms-symbol", "symbols", "input",
            ("1 character", "2 to 7 characters", "8 characters", "letters", "digits",
             "others too", "none, to many tools"), _symbols),
)  # fmt: skip
