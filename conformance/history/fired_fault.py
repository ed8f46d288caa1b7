"""A fault that was carried out, and what the run looked like at that moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from tickproof.conformance.fault_steps import FaultStep
from tickproof.conformance.history.event import Event, EventKind, PartitionState


class FiredFault(Event, kind=EventKind.FAULT):
    """A fault that was carried out, with what was known at that moment.

    t_ns: when it began (``at_ns`` in the file); struck_ns: when it was done (``t_ns`` there).
    moment: what it came at, as in the schedule. partitions, outputs (records), total (records of
    the input): at the moment. pids: processes that it met. connections: those that it met.
    connection: the one whose moment it was, 0 where it was no matter of one. file, size and left
    (bytes before and after), how: the file that was damaged; place and bit (0 is the lowest) of the
    byte in it of which one bit was flipped, else -1. cuts: of this life until then, each seen by
    its RELEASE. idle_s: how long nothing had come, at "idle". writing: the file of the state that
    was being written, or had the event of the moment. host: the one that it was done to. Of a loss
    of power: writes, operations on the state since the one before; unsynced, files and changes of
    names that no fsync had covered; and what of them was lost (lost_bytes, lost_names, paths of
    some lost_files). alone: records of output that a broker acknowledged while it was kept from its
    followers, before it died; waiting: requests that change something, and that it had not
    answered; moved: partitions that it led and others lead instead.
    """

    step: FaultStep
    struck_ns: int = 0
    number: int = 0
    moment: str
    text: str
    outputs: int
    total: int = 0
    partitions: tuple[PartitionState, ...]
    pids: tuple[int, ...]
    connections: tuple[int, ...] = ()
    connection: int = 0
    file: str = ""
    size: int = 0
    left: int = 0
    how: str = ""
    place: int = -1
    bit: int = -1
    cuts: int = 0
    idle_s: float = 0.0
    writing: str = ""
    host: str = ""
    writes: int = 0
    unsynced: int = 0
    lost_bytes: int = 0
    lost_names: int = 0
    lost_files: tuple[str, ...] = ()
    alone: int = 0
    waiting: int = 0
    moved: int = 0

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Build the event from its line; raises HistoryError for a field that does not fit."""
        return super().from_row({**row, "t_ns": row.get("at_ns"), "struck_ns": row["t_ns"]})

    def to_row(self) -> dict[str, Any]:
        """Return the fields of the event's line."""
        row = super().to_row()
        return row | {"at_ns": row["t_ns"], "t_ns": row.pop("struck_ns")}

    @property
    def held(self) -> int:
        """Records fetched and not released."""
        return sum(max(0, one.fetched - one.released) for one in self.partitions)

    @property
    def remaining(self) -> int:
        """Records of the input not yet fetched."""
        return sum(one.records - one.fetched for one in self.partitions)

    @property
    def backlog(self) -> int:
        """Records published and not yet released."""
        return sum(one.published - one.released for one in self.partitions)

    @property
    def released(self) -> int:
        """Records released."""
        return sum(one.released for one in self.partitions)

    @property
    def fetched(self) -> int:
        """Records fetched."""
        return sum(one.fetched for one in self.partitions)
