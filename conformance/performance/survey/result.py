"""survey.json: what a survey found, as data that all its other forms are drawn from."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from tickproof.conformance.report.document import Document, Engine, Model
from tickproof.conformance.verdicts import Verdict


class State(enum.StrEnum):
    """What a requirement came to over all seeds."""

    HELD = "held"
    FAILED = "failed"
    KNOWN_GAP = "known-gap"
    UNDECIDED = "undecided"
    NOT_CLAIMED = "not-claimed"
    NOT_APPLICABLE = "not-applicable"


#: States that answer the question whether a promise holds.
JUDGED: Final = frozenset((State.HELD, State.FAILED, State.KNOWN_GAP))


class Software(Model):
    """Versions of what engines were judged over; None where nothing was."""

    java: str | None = None
    broker: str | None = None
    client: str | None = None


class ClaimSet(Model):
    """What an engine claims for some of its apps."""

    apps: list[str] = Field(description="such as count emit=every")
    state: str
    delivery: str
    survives: list[str]
    rescale: str


class Settings(Model):
    """Time limits of engine.toml; those of Kafka are None for an engine over the log."""

    transport: str
    startup_timeout_s: float
    drain_timeout_s: float
    recovery_timeout_s: float
    cut_timeout_s: float
    session_timeout_ms: int | None
    transaction_timeout_ms: int | None


class Session(Model):
    """One engine judged with one seed; without a verdict where the kit itself broke."""

    seed: int
    verdict: Verdict | None
    isolation: str | None
    report: str = Field(description="folder of report.json, relative to this file")
    page: str = Field(description="the report as a page, relative to the site; may be empty")


class Tally(Model):
    """One requirement over all seeds."""

    id: str
    title: str
    state: State
    verdicts: dict[Verdict, int] = Field(description="in how many seeds it came out so")
    why: str = Field(default="", description="why it was not judged, where it was not")


class Recovery(Model):
    """Seconds without output after a kill: the longest silence of a partition.

    samples: kills that it could be seen of, in runs of passthrough and count.
    """

    samples: int = Field(ge=0)
    p50_s: float | None
    p95_s: float | None
    longest_s: float | None


class Quote(Model):
    """A sentence of the engine's own documents."""

    says: str
    source: str


class Variant(Model):
    """The run of a failure played again with something less."""

    changed: str = Field(description="such as: without kill 2")
    verdicts: dict[Verdict, int]
    reasons: dict[str, int] = Field(description="of failures")


class Replays(Model):
    """How often the run of a failure failed in the same requirement when it was played again."""

    failed: int = Field(ge=0)
    of: int = Field(ge=1)
    reasons: dict[str, int] = Field(default={}, description="of those that failed")
    headlines: list[str] = Field(default=[], description="what each of these comes down to")
    variants: list[Variant] = Field(default=[], description="empty where none could be played")


class Control(Model):
    """What the control of an engine came to on a requirement that the engine failed."""

    engine: str = Field(description="name and version")
    differs: str = Field(description="from the engine that failed")
    passed: int = Field(ge=0)
    of: int = Field(ge=1, description="seeds with which the engine failed")


class Failure(Model):
    """A promise that did not hold, as the first of the seeds that failed shows it."""

    id: str
    title: str
    failed_in: int = Field(ge=1)
    of: int = Field(ge=1, description="seeds")
    confirmed: bool = Field(description="it failed in each of the seeds")
    replays: Replays | None = Field(description="None where none were asked for, or possible")
    seed: int
    promise: str = Field(description="of the requirement")
    causes: str = Field(description="likely causes of a failure in it; may be empty")
    reason: str
    headline: str
    story: list[str] = Field(description="what happened, in order")
    stimulus: str
    expected: str
    actual: str
    reproduce: str
    run: str = Field(description="run folder, relative to this file; may be empty")
    pack: str = Field(description="the run as one file, relative to the site; may be empty")
    script: str = Field(
        default="",
        description="shows it without the kit: among the sources of the engine; may be empty",
    )
    breaks: Quote | None = None
    control: Control | None = Field(default=None, description="None where none is named")


class Load(Model):
    """What every engine is measured under, without faults.

    Its rate is measured on passthrough, all input at once; its latency on count, at a pace.
    """

    messages: int = Field(ge=1, description="of passthrough")
    pace: int = Field(ge=1, description="of count, records a second")
    seconds: float = Field(description="for which count is given input")
    workers: int = Field(ge=1)
    rounds: int = Field(ge=1)


class Measured(Model):
    """One engine under the load: medians over the rounds; None where there is no figure."""

    rate: float | None = Field(description="records a second")
    p50_s: float | None
    p99_s: float | None
    why: str = Field(description="why a figure is missing")


class EngineRow(Model):
    """One engine over all seeds."""

    engine: Engine
    claims: list[ClaimSet]
    settings: Settings
    code_lines: int = Field(ge=0, description="of the files beside engine.toml")
    sources: list[str] = Field(default=[], description="copies of them, relative to the site")
    sessions: list[Session]
    runs: int = Field(ge=0)
    faults: dict[str, int] = Field(description="faults that were carried out in these runs")
    deaths: int = Field(ge=0, description="those of them that killed processes")
    recovery: Recovery
    measured: Measured | None = Field(default=None, description="None where nothing was")
    requirements: list[Tally]
    failures: list[Failure]

    def count(self, *states: State) -> int:
        """Return how many requirements came to one of these states."""
        return sum(one.state in states for one in self.requirements)

    @property
    def held(self) -> int:
        """Promises that held in each of the seeds."""
        return self.count(State.HELD)

    @property
    def judged(self) -> int:
        """Promises of which can be said whether they hold."""
        return self.count(*JUDGED)


class Survey(Document):
    """Engines judged with the same seeds on one machine."""

    FILE_NAME = "survey.json"

    kind: Literal["survey"] = "survey"
    software: Software
    profile: str
    seeds: list[int]
    only: list[str] = Field(description="what was asked for; empty: everything")
    started: datetime
    ended: datetime
    load: Load | None = Field(default=None, description="None where nothing was measured")
    exit_status: int
    engines: list[EngineRow]
