"""The steps of a schedule: when something is done, to whom, and a class of parameters a kind.

conformance/faults has a class for each of these that says what is done. Steps stand below
`history`, which reads them from recorded runs; decision 0058 says why they are apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    dataclass_transform,
    get_args,
    get_type_hints,
)

from pydantic import Field, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from tickproof.conformance.strict_toml import Table, matching, wrong

Do = Literal[
    "kill",
    "pause",
    "cut",
    "late",
    "half-open",
    "delay",
    "throttle",
    "drip",
    "refuse",
    "error",
    "silence",
    "fill",
    "corrupt",
    "wipe",
    "power",
    "rescale",
    "scale",
    "partition",
    "loss",
    "reorder",
    "duplicate",
    "garble",
]
#: Requests of Kafka that may be answered with an error, and the errors.
Request = Literal[
    "", "Produce", "OffsetCommit", "TxnOffsetCommit", "AddOffsetsToTxn", "EndTxn", "Heartbeat"
]
Error = Literal[
    "",
    "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR",
    "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID",
    "REBALANCE_IN_PROGRESS",
    "INVALID_PRODUCER_EPOCH",
    "CONCURRENT_TRANSACTIONS",
    "PRODUCER_FENCED",
]
Target = Literal[
    "worker",
    "workers",
    "coordinator",
    "engine",
    "source",
    "sink",
    "state",
    "host",
    "broker",
    "leader",
]
#: The host that argv is started on.
FIRST: Final = "host-1"
#: Which packets of a host are meant: those that it sends, those that it is sent.
Way = Literal["both", "out", "in"]
WAYS: Final[tuple[Way, ...]] = get_args(Way)
Moment = Literal[
    "fetched",
    "losing",
    "joining",
    "joined",
    "staged",
    "accepted",
    "committing",
    "recovery",
    "checkpointing",
    "checkpoint",
    "drained",
    "cuts",
    "cutting",
    "created",
    "written",
    "renamed",
    "deleted",
    "idle",
    "draining",
    "scaling",
]

#: What "corrupt" does to a file, and how a sentence says it.
Damaged = Literal[
    "half",
    "tail",
    "empty",
    "bit",
    "bit-head",
    "bit-middle",
    "bit-last",
    "garbage",
    "missing",
    "rot",
]
DAMAGE: Final[Mapping[Damaged, str]] = {
    "half": "cut to half its size, and the byte in the middle of what is left inverted",
    "tail": "cut by its last 16 bytes",
    "empty": "cut to nothing",
    "bit": "with one bit flipped",
    "bit-head": "with one bit of its first 512 bytes flipped",
    "bit-middle": "with one bit of its middle half flipped",
    "bit-last": "with one bit of its last quarter flipped",
    "garbage": "overwritten with random bytes",
    "missing": "removed",
    "rot": "with one bit flipped",
}

#: What "power" takes of what is not durable, and how a sentence says it.
Loss = Literal["all", "content", "drawn"]
LOSSES: Final[Mapping[Loss, str]] = {
    "all": "which takes all that was not synced",
    "content": "which takes all content that was not synced, and leaves the names",
    "drawn": "which takes some of what was not synced",
}


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
@dataclass(frozen=True)
class FaultStep:
    """One fault of a schedule: its moment, its target, and in each kind what that needs to be told.

    Steps fire in order, one at a time. at: the moment, one of faults/moments.py.
    fraction: armed once this part of the input was fetched; 1.0 is its last record.
    burst: records published at once when the step is due: the backlog that it meets.
    delay_s: from the moment to the fault. cut: wait for a RELEASE before the fault, so that there
    is a cut to recover from. cuts: of this life, each seen by its RELEASE, 0 for before the first;
    at "cuts". idle_s: how long nothing has come; at "idle".
    """

    at: Moment
    _: KW_ONLY
    target: Target
    fraction: float = 0.0
    burst: int = 0
    delay_s: float = 0.0
    cut: bool = False
    cuts: int = 0
    idle_s: float = 0.0

    #: What is done, as schedules say it.
    do: ClassVar[Do]

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)
        if "do" in vars(cls):
            targets = get_args(get_type_hints(cls)["target"])
            KINDS.update({(cls.do, target): cls for target in targets})

    def __post_init__(self) -> None:
        if KINDS.get((self.do, self.target)) is not type(self):
            raise ValueError(f"{type(self).__name__}: {self.target}: not one of its targets")

    @property
    def lasts_s(self) -> float:
        """Seconds that it lasts, 0 for a kind that does not."""
        return 0.0

    @property
    def longest_s(self) -> float:
        """Seconds from its moment until the engine can go on."""
        return self.delay_s + self.idle_s + self.lasts_s

    def instead(self, do: Do, target: Target, **given: Any) -> FaultStep:
        """Return another fault at the moment of this one; raises as `fault_step`."""
        moment = {one.name: getattr(self, one.name) for one in fields(FaultStep)}
        return fault_step(do, **moment | {"target": target} | given)

    def to_json(self) -> dict[str, Any]:
        """Return its row: a JSON-able dict of the fields of every kind."""
        return {name: getattr(self, name, one.default) for name, one in Row.model_fields.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FaultStep:
        """Return the step of a row, which may lack defaults; raises ValueError, with the key."""
        row = Row.model_validate(dict(data))
        return row.step(data)

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Have pydantic read a row and write one, wherever the class is the type of a field."""
        return core_schema.no_info_plain_validator_function(
            lambda data: data if isinstance(data, FaultStep) else FaultStep.from_json(data),
            serialization=core_schema.plain_serializer_function_ser_schema(FaultStep.to_json),
        )


