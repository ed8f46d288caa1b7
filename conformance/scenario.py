"""A scenario: everything that one run does to an engine, as data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import Any, Final, Literal, get_args

from tickproof.conformance.text import counted

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
    "silence",
    "fill",
    "corrupt",
    "rescale",
    "scale",
    "partition",
    "loss",
    "reorder",
    "duplicate",
    "garble",
]
Target = Literal["worker", "workers", "coordinator", "engine", "source", "sink", "state", "host"]
#: The host that argv is started on.
FIRST: Final = "host-1"
#: Which packets of a host are meant: those that it sends, those that it is sent.
Way = Literal["both", "out", "in"]
WAYS: Final[tuple[Way, ...]] = get_args(Way)
Moment = Literal[
    "fetched",
    "losing",
    "staged",
    "accepted",
    "committing",
    "recovery",
    "checkpointing",
    "checkpoint",
    "drained",
    "cuts",
    "cutting",
    "idle",
    "draining",
    "scaling",
]

#: What "corrupt" does to a file, and how a sentence says it.
Damaged = Literal["half", "tail", "empty", "bit", "garbage", "missing"]
DAMAGE: Final[Mapping[Damaged, str]] = {
    "half": "cut to half its size, and the byte in the middle of what is left inverted",
    "tail": "cut by its last 16 bytes",
    "empty": "cut to nothing",
    "bit": "with one bit flipped",
    "garbage": "overwritten with random bytes",
    "missing": "removed",
}

#: What can be done to whom.
TARGETS: Final[Mapping[Do, tuple[Target, ...]]] = {
    "kill": ("worker", "workers", "coordinator", "engine", "host"),
    "pause": ("worker", "workers", "coordinator", "engine"),
    "cut": ("source", "sink"),
    "late": ("sink",),
    "half-open": ("source", "sink"),
    "delay": ("source", "sink", "host"),
    "throttle": ("source", "sink", "host"),
    "drip": ("source", "sink"),
    "refuse": ("sink",),
    "silence": ("source",),
    "fill": ("state",),
    "corrupt": ("state",),
    "rescale": ("engine",),
    "scale": ("engine",),
    "partition": ("host",),
    "loss": ("host",),
    "reorder": ("host",),
    "duplicate": ("host",),
    "garble": ("host",),
}
#: What a bad cable of a host does to packets.
OF_CABLE: Final[frozenset[Do]] = frozenset(("delay", "reorder", "duplicate", "garble"))
#: Faults that last, for ``seconds``.
LASTING: Final = frozenset(
    (
        "pause", "half-open", "delay", "throttle", "drip", "refuse", "silence", "fill",
        "partition", "loss", "reorder", "duplicate", "garble",
    )
)  # fmt: skip
#: What `survives` may hold.
Death = Literal["worker", "all-workers", "coordinator", "engine", "connection"]


def survived(claimed: Collection[str]) -> tuple[str, ...]:
    """Return what an engine that claims ``claimed`` in `survives` claims by that.

    An engine that recovers from the death of every process recovers from that of all workers.
    """
    implied = {"worker", "engine"} <= set(claimed) and "all-workers" not in claimed
    return (*claimed, *(("all-workers",) if implied else ()))


#: Faults after which connections are gone: an engine has to open new ones.
_BREAKING: Final = frozenset(("cut", "late", "half-open", "refuse", "partition"))


@dataclass(frozen=True)
class FaultStep:
    """One fault of a schedule. Steps fire in order, one at a time.

    do, to processes: "kill" (SIGKILL), "pause" (SIGSTOP, after ``seconds`` SIGCONT).
    do, to the connections of source (those that FETCH) or sink (those that send output):
    "cut" (reset in the middle of a reply), "late" (reset, but what the engine had sent is
    handled only once it has connected again), "half-open" (no byte either way, then reset),
    "delay" (each reply leaves ``lag_s`` later), "throttle" (replies leave at ``rate`` bytes a
    second), "drip" (replies leave byte by byte), "refuse" (output gets error 8),
    "silence" (FETCH answers that nothing new exists).
    do, to the folder of the state: "fill" (for ``seconds`` no byte more can be written, or
    until the engine starts again), "corrupt" (the engine is killed, and its newest file
    damaged before it starts again, as ``damage`` says: a key of DAMAGE).

    do, to the engine: "rescale" (it is stopped, and deployed with resume for ``workers``),
    "scale" (the op of that name asks for ``workers``, while input goes on).

    do, to a ``host`` ("": that of a worker that works) of several: "kill" (cut off, and SIGKILL of
    all that runs on it; after ``down_s`` it is back, with nothing on it), "partition" (no packet
    passes between it and ``peer``, "": everybody; ``way`` "out": of those that it sends, "in": of
    those that it is sent), "loss" (likewise, of a ``share`` drawn at random), "throttle" (what it
    sends and is sent passes at ``rate`` bytes a second), "delay" (each packet arrives ``lag_s``
    later), "reorder" (a ``share`` does, so that others overtake it), "duplicate" (a ``share``
    arrives twice), "garble" (a ``share`` arrives with one bit flipped).

    at: "fetched" (a part of the input was fetched), "staged" (a STAGE or APPEND was taken,
    its reply not sent), "accepted" (it was acknowledged), "committing" (a COMMIT or APPEND
    was taken, its reply not sent), "losing" (a COMMIT or APPEND is held for delay_s, the
    fault comes, and the frame is treated as never sent: a death a moment before it),
    "recovery" (first records fetched after the step before), "checkpointing" (a checkpoint
    op was sent), "checkpoint" (it was answered), "drained" (drain was answered), "cuts" (a
    fetch after so many ``cuts`` of this life, each seen by its RELEASE; 0: before the first),
    "cutting" (a file of the state is being written), "idle" (all that is published was fetched
    and answered, and nothing has come for ``idle_s`` seconds), "draining" (a fetch between
    drain and its answer), "scaling" (the scale before was asked for and not answered).
    fraction: armed once this part of the input was fetched; 1.0 is its last record.
    burst: records published at once when the step is due: the backlog that it meets.
    delay_s: from the moment to the fault. seconds: how long a fault lasts; of connections,
    from the first thing that it meets. down_s: how long a killed engine, or host, stays down
    before it is started again. cut: wait for a RELEASE before the fault, so that there is a cut
    to recover from.
    """

    do: Do
    target: Target
    at: Moment
    fraction: float = 0.0
    burst: int = 0
    delay_s: float = 0.0
    seconds: float = 0.0
    cut: bool = False
    lag_s: float = 0.0
    rate: float = 0.0
    damage: Damaged = "half"
    workers: int = 0
    cuts: int = 0
    idle_s: float = 0.0
    down_s: float = 0.0
    host: str = ""
    peer: str = ""
    way: Way = "both"
    share: float = 0.0

    @property
    def ends_engine(self) -> bool:
        """Whether every process of the engine ends by it."""
        dies = self.do == "kill" and self.target == "engine"
        return dies or self.do in ("corrupt", "rescale")

    @property
    def takes_worker(self) -> bool:
        """Whether a worker dies by it, or may be taken for dead."""
        return self.target in ("worker", "host") and self.do in ("kill", "pause")

    @property
    def needs(self) -> str | None:
        """What an engine must claim to survive; None: nothing, any engine must bear it."""
        if self.do in _BREAKING:
            return "connection"
        if self.do == "corrupt":
            return "engine"
        if self.target == "engine" and self.do != "kill":
            return None  # to rescale needs another claim
        if self.target == "host":
            return "worker" if self.do == "kill" else None
        of_all = "all-workers" if self.do == "kill" else "worker"
        return {
            "worker": "worker",
            "workers": of_all,
            "coordinator": "coordinator",
            "engine": "engine",
        }.get(self.target)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FaultStep:
        """Rebuild a step from its dict."""
        return cls(**data)

    def __str__(self) -> str:
        backlog = f", with {self.burst} records of backlog" if self.burst else ""
        return f"{self._what()} {self._when()}{backlog}"

    def _what(self) -> str:
        length = f"for {self.seconds:g} s"
        whom = {
            "worker": "a worker",
            "workers": "all workers",
            "coordinator": "the coordinator",
            "engine": "the engine",
            "source": "the source",
            "sink": "the sink",
            "state": "the folder of the state",
            "host": self.host or "the host of a worker",
        }[self.target]
        if self.target == "host":
            return self._what_of_host(whom, length)
        workers = counted(self.workers, "worker")
        down = f", which stays down for {self.down_s:g} s" if self.down_s else ""
        return {
            "kill": f"SIGKILL of {whom}{down}",
            "pause": f"SIGSTOP {length} of {whom}",
            "cut": f"connections to {whom} reset in the middle of a reply",
            "late": f"connections to {whom} reset, what was under way handled late",
            "half-open": f"connections to {whom} half open {length}, then reset",
            "delay": f"replies of {whom} {self.lag_s:g} s late {length}",
            "throttle": f"replies of {whom} at {self.rate:g} bytes a second {length}",
            "drip": f"replies of {whom} byte by byte {length}",
            "refuse": f"output refused by {whom} {length}",
            "silence": f"no new records from {whom} {length}",
            "fill": f"{whom} full {length}",
            "rescale": f"stop of {whom}, then deploy with resume for {workers}",
            "scale": f"scale of {whom} to {workers}",
            "corrupt": f"SIGKILL of the engine and its newest file in {whom} {DAMAGE[self.damage]}",
        }[self.do]

    def _what_of_host(self, whom: str, length: str) -> str:
        peer = self.peer or "all others"
        between = {
            "both": f"between {whom} and {peer}",
            "out": f"from {whom} to {peer}",
            "in": f"from {peer} to {whom}",
        }[self.way]
        return {
            "kill": f"death of {whom}, which stays down for {self.down_s:g} s",
            "partition": f"no packet {between} {length}",
            "loss": f"{self.share:.0%} of the packets {between} lost {length}",
            "delay": f"packets {between} {self.lag_s:g} s late {length}",
            "reorder": f"{self.share:.0%} of the packets {between} overtaken {length}",
            "duplicate": f"{self.share:.0%} of the packets {between} sent twice {length}",
            "garble": f"{self.share:.0%} of the packets {between} damaged {length}",
            "throttle": f"{whom} at {self.rate:g} bytes a second {length}",
        }[self.do]

    def _when(self) -> str:
        part = f"{self.fraction:.0%} of the input"
        return {
            "fetched": f"when {part} was fetched",
            "staged": f"after a STAGE or APPEND was taken and before its reply, from {part} on",
            "losing": f"before a COMMIT or APPEND was taken, which is lost, from {part} on",
            "accepted": f"after output was acknowledged, from {part} on",
            "committing": "after a COMMIT or APPEND was taken and before its reply, "
            f"from {part} on",
            "recovery": "at the first fetch after the fault before",
            "checkpointing": "between a request for a checkpoint and its answer",
            "checkpoint": "after a checkpoint was answered",
            "drained": "after drain was answered",
            "cuts": f"after cut {self.cuts} of this life"
            if self.cuts
            else "before the first cut of this life",
            "cutting": f"while a cut is written, from {part} on",
            "idle": f"after {self.idle_s:g} s without input, when {part} was answered",
            "draining": f"between drain and its answer, from {part} on",
            "scaling": "between a request to scale and its answer",
        }[self.at]


def needs_of(faults: Iterable[FaultStep], workers: int) -> frozenset[str]:
    """Return what an engine of so many workers must claim to survive a schedule.

    What it keeps in the memory of its workers may be lost with the second of them, for the kit
    cannot see when the first has it again. A stop of all puts an end to that.
    """
    found: set[str] = set()
    down = 0
    for step in faults:
        found |= {step.needs} if step.needs else set()
        workers = step.workers or workers
        down = 0 if step.ends_engine else down + step.takes_worker
        if down > 1 or (step.takes_worker and workers == 1):
            found.add("all-workers")
    return frozenset(found)


def within(
    survives: Collection[str], faults: Sequence[FaultStep], workers: int
) -> tuple[FaultStep, ...]:
    """Return a schedule up to the first step that asks for more than an engine claims."""
    claimed = frozenset(survived(survives))
    fits = (needs_of(faults[: number + 1], workers) <= claimed for number in range(len(faults)))
    return tuple(step for step, _ in zip(faults, takewhile(bool, fits), strict=False))


@dataclass(frozen=True)
class SinkBehaviour:
    """What the sink does to an engine, as data.

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


