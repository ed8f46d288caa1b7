"""Votes by letter: the running sum of each letter's votes."""

from typing import Annotated, NamedTuple

import numpy as np

from tickproof.reference.api import Application, Pipeline, Sink, Source, State, StateComputation
from tickproof.reference.api.layouts import fields_of, layout_of

Letter = Annotated[bytes, 1]


class Votes(NamedTuple):
    """What comes in."""

    letter: Letter
    votes: np.uint32


class Tally(NamedTuple):
    """What goes out: all votes of a letter so far."""

    letter: Letter
    votes: np.uint64


class Sum:
    """The state of a letter."""

    votes: np.uint64


def add(given: Votes, total: Sum) -> Tally:
    """Add votes to those of their letter; the new sum is the output."""
    total.votes += np.uint64(given.votes)
    return Tally(given.letter, total.votes)


VOTES, TALLY, SUM = layout_of(Votes), layout_of(Tally), State("sum", fields_of(Sum))


def application() -> Application:
    """Return the app."""
    step: StateComputation[Votes, Sum] = StateComputation("add", SUM, add, TALLY)
    pipeline = Pipeline("votes", Source(0, VOTES)).by("letter").to(step).into(Sink(0, TALLY))
    return Application("votes", [pipeline])