#: What is done, and to whom -> the kind of step.
KINDS: Final[dict[tuple[Do, Target], type[FaultStep]]] = {}


def fault_step(do: Do, target: Target, at: Moment, **given: Any) -> FaultStep:
    """Return a step of the kind that ``do`` and ``target`` name, with its fields ``given``.

    Raises KeyError: there is no such kind; TypeError: it has no such field.
    """
    return KINDS[do, target](at, target=target, **given)


class LastingStep(FaultStep):
    """A fault that lasts; of connections, from the first thing that it meets."""

    seconds: float

    @property
    def lasts_s(self) -> float:
        """Seconds that it lasts."""
        return self.seconds


# -- processes


class KillStep(FaultStep):
    """SIGKILL of some processes."""

    do = "kill"
    target: Literal["worker", "workers", "coordinator"]


class DownStep(FaultStep):
    """A death. down_s: how long the engine, or a host, stays down before it is started again."""

    down_s: float = 0.0

    @property
    def longest_s(self) -> float:
        """Seconds from its moment until the engine can go on."""
        return super().longest_s + self.down_s


#: A service manager usually gives a process ten seconds, or thirty, from SIGTERM to SIGKILL.
GRACE_S: Final = 10.0


class KillEngineStep(DownStep):
    """SIGKILL of every process. grace_s: how long after SIGTERM, 0 for without it."""

    do = "kill"
    target: Literal["engine"] = "engine"
    grace_s: float = 0.0

    @property
    def longest_s(self) -> float:
        """Seconds from its moment until the engine can go on."""
        return super().longest_s + self.grace_s


class KillBrokerStep(FaultStep):
    """SIGKILL of the broker."""

    do = "kill"
    target: Literal["broker"] = "broker"


#: How long a leader is usually kept from its followers: well below what has it taken for dead.
ALONE_S: Final = 1.0


class KillLeaderStep(FaultStep):
    """SIGKILL of one broker of three. alone_s: how long before it is kept from its followers.

    grace_s: how long after SIGTERM, on which it hands over all that it leads; 0 for without it.
    """

    do = "kill"
    target: Literal["leader"] = "leader"
    alone_s: float = 0.0
    grace_s: float = 0.0

    @property
    def longest_s(self) -> float:
        """Seconds from its moment until the engine can go on."""
        return super().longest_s + self.alone_s + self.grace_s


class PauseStep(LastingStep):
    """SIGSTOP of processes, and SIGCONT after it."""

    do = "pause"
    target: Literal["worker", "workers", "coordinator", "engine"]


class PauseLeaderStep(LastingStep):
    """SIGSTOP of one broker of three, and SIGCONT after it."""

    do = "pause"
    target: Literal["leader"] = "leader"


class FillStep(LastingStep):
    """A full disk."""

    do = "fill"
    target: Literal["state"] = "state"


class CorruptStep(FaultStep):
    """Damage to the newest file of a killed engine. damage: a key of DAMAGE."""

    do = "corrupt"
    target: Literal["state"] = "state"
    damage: Damaged = "half"


class WipeStep(FaultStep):
    """Loss of all files of a killed engine."""

    do = "wipe"
    target: Literal["state"] = "state"


class PowerStep(FaultStep):
    """Loss of power. loss: a key of LOSSES."""

    do = "power"
    target: Literal["engine"] = "engine"
    loss: Loss = "drawn"


class ToWorkersStep(FaultStep):
    """workers: that the engine has from then on."""

    workers: int


class RescaleStep(ToWorkersStep):
    """A stop, and deploy with resume."""

    do = "rescale"
    target: Literal["engine"] = "engine"


class ScaleStep(ToWorkersStep):
    """The op scale."""

    do = "scale"
    target: Literal["engine"] = "engine"


# -- connections


class CutStep(FaultStep):
    """A reset in the middle of a reply."""

    do = "cut"
    target: Literal["source", "sink"]


class LateStep(FaultStep):
    """A reset, with frames that are handled after it."""

    do = "late"
    target: Literal["sink"] = "sink"


