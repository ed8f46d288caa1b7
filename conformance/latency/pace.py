"""The pace of an open loop, as data: every record has an intended time fixed in advance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pace:
    """How a scenario with a pace is published and placed.

    tick_us: all records of a tick are due at its time, whatever the engine does.
    warm_up_s: records that are due before are not measured. kit_cores, engine_cores: where
    kit and engine run; both empty: anywhere. priority: SCHED_FIFO of the thread that publishes,
    1 to 99; 0: as it is.
    """

    tick_us: int
    warm_up_s: float
    kit_cores: tuple[int, ...] = ()
    engine_cores: tuple[int, ...] = ()
    priority: int = 0

    def __post_init__(self) -> None:
        if bool(self.kit_cores) != bool(self.engine_cores):
            raise ValueError("cores: expected some for the kit and for the engine, or for neither")

    @property
    def tick_ns(self) -> int:
        """Length of a tick in nanoseconds."""
        return self.tick_us * 1_000

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Pace | None:
        """Rebuild a pace from its dict; None stays None."""
        if data is None:
            return None
        cores = {name: tuple(data[name]) for name in ("kit_cores", "engine_cores")}
        return cls(**{**data, **cores})
