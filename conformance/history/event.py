"""Events of a run: their kinds, and how one is read from a line of events.jsonl.

A line holds ``t_ns``, ``event`` (an EventKind) and the fields of its class.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple, Self, dataclass_transform

from pydantic import TypeAdapter

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.fault_steps import FaultStep


class EventKind(enum.StrEnum):
    """The kinds of events, as they stand in the file."""

    ABORT = "abort"
    ACCEPT_FAILED = "accept-failed"
    ACTIVITY = "activity"
    ANSWERED_WHILE_DRAINING = "answered-while-draining"
    CHECKPOINTED = "checkpointed"
    COMMIT = "commit"
    CONNECTED = "connected"
    CONNECTION_LOST = "connection-lost"
    DAMAGE_OVER = "damage-over"
    DEPLOYED = "deployed"
    DRAIN_ASKED = "drain-asked"
    DRAINED = "drained"
    END_PUBLISHED = "end-published"
    ENDED_UNASKED = "ended-unasked"
    EXITED = "exited"
    FAULT = "fault"
    FAULT_MISSED = "fault-missed"
    FILL_OVER = "fill-over"
    FRAME_LOST = "frame-lost"
    HAVE = "have"
    HAVE_AFTER_FENCE = "have-after-fence"
    KAFKA_NAMES = "kafka-names"
    KAFKA_OUTPUT = "kafka-output"
    KAFKA_STATE_READS = "kafka-state-reads"
    KAFKA_TRANSACTIONS = "kafka-transactions"
    LINK = "link"
    LINK_MISSED = "link-missed"
    LOOP_FAILED = "loop-failed"
    NETWORK = "network"
    NOT_GREETED = "not-greeted"
    NOT_RESTARTED = "not-restarted"
    ODD_OUTPUT = "odd-output"
    OUTPUT_AFTER_FENCE = "output-after-fence"
    PARKED = "parked"
    PARTITION_ENDED = "partition-ended"
    PLACED = "placed"
    PROBE_ACCEPTED = "probe-accepted"
    PROBE_REFUSED = "probe-refused"
    PROGRESS = "progress"
    RECONNECTED = "reconnected"
    RECORDING_STOPPED = "recording-stopped"
    RECOVERED = "recovered"
    REFUSED = "refused"
    RESUMED = "resumed"
    SCALED = "scaled"
    SCALE_REFUSED = "scale-refused"
    STAGE = "stage"
    STALL = "stall"
    STALL_ENDED = "stall-ended"
    STARTED = "started"
    TAKEN_OVER = "taken-over"
    TOPOLOGY = "topology"
    TRUNCATED = "truncated"


class PartitionState(NamedTuple):
    """Progress of one partition, in records; in a file a list in this order."""

    stream: int
    partition: int
    records: int
    published: int
    fetched: int
    released: int


class NamedProcess(NamedTuple):
    """A process of the engine, as its topology names it."""

    pid: int
    role: str
    name: str


class PlacedProcess(NamedTuple):
    """A process that topology named; in a file a list in this order.

    host: that it runs on, "" for none. where: [hosts] of engine.toml says "first", "others" or
    "any" of its role.
    """

    pid: int
    role: str
    host: str
    where: str


class ActiveProcess(NamedTuple):
    """A process of the engine at one look; in a file a list in this order.

    parent: its pid. cpu_us: processor time of the process itself since its start. name: as the
    system has it, escaped and cut.
    """

    pid: int
    parent: int
    cpu_us: int
    name: str


class UsedConnection(NamedTuple):
    """A data connection at one look; in a file a list in this order.

    pids: the processes that hold its other end; empty where that could not be seen. fetched,
    sent: records since it was opened, staged ones included.
    """

    connection: int
    pids: tuple[int, ...]
    fetched: int
    sent: int


class StateRead(NamedTuple):
    """What a connection learnt of one partition of a topic that is the engine's own.

    told: its end, as the broker named it last, -1 if it was not asked. sent: behind the last
    record that came, 0 if none did. written: records that the broker had taken there by
    ``until_ns``, the time of the last of both; ``since_ns`` is that of the first. In a file a list
    in this order.
    """

    topic: str
    partition: int
    connection: int
    since_ns: int
    until_ns: int
    told: int
    sent: int
    written: int


#: How fields with these names are written; all others are written as they are.
_WRITTEN: Final[Mapping[str, Any]] = {
    "processes": lambda processes: [process._asdict() for process in processes],
    "step": lambda step: step.to_json() if step else None,
}

#: How fields with these names are read; of all others a list becomes a tuple.
_READ: Final[Mapping[str, Any]] = {
    "partitions": lambda rows: tuple(PartitionState(*row) for row in rows),
    "processes": lambda rows: tuple(
        NamedProcess(row["pid"], row["role"], row.get("name", "")) for row in rows
    ),
    "step": lambda step: FaultStep.from_json(step) if step else None,
    "running": lambda rows: tuple(ActiveProcess(*row) for row in rows),
    "placed": lambda rows: tuple(PlacedProcess(*row) for row in rows),
    "reads": lambda rows: tuple(StateRead(*row) for row in rows),
    "used": lambda rows: tuple(
        UsedConnection(number, tuple(pids), fetched, sent) for number, pids, fetched, sent in rows
    ),
}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@cache
def _types_of(kind: type[Event]) -> TypeAdapter[Event]:
    """Return what checks the types of an event's fields."""
    return TypeAdapter(kind)


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in a run."""

    KIND: ClassVar[EventKind]

    t_ns: int

    def __init_subclass__(cls, kind: EventKind) -> None:
        dataclass(frozen=True, kw_only=True)(cls)
        cls.KIND = kind

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Build the event from its line; raises HistoryError for a field that does not fit."""
        found = {f.name: row[f.name] for f in dataclasses.fields(cls) if f.name in row}
        try:
            made = cls(**{name: _READ.get(name, _plain)(value) for name, value in found.items()})
            _types_of(cls).validate_python(found)  # type: ignore[arg-type]
            return made
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise HistoryError(f"events.jsonl: {cls.KIND}: {error}") from error

    def to_row(self) -> dict[str, Any]:
        """Return the fields of the event's line; `from_row` is the inverse."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {"event": self.KIND} | {
            name: _WRITTEN[name](value) if name in _WRITTEN else value
            for name, value in fields.items()
        }
