"""The request of a session: one object, from the command line to each process that tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter

from tickproof.conformance.engines.isolation import Level
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.requirement import Requirement
from tickproof.generators.reading import MissingSide, Reading, Ties


@dataclass(frozen=True)
class Request:
    """The request of a session, the same for every engine.

    out: gets reports and runs. tiers, only: empty for all of the profile. workers: runs at the
    same time, 0 for as many as suit machine and engine. port: of the log server, None for any.
    quotes, orders: a recorded market, both or none; strict, missing_side, ties: how it is read,
    as in Reading. secret: hexadecimal; generated input depends on it, so that no engine can
    compute it from the seed. schedules: files to judge instead of the
    suites. require: ids that have to be judged, else the exit status says so. feed: file that
    gets live events. again: scenarios to play once more, of those selected; empty for all.
    points: of the fault space, by the names of their scenarios, to play in place of
    all else; empty for those that the profile draws.
    isolation: of engines; None: the best that the machine gives to each. kafka: host:port of a
    cluster to judge on, None for a broker of the kit. hosts: of a network of our own that engines
    run on, 0 for none. engine: as the command line named it, "" for its path. confirm: replays of
    each failure, to say how often it comes again. hidden: what the session writes beside runs,
    which no engine in a sandbox sees.
    """

    out: Path = Path("tickproof-out")
    seed: int = 1
    secret: str = ""
    profile: str = "quick"
    tiers: tuple[int, ...] = ()
    only: tuple[str, ...] = ()
    workers: int = 1
    port: int | None = None
    quotes: Path | None = None
    orders: Path | None = None
    strict: bool = False
    missing_side: MissingSide | None = None
    ties: Ties = "quote-first"
    schedules: tuple[Path, ...] = ()
    require: tuple[str, ...] = ()
    feed: Path | None = None
    again: tuple[str, ...] = ()
    points: dict[str, dict[str, str]] = field(default_factory=dict)
    isolation: Level | None = None
    kafka: str | None = None
    hosts: int = 0
    engine: str = ""
    confirm: int = 0
    hidden: tuple[Path, ...] = ()

    @property
    def selected(self) -> dict[str, Requirement]:
        """The requirements that are asked for by tier, id and profile."""
        return registry.chosen(registry.load(), self.tiers, self.only, self.profile, self.hosts > 0)

    @property
    def reading(self) -> Reading:
        """The options for reading the recorded market."""
        return Reading(self.strict, self.missing_side, self.ties)

    def to_json(self) -> str:
        """Return the request as text that `from_json` reads."""
        return TypeAdapter(Request).dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote. Raises pydantic.ValidationError for anything else."""
        return TypeAdapter(cls).validate_json(text)
