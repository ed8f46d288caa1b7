"""Mutants that nobody has to kill: what each changes, the protocol cannot show.

``fixtures/equivalents/ENGINE.toml`` lists them, each with the reason. A mutant that is in the
list and killed, or an entry that fits no mutant, is an error: the list has to be true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from tickproof.conformance import strict_toml
from tickproof.conformance.selftest.mutation.results import Fate, Results
from tickproof.conformance.selftest.mutation.source import Mutation
from tickproof.conformance.strict_toml import Table

FOLDER: Final = "equivalents"

_Text = Annotated[str, Field(min_length=1)]


class Equivalent(Table):
    """A line, and what may become of it without a difference that anyone could see.

    becomes: each as cosmic-ray makes it, without the blanks around it; without it, whatever
    becomes of the line, which is meant for one that no run reaches.
    """

    file: _Text
    line: _Text
    becomes: Annotated[list[_Text], Field(min_length=1)] | None = None
    reason: _Text

    def fits(self, mutation: Mutation) -> bool:
        """Say whether the entry is about a mutant."""
        same = (self.file, self.line) == (mutation.file, mutation.old)
        return same and (self.becomes is None or mutation.new in self.becomes)


class Equivalents(Table):
    """The list of one engine. left_out: files that make no mutants, each with the reason."""

    equivalent: list[Equivalent] = []
    left_out: dict[_Text, _Text] = {}

    def reason(self, mutation: Mutation) -> str | None:
        """Return why a mutant is equivalent, None where nothing says so."""
        return next((e.reason for e in self.equivalent if e.fits(mutation)), None)


def load(engine: str, fixtures: Path) -> Equivalents:
    """Return the list of an engine, empty where it has none; raises InvalidFile."""
    path = fixtures / FOLDER / f"{engine}.toml"
    return strict_toml.load(path, Equivalents) if path.is_file() else Equivalents()


def stale(known: Equivalents, mutations: Iterable[Mutation], results: Results) -> Iterator[str]:
    """Yield what is no longer true of a list, in words."""
    of_line: dict[tuple[str, str], list[Mutation]] = {}
    for one in mutations:
        of_line.setdefault((one.file, one.old), []).append(one)
    for entry in known.equivalent:
        of_entry = [one for one in of_line.get((entry.file, entry.line), []) if entry.fits(one)]
        for new in entry.becomes or [""]:
            where = f"{entry.file}: {entry.line!r}" + (f" to {new!r}" if new else "")
            fitting = [one for one in of_entry if new in ("", one.new)]
            if not fitting:
                yield f"{where}: no such mutant"
            # One line may stand in a file twice, and not be equivalent everywhere.
            judged = [results.get(one) for one in fitting]
            if judged and all(result and result.fate is Fate.KILLED for result in judged):
                first = next(filter(None, judged))
                yield f"{where}: killed by {first.requirement}, {first.reason}: {first.said}"
