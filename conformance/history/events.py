"""The events of a run: one class for each kind of line in events.jsonl.

A line holds ``t_ns``, ``event`` (an EventKind) and the fields of its class. Times end in _ns
and are monotonic nanoseconds of the kit; ``t_ns`` is when the event was noted. ``connection``
numbers the data connections of a run from 1. Numbers of records count from 0.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Self

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.scenario import FaultStep


class EventKind(enum.StrEnum):
    """The kinds of events, as they stand in the file."""

    ABORT = "abort"
    ACCEPT_FAILED = "accept-failed"
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
    LINK = "link"
    LINK_MISSED = "link-missed"
    LOOP_FAILED = "loop-failed"
    NOT_GREETED = "not-greeted"
    NOT_RESTARTED = "not-restarted"
    ODD_OUTPUT = "odd-output"
    OUTPUT_AFTER_FENCE = "output-after-fence"
    PARKED = "parked"
    PROBE_ACCEPTED = "probe-accepted"
    PROBE_REFUSED = "probe-refused"
    PROGRESS = "progress"
    RECONNECTED = "reconnected"
    RECORDING_STOPPED = "recording-stopped"
    RECOVERED = "recovered"
    REFUSED = "refused"
    RESUMED = "resumed"
    STAGE = "stage"
    STALL = "stall"
    STALL_ENDED = "stall-ended"
    STARTED = "started"
    TAKEN_OVER = "taken-over"
    TOPOLOGY = "topology"
    TRUNCATED = "truncated"


class PartitionState(NamedTuple):
    """How far one partition has come, in records; in a file a list in this order."""

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


#: The class of each kind of event.
EVENTS: Final[dict[EventKind, type[Event]]] = {}

#: How fields with these names are read; all others are taken as they are.
_READ: Final[Mapping[str, Any]] = {
    "partitions": lambda rows: tuple(PartitionState(*row) for row in rows),
    "processes": lambda rows: tuple(
        NamedProcess(row["pid"], row["role"], row.get("name", "")) for row in rows
    ),
    "step": lambda step: FaultStep.from_json(step) if step else None,
    "pids": tuple,
    "connections": tuple,
    "empty": tuple,
}


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in a run."""

    KIND: ClassVar[EventKind]

    t_ns: int

    def __init_subclass__(cls, kind: EventKind) -> None:
        cls.KIND = kind
        EVENTS[kind] = cls

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Build the event from its line; raises HistoryError for a field that does not fit."""
        found = {f.name: row[f.name] for f in dataclasses.fields(cls) if f.name in row}
        try:
            return cls(**{n: _READ[n](v) if n in _READ else v for n, v in found.items()})
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise HistoryError(f"events.jsonl: {cls.KIND}: {error}") from error


# -- the engine's processes and its answers ----------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Started(Event, kind=EventKind.STARTED):
    """argv was started. resume: after a death, to go on from the last cut."""

    pid: int
    resume: bool = False


@dataclass(frozen=True, kw_only=True)
class TakenOver(Event, kind=EventKind.TAKEN_OVER):
    """An engine that served earlier runs serves this one. served: how many runs."""

    pid: int
    served: int


@dataclass(frozen=True, kw_only=True)
class Deployed(Event, kind=EventKind.DEPLOYED):
    """The engine answered deploy."""

    pid: int
    resume: bool = False


@dataclass(frozen=True, kw_only=True)
class Topology(Event, kind=EventKind.TOPOLOGY):
    """The engine named its processes."""

    processes: tuple[NamedProcess, ...]


@dataclass(frozen=True, kw_only=True)
class ProbeRefused(Event, kind=EventKind.PROBE_REFUSED):
    """The engine refused an op that does not exist. definite: as in its answer."""

    definite: bool | None


@dataclass(frozen=True, kw_only=True)
class ProbeAccepted(Event, kind=EventKind.PROBE_ACCEPTED):
    """The engine answered ok to an op that does not exist."""


@dataclass(frozen=True, kw_only=True)
class Checkpointed(Event, kind=EventKind.CHECKPOINTED):
    """The engine answered checkpoint. partitions: how far each was when it was asked for."""

    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True, kw_only=True)
class DrainAsked(Event, kind=EventKind.DRAIN_ASKED):
    """The kit asked for drain. published: records published until then."""

    published: int


@dataclass(frozen=True, kw_only=True)
class AnsweredWhileDraining(Event, kind=EventKind.ANSWERED_WHILE_DRAINING):
    """topology was answered after drain had been asked for."""


@dataclass(frozen=True, kw_only=True)
class Drained(Event, kind=EventKind.DRAINED):
    """The engine answered drain.

    As it stood when the answer arrived: ``open_acknowledgements`` frames of output without a
    reply, ``staged_open`` transactions with records and neither committed nor aborted,
    ``outputs`` records of output, ``ended``: END was published, and the ``partitions``.
    """

    open_acknowledgements: int
    staged_open: int
    outputs: int
    ended: bool
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True, kw_only=True)
class Parked(Event, kind=EventKind.PARKED):
    """The engine answered undeploy and is kept for a later run."""

    pid: int


@dataclass(frozen=True, kw_only=True)
class Exited(Event, kind=EventKind.EXITED):
    """argv's process ended. returncode: its status, or minus the number of the signal."""

    returncode: int | None = None


