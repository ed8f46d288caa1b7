"""The events of a run: one class for each kind of line in events.jsonl.

Each is a frozen dataclass, and EVENTS has them all. Times end in _ns and are monotonic
nanoseconds of the kit; ``t_ns`` is when the event was noted. ``connection`` numbers the data
connections of a run from 1.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tickproof.conformance.fault_steps import FaultStep
from tickproof.conformance.history.event import (
    ActiveProcess,
    Event,
    EventKind,
    NamedProcess,
    PartitionState,
    UsedConnection,
)
from tickproof.conformance.history.fired_fault import FiredFault as FiredFault
from tickproof.conformance.history.kafka_events import KafkaNames as KafkaNames
from tickproof.conformance.history.kafka_events import KafkaOutput as KafkaOutput
from tickproof.conformance.history.kafka_events import KafkaStateReads as KafkaStateReads
from tickproof.conformance.history.kafka_events import KafkaTransactions as KafkaTransactions
from tickproof.conformance.history.network_events import Network as Network
from tickproof.conformance.history.network_events import Placed as Placed


class Started(Event, kind=EventKind.STARTED):
    """argv was started. resume: after a death, to go on from the last cut."""

    pid: int
    resume: bool = False


class TakenOver(Event, kind=EventKind.TAKEN_OVER):
    """An engine that served earlier runs serves this one. served: how many runs."""

    pid: int
    served: int


class Deployed(Event, kind=EventKind.DEPLOYED):
    """The engine answered deploy."""

    pid: int
    resume: bool = False


class Topology(Event, kind=EventKind.TOPOLOGY):
    """The engine named its processes."""

    processes: tuple[NamedProcess, ...]


class Activity(Event, kind=EventKind.ACTIVITY):
    """The engine's processes at one look.

    running: its living processes. used: the data connections that were open, or have ended
    since the look before. Of very many only some are listed, those that belong together.
    """

    running: tuple[ActiveProcess, ...]
    used: tuple[UsedConnection, ...]


class ProbeRefused(Event, kind=EventKind.PROBE_REFUSED):
    """The engine refused an op that does not exist. definite: as in its answer."""

    definite: bool | None


class ProbeAccepted(Event, kind=EventKind.PROBE_ACCEPTED):
    """The engine answered ok to an op that does not exist."""


class Checkpointed(Event, kind=EventKind.CHECKPOINTED):
    """The engine answered checkpoint. partitions: how far each was when it was asked for."""

    partitions: tuple[PartitionState, ...]


class DrainAsked(Event, kind=EventKind.DRAIN_ASKED):
    """The kit asked for drain. published: records published until then."""

    published: int


class AnsweredWhileDraining(Event, kind=EventKind.ANSWERED_WHILE_DRAINING):
    """topology was answered after drain had been asked for."""


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


class Parked(Event, kind=EventKind.PARKED):
    """The engine answered undeploy and is kept for a later run."""

    pid: int


class Exited(Event, kind=EventKind.EXITED):
    """argv's process ended. returncode: its status, or minus the number of the signal."""

    returncode: int | None = None


class EndedUnasked(Event, kind=EventKind.ENDED_UNASKED):
    """argv's process ended though nobody asked it to; returncode as in "exited"."""

    returncode: int | None = None


class NotRestarted(Event, kind=EventKind.NOT_RESTARTED):
    """A start after a death failed. code: why, as in a verdict; status: exit status, if any."""

    code: str
    status: int | None = None


class Progress(Event, kind=EventKind.PROGRESS):
    """The position of the run, several times a second.

    served: records fetched. outputs: records of output. published, released: records.
    rss: resident memory of the engine in bytes.
    """

    served: int
    outputs: int = 0
    published: int = 0
    released: int = 0
    rss: int = 0


class FaultMissed(Event, kind=EventKind.FAULT_MISSED):
    """A step of the schedule was not carried out."""

    step: FaultStep | None = None
    why: str


class Recovered(Event, kind=EventKind.RECOVERED):
    """The first records were fetched after a fault."""

    connection: int = 0


class Resumed(Event, kind=EventKind.RESUMED):
    """A paused process continues.

    from_ns: start of the pause. alive: it was still there. ran: it, or a process below it, went
    on before.
    """

    pid: int = 0
    from_ns: int
    alive: bool = True
    ran: bool = False


class Scaled(Event, kind=EventKind.SCALED):
    """The engine answered scale. workers: how many it has now. asked_ns: when it was asked.

    arrived: over Kafka, whether all of them asked for input; False: they were waited for in vain.
    """

    workers: int
    asked_ns: int
    arrived: bool = True


