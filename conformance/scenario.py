"""A scenario: everything that one run does to an engine, as data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

from tickproof.conformance.fault_steps import FaultStep

#: Apps that requirements ask for, and those that only a bench does.
JudgedApp = Literal["passthrough", "double", "count", "market-spread"]
App = Literal[JudgedApp, "ladder"]
#: One small feature more each; docs/bench.md says which.
Step = Literal[
    "passthrough",
    "decode",
    "compute",
    "three-coalesced",
    "three-apart",
    "state",
    "state-by-key",
    "checkpoint",
    "exactly-once",
    "audit",
]
#: What `survives` may hold.
Death = Literal[
    "worker", "all-workers", "coordinator", "engine", "connection", "power", "broker", "disk"
]


class Claims(BaseModel):
    """What an engine promises for one app with given params: of engine.toml, and of run.json.

    ``survives`` holds what the listed deaths imply, too (`survived`). ``freshness_s``
    is set exactly where params has inputs = "two". ``latency`` is the name
    of an SLA profile, or None. ``transport``: what it speaks.
    """

    model_config = ConfigDict(defer_build=True, strict=True, frozen=True)

    state: str
    delivery: str
    survives: Annotated[tuple[str, ...], Strict(False)]  # in JSON a list
    rescale: str
    freshness_s: Annotated[float, Field(allow_inf_nan=False)] | None = None
    latency: str | None = None
    transport: str = "log"

    @property
    def freshness_ns(self) -> int:
        """The most that a quote may age, in ns; raises ValueError if nothing is claimed of it."""
        if self.freshness_s is None:
            raise ValueError("claims: expected freshness_s")
        return int(self.freshness_s * 1e9)

    @property
    def over_kafka(self) -> bool:
        """True if the engine speaks Kafka, and not the log's own protocol."""
        return self.transport == "kafka"

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict."""
        return self.model_dump(mode="json")


def survived(claimed: Collection[str]) -> tuple[str, ...]:
    """Return what an engine that claims ``claimed`` in `survives` claims by that.

    An engine that recovers from the death of every process recovers from that of all workers.
    """
    implied = {"worker", "engine"} <= set(claimed) and "all-workers" not in claimed
    return (*claimed, *(("all-workers",) if implied else ()))


@dataclass(frozen=True)
class SinkBehaviour:
    """Behaviour of the sink towards an engine, as data.

    ack_delay_s: wait before each acknowledgement of output.
    last_ack_delay_s: the same, but only once all input was fetched.
    stall_after: output records, staged or not, after which the sink answers nothing, ...
    stall_s: ... for this long. pieces: replies leave in pieces, the first ones of a byte.
    """

    ack_delay_s: float = 0.0
    last_ack_delay_s: float = 0.0
    stall_after: int | None = None
    stall_s: float = 0.0
    pieces: bool = False
    budget_s: float = 5.0
    seed: int = 0


@dataclass(frozen=True)
class Pace:
    """Publication and placement of a scenario with a pace.

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


@dataclass(frozen=True)
class Scenario:
    """One run, without its engine.

    recipe: input recipe (docs/architecture.md). rate: records a second, None for all at
    once. hold: (part of the input, seconds of silence after it). drain_at: ask for drain
    when this part of the input is published, rather than at END. ending: how the engine is
    ended; stop-in-drain: by stop, as soon as drain is asked for. probes: also ask what an engine
    may refuse. extra_members: every request has members that no engine knows. checkpoints: ask for
    so many, one after the other, while input comes.
    fresh: start and stop an engine for it.
    pace: publish by a schedule fixed in advance, whatever the engine and the faults do.
    point: where it lies in the fault space, dimension -> value; empty where it was not drawn there.
    """

    name: str
    app: App
    params: dict[str, str]
    recipe: dict[str, Any]
    workers: int = 2
    rate: float | None = None
    sink: SinkBehaviour = field(default_factory=SinkBehaviour)
    faults: tuple[FaultStep, ...] = ()
    hold: tuple[float, float] | None = None
    drain_at: float | None = None
    ending: Literal["stop", "stdin-eof", "stop-in-drain"] = "stop"
    probes: bool = False
    extra_members: bool = False
    checkpoints: int = 0
    fresh: bool = False
    pace: Pace | None = None
    point: dict[str, str] = field(default_factory=dict)

    def with_secret(self, secret: str) -> Scenario:
        """Return the scenario with the secret of a session, unless it has one of its own."""
        return replace(self, recipe={"secret": secret} | self.recipe) if secret else self

    @property
    def may_share(self) -> bool:
        """True if an engine of an earlier run will do: its start and end are not looked at."""
        return self.ending == "stop" and not self.fresh

    def longest_s(self, records: int, life_s: float) -> float:
        """Return how long a run may take if every limit is used up; ``life_s``: of one life."""
        paced = 3 * records / self.rate if self.rate else 0.0
        faults = sum(step.longest_s + life_s for step in self.faults)
        hold = self.hold[1] if self.hold else 0.0
        return paced + faults + life_s + hold + self.sink.stall_s + self.sink.budget_s

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict; `from_json` is its inverse."""
        return asdict(self) | {"faults": tuple(step.to_json() for step in self.faults)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Scenario:
        """Rebuild a scenario from its dict."""
        return cls(
            **{
                **data,
                "sink": SinkBehaviour(**data["sink"]),
                "hold": tuple(data["hold"]) if data["hold"] else None,
                "faults": tuple(FaultStep.from_json(step) for step in data["faults"]),
                "pace": Pace.from_json(data.get("pace")),
            }
        )