@dataclass(frozen=True, kw_only=True)
class EndedUnasked(Event, kind=EventKind.ENDED_UNASKED):
    """argv's process ended though nobody asked it to; returncode as in "exited"."""

    returncode: int | None = None


@dataclass(frozen=True, kw_only=True)
class NotRestarted(Event, kind=EventKind.NOT_RESTARTED):
    """A start after a death failed. code: why, as in a verdict; status: exit status, if any."""

    code: str
    status: int | None = None


@dataclass(frozen=True, kw_only=True)
class Progress(Event, kind=EventKind.PROGRESS):
    """How far the run was, several times a second.

    served: records fetched. outputs: records of output. published, released: records.
    rss: resident memory of the engine in bytes.
    """

    served: int
    outputs: int = 0
    published: int = 0
    released: int = 0
    rss: int = 0


# -- faults -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FiredFault(Event, kind=EventKind.FAULT):
    """A fault that was carried out, with what was known at that moment.

    t_ns: when it began (``at_ns`` in the file); struck_ns: when it was done (``t_ns`` there).
    moment: what it came at, as in the schedule. partitions, outputs (records), total (records
    of the input): at the moment. pids: processes that it met. connections: those that it met.
    file, size (bytes), how: the file that was damaged. owed: records fetched whose output had
    not arrived, where each record gives one; else 0.
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
    file: str = ""
    size: int = 0
    how: str = ""
    owed: int = 0

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Build the event from its line; raises HistoryError for a field that does not fit."""
        return super().from_row({**row, "t_ns": row.get("at_ns"), "struck_ns": row["t_ns"]})

    @property
    def in_flight(self) -> int:
        """Records that the engine held: fetched and not released, or owed."""
        held = sum(max(0, one.fetched - one.released) for one in self.partitions)
        return max(held, self.owed)

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


@dataclass(frozen=True, kw_only=True)
class FaultMissed(Event, kind=EventKind.FAULT_MISSED):
    """A step of the schedule was not carried out."""

    step: FaultStep | None = None
    why: str


@dataclass(frozen=True, kw_only=True)
class Recovered(Event, kind=EventKind.RECOVERED):
    """The first records were fetched after a fault."""

    connection: int = 0


@dataclass(frozen=True, kw_only=True)
class Resumed(Event, kind=EventKind.RESUMED):
    """A paused process continues. from_ns: start of the pause. alive: it was still there."""

    pid: int = 0
    from_ns: int
    alive: bool = True


@dataclass(frozen=True, kw_only=True)
class FillOver(Event, kind=EventKind.FILL_OVER):
    """The full disk has room again.

    from_ns, to_ns: how long it was full. empty: files without content that were found in the
    folder of the state. words: what standard error said of it.
    """

    from_ns: int
    to_ns: int
    empty: tuple[str, ...]
    words: str


@dataclass(frozen=True, kw_only=True)
class DamageOver(Event, kind=EventKind.DAMAGE_OVER):
    """What became of a damaged file. read: whether it was read since; None: cannot be seen."""

    file: str
    read: bool | None


@dataclass(frozen=True, kw_only=True)
class Link(Event, kind=EventKind.LINK):
    """A fault of connections was carried out, or is over.

    count: what it met: one cut or late frame, else frames, replies or sends. connections:
    those that it met. from_ns: when a fault that lasts met something first. bytes: sent
    slowly. connection, sent, whole: of a cut, bytes sent of the reply. writer, back, outcome:
    of a late frame, the connection on which its writer came back, and what became of it:
    "taken", "error 7" or "dropped".
    """

    do: str
    target: str
    count: int
    connections: tuple[int, ...] = ()
    from_ns: int | None = None
    bytes: int | None = None
    connection: int | None = None
    sent: int | None = None
    whole: int | None = None
    writer: int | None = None
    back: int | None = None
    outcome: str = ""


