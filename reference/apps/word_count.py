"""Word count: a line becomes many words, and a word is a key.

A text has a width, 60 bytes here: no word is longer than its line.
"""

from typing import Annotated, NamedTuple

import numpy as np

from tickproof.reference.api import (
    Application,
    Computation,
    Pipeline,
    Sink,
    Source,
    State,
    StateComputation,
)
from tickproof.reference.api.layouts import fields_of, layout_of

Text = Annotated[bytes, 60]


class Line(NamedTuple):
    """What comes in."""

    text: Text


class Word(NamedTuple):
    """One word of a line."""

    word: Text


class Count(NamedTuple):
    """What goes out: how often a word has come."""

    word: Text
    n: np.uint64


class Seen:
    """The state of a word."""

    n: np.uint64


def split(line: Line) -> list[Word]:
    """Return the words of a line, none or many."""
    return [Word(word) for word in line.text.lower().split()]


def count(word: Word, seen: Seen) -> Count:
    """Count a word; the new count is the output."""
    seen.n += np.uint64(1)
    return Count(word.word, seen.n)


LINE, WORD, COUNT = map(layout_of, (Line, Word, Count))
SEEN = State("seen", fields_of(Seen))


def application() -> Application:
    """Return the app."""
    lines = Pipeline("lines", Source(0, LINE)).to(Computation("split", split, WORD))
    counted = lines.by("word").to(StateComputation("count", SEEN, count, COUNT))
    return Application("word-count", [counted.into(Sink(0, COUNT))])
