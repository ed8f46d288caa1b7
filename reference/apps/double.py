"""Double: a step without state."""

from typing import NamedTuple

import numpy as np

from tickproof.reference.api import Application, Computation, Pipeline, Sink, Source
from tickproof.reference.api.layouts import layout_of


class Number(NamedTuple):
    """What comes in, and what goes out."""

    x: np.int64


NUMBER = layout_of(Number)


def double(number: Number) -> Number:
    """Twice the number, wrapping in two's complement."""
    return Number(number.x * np.int64(2))


def application() -> Application:
    """Return the app."""
    step = Computation("double", double, NUMBER)
    return Application(
        "double", [Pipeline("all", Source(0, NUMBER)).to(step).into(Sink(0, NUMBER))]
    )