class ScaleRefused(Event, kind=EventKind.SCALE_REFUSED):
    """The engine refused to scale, which it may while another scale is under way."""

    workers: int
    asked_ns: int


class FillOver(Event, kind=EventKind.FILL_OVER):
    """The full disk has room again.

    from_ns, to_ns: how long it was full. empty: files without content that were found in the
    folder of the state. words: what standard error said of it. lifted: processes that could
    write again before; grown: files of the state that grew all the same.
    """

    from_ns: int
    to_ns: int
    empty: tuple[str, ...]
    words: str
    lifted: tuple[int, ...] = ()
    grown: tuple[str, ...] = ()


class DamageOver(Event, kind=EventKind.DAMAGE_OVER):
    """The end of damage to a file. read: whether it was read since; None: cannot be seen."""

    file: str
    read: bool | None


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


class LinkMissed(Event, kind=EventKind.LINK_MISSED):
    """A fault of connections was armed and met nothing."""

    step: FaultStep | None = None
    why: str


class Reconnected(Event, kind=EventKind.RECONNECTED):
    """A side ("source" or "sink") has a connection again after a reset."""

    target: str
    connection: int = 0


class Connected(Event, kind=EventKind.CONNECTED):
    """A data connection was greeted."""

    connection: int


class NotGreeted(Event, kind=EventKind.NOT_GREETED):
    """A connection did not begin with HELLO and the token; over Kafka, as Kafka or TLS does."""

    connection: int = 0
    text: str


class ConnectionLost(Event, kind=EventKind.CONNECTION_LOST):
    """A connection broke; text: the error of the system."""

    connection: int = 0
    text: str


class Truncated(Event, kind=EventKind.TRUNCATED):
    """A connection ended inside a frame."""

    connection: int = 0
    text: str


class Refused(Event, kind=EventKind.REFUSED):
    """A request got an error. code: of protocol.md; op: of the request, "?" if unreadable."""

    connection: int = 0
    code: int
    text: str
    op: str


class FrameLost(Event, kind=EventKind.FRAME_LOST):
    """A frame was read and, as its schedule asks for, treated as never sent."""

    connection: int = 0


class Have(Event, kind=EventKind.HAVE):
    """A connection asked what the log has of a writer, and is the only one to write for it now.

    next_seq: the answer. fenced: the connection that may no longer do so, if there was one.
    """

    stream: int = 0
    writer: int
    next_seq: int
    connection: int
    fenced: int | None = None


class HaveAfterFence(Event, kind=EventKind.HAVE_AFTER_FENCE):
    """A connection that had got error 7 for a writer sent HAVE for it again."""

    connection: int = 0
    stream: int = 0
    writer: int = 0


class OutputAfterFence(Event, kind=EventKind.OUTPUT_AFTER_FENCE):
    """A connection that had got error 7 for a writer still sent output of it."""

    connection: int = 0
    stream: int = 0
    writer: int = 0


class Stage(Event, kind=EventKind.STAGE):
    """Output was staged in a transaction. count: records in the frame."""

    connection: int
    txn: int
    writer: int
    count: int


class Commit(Event, kind=EventKind.COMMIT):
    """A transaction was to be committed. outcome: of the reply, as in protocol.md."""

    connection: int
    txn: int
    outcome: int


class Abort(Event, kind=EventKind.ABORT):
    """A transaction was aborted."""

    connection: int
    txn: int


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


class Stall(Event, kind=EventKind.STALL):
    """The sink stops answering, for ``seconds``, after ``outputs`` records."""

    seconds: float = 0.0
    outputs: int = 0


class StallEnded(Event, kind=EventKind.STALL_ENDED):
    """The sink answers again. outputs: records until then."""

    outputs: int = 0


class EndPublished(Event, kind=EventKind.END_PUBLISHED):
    """The whole input, ``records`` in all, was published."""

    records: int = 0


class PartitionEnded(Event, kind=EventKind.PARTITION_ENDED):
    """END of a partition, after ``records``, was announced before that of all others."""

    stream: int
    partition: int
    records: int


class AcceptFailed(Event, kind=EventKind.ACCEPT_FAILED):
    """The log server could not accept a connection; text: the error of the system."""

    text: str


class LoopFailed(Event, kind=EventKind.LOOP_FAILED):
    """The log server's loop ended by an error of the kit; text: its trace."""

    text: str


class RecordingStopped(Event, kind=EventKind.RECORDING_STOPPED):
    """The kit cannot record any more; text: why."""

    connection: int = 0
    text: str


#: The class of each kind of event.
EVENTS: Final = MappingProxyType({one.KIND: one for one in Event.__subclasses__()})