@dataclass(frozen=True, kw_only=True)
class LinkMissed(Event, kind=EventKind.LINK_MISSED):
    """A fault of connections was armed and met nothing."""

    step: FaultStep | None = None
    why: str


@dataclass(frozen=True, kw_only=True)
class Reconnected(Event, kind=EventKind.RECONNECTED):
    """A side ("source" or "sink") has a connection again after a reset."""

    target: str
    connection: int = 0


# -- the log server -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Connected(Event, kind=EventKind.CONNECTED):
    """A data connection was greeted."""

    connection: int


@dataclass(frozen=True, kw_only=True)
class NotGreeted(Event, kind=EventKind.NOT_GREETED):
    """A connection did not begin with HELLO and the token."""

    connection: int = 0
    text: str


@dataclass(frozen=True, kw_only=True)
class ConnectionLost(Event, kind=EventKind.CONNECTION_LOST):
    """A connection broke; text: the error of the system."""

    connection: int = 0
    text: str


@dataclass(frozen=True, kw_only=True)
class Truncated(Event, kind=EventKind.TRUNCATED):
    """A connection ended inside a frame."""

    connection: int = 0
    text: str


@dataclass(frozen=True, kw_only=True)
class Refused(Event, kind=EventKind.REFUSED):
    """A request got an error. code: of protocol.md; op: of the request, "?" if unreadable."""

    connection: int = 0
    code: int
    text: str
    op: str


@dataclass(frozen=True, kw_only=True)
class FrameLost(Event, kind=EventKind.FRAME_LOST):
    """A frame was read and, as its schedule asks for, treated as never sent."""

    connection: int = 0


@dataclass(frozen=True, kw_only=True)
class Have(Event, kind=EventKind.HAVE):
    """A connection asked what the log has of a writer, and is the only one to write for it now.

    next_seq: the answer. fenced: the connection that may no longer do so, if there was one.
    """

    stream: int = 0
    writer: int
    next_seq: int
    connection: int
    fenced: int | None = None


@dataclass(frozen=True, kw_only=True)
class HaveAfterFence(Event, kind=EventKind.HAVE_AFTER_FENCE):
    """A connection that had got error 7 for a writer sent HAVE for it again."""

    connection: int = 0
    stream: int = 0
    writer: int = 0


@dataclass(frozen=True, kw_only=True)
class OutputAfterFence(Event, kind=EventKind.OUTPUT_AFTER_FENCE):
    """A connection that had got error 7 for a writer still sent output of it."""

    connection: int = 0
    stream: int = 0
    writer: int = 0


@dataclass(frozen=True, kw_only=True)
class Stage(Event, kind=EventKind.STAGE):
    """Output was staged in a transaction. count: records in the frame."""

    connection: int
    txn: int
    writer: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Commit(Event, kind=EventKind.COMMIT):
    """A transaction was to be committed. outcome: of the reply, as in protocol.md."""

    connection: int
    txn: int
    outcome: int


@dataclass(frozen=True, kw_only=True)
class Abort(Event, kind=EventKind.ABORT):
    """A transaction was aborted."""

    connection: int
    txn: int


@dataclass(frozen=True, kw_only=True)
class OddOutput(Event, kind=EventKind.ODD_OUTPUT):
    """Output records of a size that is not that of the app.

    count: records. record_size: bytes, below 0: several sizes. expected: bytes.
    """

    stream: int = 0
    writer: int
    first_seq: int | None = None
    count: int
    record_size: int
    expected: int


@dataclass(frozen=True, kw_only=True)
class Stall(Event, kind=EventKind.STALL):
    """The sink stops answering, for ``seconds``, after ``outputs`` records."""

    seconds: float = 0.0
    outputs: int = 0


@dataclass(frozen=True, kw_only=True)
class StallEnded(Event, kind=EventKind.STALL_ENDED):
    """The sink answers again. outputs: records until then."""

    outputs: int = 0


@dataclass(frozen=True, kw_only=True)
class EndPublished(Event, kind=EventKind.END_PUBLISHED):
    """The whole input, ``records`` in all, was published."""

    records: int = 0


@dataclass(frozen=True, kw_only=True)
class AcceptFailed(Event, kind=EventKind.ACCEPT_FAILED):
    """The log server could not accept a connection; text: the error of the system."""

    text: str


@dataclass(frozen=True, kw_only=True)
class LoopFailed(Event, kind=EventKind.LOOP_FAILED):
    """The log server's loop ended by an error of the kit; text: its trace."""

    text: str


@dataclass(frozen=True, kw_only=True)
class RecordingStopped(Event, kind=EventKind.RECORDING_STOPPED):
    """The kit cannot record any more; text: why."""

    connection: int = 0
    text: str
