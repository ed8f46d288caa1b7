"""Count: a running total by key. 5, 10, 15 give 30, whatever dies."""

from typing import NamedTuple

import numpy as np

from tickproof.reference.api import Application, Pipeline, Sink, Source, State, StateComputation
from tickproof.reference.api.arrays import grouped, on_arrays
from tickproof.reference.api.layouts import fields_of, layout_of, new


class Value(NamedTuple):
    """What comes in."""

    key: np.uint64
    value: np.int64


class Point(NamedTuple):
    """What goes out: how many values of a key there were, and their sum."""

    key: np.uint64
    n: np.uint64
    total: np.int64


class Total:
    """The state of a key."""

    n: np.uint64
    total: np.int64


VALUE, POINT, TOTAL = layout_of(Value), layout_of(Point), State("total", fields_of(Total))


def count(record: Value, state: Total) -> Point:
    """Add one value; the new point is the output."""
    state.n += np.uint64(1)
    state.total += record.value
    return Point(record.key, state.n, state.total)


@on_arrays
def count_every(records: np.ndarray, rows: np.ndarray, states: np.ndarray) -> np.ndarray:
    """`count` for many values of many keys, a point for each."""
    points, order, _ = _points(records, rows, states)
    out = np.empty_like(points)
    out[order] = points
    return out


@on_arrays
def count_some(records: np.ndarray, rows: np.ndarray, states: np.ndarray) -> np.ndarray:
    """`count`, but only the last point of each key in the batch."""
    points, _, last = _points(records, rows, states)
    return points[last]


def _points(records, rows, states):
    """Return the points sorted by key, their places in the input, and which are a key's last."""
    order, first, last = grouped(rows)
    rows, values = rows[order], records["value"][order]
    group = np.cumsum(first) - 1
    start = np.flatnonzero(first)[group]
    # Sums of integers wrap as two's complement asks, and so do their differences.
    sums = np.cumsum(values)
    points = new(len(records), POINT)
    points["key"] = records["key"][order]
    points["n"] = states["n"][rows] + (np.arange(len(rows)) - start + 1).astype(np.uint64)
    points["total"] = states["total"][rows] + sums - (sums - values)[start]
    for name in ("n", "total"):
        states[name][rows[last]] = points[name][last]
    return points, order, last


def application(emit: str, function=None) -> Application:
    """Return the app; emit: "every" point or "some"."""
    function = function or (count_every if emit == "every" else count_some)
    step = StateComputation("count", TOTAL, function, POINT)
    pipeline = Pipeline("all", Source(0, VALUE)).by("key").to(step).into(Sink(0, POINT))
    return Application("count", [pipeline])
