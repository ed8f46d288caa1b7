"""Double: a Computation, once on a record and once on arrays."""

from typing import NamedTuple

import numpy as np

from tickproof.reference.api import Application, Computation, Pipeline, Sink, Source
from tickproof.reference.api.arrays import on_arrays
from tickproof.reference.api.layouts import layout_of


class Number(NamedTuple):
    """What comes in, and what goes out."""

    x: np.int64


NUMBER = layout_of(Number)


def double(number: Number) -> Number:
    """Twice the number, wrapping in two's complement."""
    return Number(number.x * np.int64(2))


@on_arrays
def double_all(records: np.ndarray) -> np.ndarray:
    """`double` for many numbers."""
    out = records.copy()
    out["x"] *= 2
    return out


def application(function=double_all) -> Application:
    """Return the app, made with either form of the computation."""
    step = Computation("double", function, NUMBER)
    return Application(
        "double", [Pipeline("all", Source(0, NUMBER)).to(step).into(Sink(0, NUMBER))]
    )