class HalfOpenStep(LastingStep):
    """Silence of connections, and a reset after it."""

    do = "half-open"
    target: Literal["source", "sink"]


class DelayStep(LastingStep):
    """Late replies. lag_s: how late each leaves."""

    do = "delay"
    target: Literal["source", "sink"]
    lag_s: float


class ThrottleStep(LastingStep):
    """Slow replies. rate: bytes a second."""

    do = "throttle"
    target: Literal["source", "sink"]
    rate: float


class DripStep(LastingStep):
    """Replies byte by byte."""

    do = "drip"
    target: Literal["source", "sink"]


class RefuseStep(LastingStep):
    """Refused output."""

    do = "refuse"
    target: Literal["sink"] = "sink"


class ErrorStep(LastingStep):
    """Errors of Kafka. request: that gets them."""

    do = "error"
    target: Literal["sink"] = "sink"
    request: Request = ""
    error: Error = ""


class SilenceStep(LastingStep):
    """No new records."""

    do = "silence"
    target: Literal["source"] = "source"


# -- hosts


class HostStep(FaultStep):
    """A fault of a host. host: "" for that of a worker that works."""

    target: Literal["host"] = "host"
    host: str = ""


class KillHostStep(HostStep, DownStep):
    """The death of a host."""

    do = "kill"
    down_s: float = field()


class ThrottleHostStep(HostStep, LastingStep):
    """A slow network. rate: bytes a second."""

    do = "throttle"
    rate: float


class BetweenStep(HostStep, LastingStep):
    """Packets between a host and its peer, "" for everybody; way: seen from the host."""

    peer: str = ""
    way: Way = "both"


class PartitionStep(BetweenStep):
    """No packet passes."""

    do = "partition"


class DelayHostStep(BetweenStep):
    """Late packets. lag_s: how late each arrives."""

    do = "delay"
    lag_s: float


class SomeStep(BetweenStep):
    """share: of the packets that it meets."""

    share: float


class LossStep(SomeStep):
    """Lost packets."""

    do = "loss"


class ReorderStep(SomeStep):
    """Packets that others overtake. lag_s: how late they arrive."""

    do = "reorder"
    lag_s: float


class DuplicateStep(SomeStep):
    """Packets that arrive twice."""

    do = "duplicate"


class GarbleStep(SomeStep):
    """Damaged packets."""

    do = "garble"


# -- files

_Seconds = Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=0, le=2**32)]
_Host = Annotated[str, matching(r"|log|host-[1-9][0-9]?", '"log" or "host-N"')]
#: Keys that kinds of more than one word have, and how an error says which.
_ONLY: Final = {
    "down_s": "kill of the engine or of a host",
    "grace_s": "kill of the engine",
    "host": "target host",
}


class Row(Table):
    """A step as files have it: the fields of every kind; those of others are at their defaults."""

    do: Do
    target: Target
    at: Moment
    fraction: _Share = 0.0
    burst: _Count = 0
    delay_s: _Seconds = 0.0
    seconds: _Seconds = 0.0
    cut: bool = False
    lag_s: _Seconds = 0.0
    rate: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] = 0.0
    damage: Damaged = "half"
    workers: Annotated[int, Field(ge=0, le=1_024)] = 0
    cuts: Annotated[int, Field(ge=0, le=10_000)] = 0
    idle_s: _Seconds = 0.0
    down_s: _Seconds = 0.0
    alone_s: _Seconds = 0.0
    grace_s: _Seconds = 0.0
    host: _Host = ""
    peer: _Host = ""
    way: Way = "both"
    share: _Share = 0.0
    loss: Loss = "drawn"
    request: Request = ""
    error: Error = ""

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Row:
        if (self.do, self.target) not in KINDS:
            targets = ", ".join(target for do, target in KINDS if do == self.do)
            raise wrong(f"one of {targets} for {self.do}", self.target, "target")
        own = {one.name for one in fields(KINDS[self.do, self.target])}
        for key, one in type(self).model_fields.items():
            if key not in {"do", *own} and getattr(self, key) != one.default:
                raise wrong(f"only with {_ONLY.get(key) or _having(key)}", getattr(self, key), key)
        return self

    def step(self, given: Mapping[str, Any] | None = None) -> FaultStep:
        """Return the step; given: the row as it was read, whose numbers may be of other types."""
        values = dict(self) | dict(given or {})
        kind = KINDS[self.do, self.target]
        return kind(**{one.name: values[one.name] for one in fields(kind)})


def _having(key: str) -> str:
    """Return the words of the kinds that have a field: "loss, partition of a host"."""
    kinds = [kind for kind in KINDS.values() if key in {one.name for one in fields(kind)}]
    of_hosts = " of a host" if key in ("peer", "way") else ""  # their words have another kind
    return ", ".join(sorted({kind.do for kind in kinds})) + of_hosts
