"""Readings of a host by probe, and the attestation they make together."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any

from tickproof.conformance.errors import TickproofError

#: Levels, each of which holds the ones before it.
LEVELS: tuple[str, ...] = ("P0", "P1", "P2")
#: What a profile names that demands nothing of its host.
NO_LEVEL = "none"
#: Probes whose value changes from one reading to the next on any host: averages and counters.
MOVING = frozenset({"cpu-pressure", "steal"})


class HostError(TickproofError):
    """A request that this host cannot meet; the text names what was asked and what there is."""


class Status(enum.StrEnum):
    """The result of one probe. What could not be read is never OK."""

    OK = "OK"
    NOT_OK = "NOT_OK"
    UNOBSERVABLE = "UNOBSERVABLE"


@dataclass(frozen=True)
class Reading:
    """One probe, read once.

    value: what was read, on one line; where it is unobservable, why.
    wanted: what would be OK. why: one sentence, what it does to latency.
    """

    probe: str
    level: str
    path: str
    value: str
    wanted: str
    status: Status
    why: str


@dataclass(frozen=True)
class Attestation:
    """All readings of a host taken at one time, up to the level asked for.

    level: P0, P1 or P2; or none, which demands nothing and shows everything.
    """

    level: str
    readings: tuple[Reading, ...]
    kit_cores: tuple[int, ...] = ()
    engine_cores: tuple[int, ...] = ()

    def problems(self, level: str | None = None) -> list[Reading]:
        """Return the readings up to ``level`` (None: the one asked for) that are not OK.

        Raises HostError when ``level`` is above the one that was read: what was not read is
        no evidence.
        """
        wanted = self._held(self.level if level is None else level)
        return [r for r in self.readings if r.level in wanted and r.status is not Status.OK]

    def changed(self, after: Attestation) -> list[str]:
        """Return the probes of the level asked for whose value or status differs in ``after``.

        Probes that change by themselves (MOVING) are left out. A probe that only one of the
        two has counts as changed.
        """
        levels = self._held(self.level)
        before, later = (
            {
                r.probe: (r.value, r.status)
                for r in one.readings
                if r.level in levels and r.probe not in MOVING
            }
            for one in (self, after)
        )
        return [p for p in before | later if before.get(p) != later.get(p)]

    def _held(self, level: str) -> frozenset[str]:
        """Return the levels within ``level``; raises HostError for one that was not read."""
        asked = up_to(level)
        read = up_to(self.level) or LEVELS
        if not set(asked) <= set(read):
            raise HostError(f"host level {level}: read up to {self.level} only")
        return frozenset(asked)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict; `from_json` is its inverse."""
        return {
            "level": self.level,
            "readings": [asdict(r) | {"status": r.status.value} for r in self.readings],
            "kit_cores": list(self.kit_cores),
            "engine_cores": list(self.engine_cores),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Attestation:
        """Rebuild an attestation; raises HostError, naming what is wrong with the data."""
        try:
            readings = [Reading(**r | {"status": Status(r["status"])}) for r in data["readings"]]
            up_to(data["level"])
            cores = {key: tuple(map(int, data[key])) for key in ("kit_cores", "engine_cores")}
            return cls(data["level"], tuple(readings), **cores)
        except (KeyError, TypeError, ValueError, HostError) as error:
            raise HostError(f"host attestation: not one: {error!r}") from error


def up_to(level: str) -> tuple[str, ...]:
    """Return the levels that ``level`` holds, () for none; raises HostError for an unknown one."""
    if level == NO_LEVEL:
        return ()
    if level not in LEVELS:
        raise HostError(f"host level: expected one of {NO_LEVEL}, {', '.join(LEVELS)}; got {level}")
    return LEVELS[: LEVELS.index(level) + 1]