@dataclass(frozen=True)
class Scenario:
    """One run, without its engine.

    recipe: input recipe (docs/architecture.md). rate: records a second, None for all at
    once. hold: (part of the input, seconds of silence after it). drain_at: ask for drain
    when this part of the input is published, rather than at END. ending: how the engine is
    ended. probes: also ask what an engine may refuse. fresh: start and stop an engine for it.
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
    ending: Literal["stop", "stdin-eof"] = "stop"
    probes: bool = False
    fresh: bool = False
    pace: Pace | None = None
    point: dict[str, str] = field(default_factory=dict)

    @property
    def needs(self) -> frozenset[str]:
        """What an engine must claim to survive the schedule."""
        return needs_of(self.faults, self.workers)

    @property
    def may_share(self) -> bool:
        """Whether an engine of an earlier run will do: its start and end are not looked at."""
        return self.ending == "stop" and not self.fresh

    def longest_s(self, records: int, life_s: float) -> float:
        """Return how long a run may take if every limit is used up; ``life_s``: of one life."""
        paced = 3 * records / self.rate if self.rate else 0.0
        faults = sum(s.seconds + s.delay_s + s.idle_s + s.down_s + life_s for s in self.faults)
        hold = self.hold[1] if self.hold else 0.0
        return paced + faults + life_s + hold + self.sink.stall_s + self.sink.budget_s

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict; `from_json` is its inverse."""
        return asdict(self)

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
