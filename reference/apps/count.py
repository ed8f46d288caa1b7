"""Count: a running total by key. 5, 10, 15 give 30, whatever dies."""

from typing import NamedTuple

import numpy as np

from tickproof.reference.api import Application, Pipeline, Sink, Source, State, StateComputation
from tickproof.reference.api.layouts import fields_of, layout_of


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


def application(emit: str) -> Application:
    """Return the app; emit: "every" point, or "some": of a micro-batch the last of each key."""
    step = StateComputation("count", TOTAL, count, POINT, only_last=emit == "some")
    pipeline = Pipeline("all", Source(0, VALUE)).by("key").to(step).into(Sink(0, POINT))
    return Application("count", [pipeline])
