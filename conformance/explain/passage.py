"""One part of a story: its sentences, and the moment that they point at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Sentences about what went wrong: ``said`` what was seen, ``point`` what it comes down to.

    mark_ns: the moment of it (monotonic ns), None where there is none; mark: what it is.
    """

    said: tuple[str, ...] = ()
    point: tuple[str, ...] = ()
    mark_ns: int | None = None
    mark: str = ""
