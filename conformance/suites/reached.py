"""Count the runs that reached each freedom, and the faults beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history.folder import opened
from tickproof.conformance.suites.freedoms import FREEDOMS, Freedom, Seen


@dataclass
class Reached:
    """Runs that reached a class. with_faults: those in which a fault fired; faults: which."""

    runs: int = 0
    with_faults: int = 0
    faults: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Coverage:
    """Classes that ``runs`` runs reached, by freedom in FREEDOMS. unread: why each not."""

    runs: int
    by_freedom: tuple[dict[str, Reached], ...]
    unread: tuple[str, ...]

    def rows(self) -> Iterator[tuple[Freedom, str, Reached]]:
        """Yield every class of every freedom, in their order."""
        for freedom, classes in zip(FREEDOMS, self.by_freedom, strict=True):
            for name, reached in classes.items():
                yield freedom, name, reached

    @property
    def constant(self) -> list[Freedom]:
        """Freedoms of the kit of which all runs reached the same class, or none any."""
        pairs = zip(FREEDOMS, self.by_freedom, strict=True)
        return [
            freedom
            for freedom, classes in pairs
            if freedom.of == "kit" and sum(one.runs > 0 for one in classes.values()) < 2
        ]


def reached(folders: Iterable[Path]) -> Coverage:
    """Read runs from their folders; one that cannot be read is left out, and named."""
    found = tuple({name: Reached() for name in freedom.classes} for freedom in FREEDOMS)
    runs, unread = 0, list[str]()
    for folder in folders:
        try:
            classes, faults = _of_run(folder)
        except (HistoryError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            unread.append(f"{folder}: {error}")
            continue
        runs += 1
        for here, names in zip(found, classes, strict=True):
            for name in names & here.keys():
                here[name].runs += 1
                here[name].with_faults += bool(faults)
                here[name].faults |= faults
    return Coverage(runs, found, tuple(unread))


def _of_run(folder: Path) -> tuple[list[set[str]], set[str]]:
    """Return the classes that a run reached, by freedom, and the faults that fired."""
    with opened(folder) as history:
        seen = Seen(history)
        classes = [set(freedom.reached(seen)) for freedom in FREEDOMS]
        return classes, {f"{one.step.do} {one.step.target}" for one in history.faults}
