"""Schedules for users' own jobs: the faults of one run as a file, and those that a job once failed.

docs/own-job.md explains every key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import tomli_w
from pydantic import AfterValidator, Field, model_validator

from tickproof.conformance import strict_toml
from tickproof.conformance.faults import regressions
from tickproof.conformance.faults.schedule_file import PREFIX, Failure, name_of
from tickproof.conformance.history.job_run import (
    END_LEADER,
    KILL_BROKER,
    KILL_LEADER,
    OF_BROKERS,
    OF_CONNECTIONS,
    REPLACES,
    Do,
    Strike,
)
from tickproof.conformance.jobs.declaration import Job
from tickproof.conformance.jobs.trial import IDLE, IN_DATABASE
from tickproof.conformance.kafka.exchanges import COMMIT, GROUP, JOIN, OFFSETS, PLAIN, STAGED
from tickproof.conformance.strict_toml import Table, wrong

#: Of Kafka, of the kit's PostgreSQL and of its HTTP server; then those of other databases.
MOMENTS: Final = (
    "fetched", *PLAIN, *STAGED, *COMMIT, *JOIN, *OFFSETS, *GROUP, *IN_DATABASE, IDLE,
)  # fmt: skip
_LASTING: Final = ("refuse", "slow")
#: What a file says is done, and to which brokers -> what a strike says.
_OF_BROKERS: Final[Mapping[tuple[str, str | None], Do]] = {
    ("kill", "broker"): KILL_BROKER,
    ("kill", "leader"): KILL_LEADER,
    ("restart", "leader"): END_LEADER,
}
_WORDS: Final = {do: word for (word, _), do in _OF_BROKERS.items()}


def _of_moments(name: str) -> str:
    if name not in MOMENTS:
        hint = strict_toml.did_you_mean(name, MOMENTS)
        raise wrong(f"a moment{hint}, one of {', '.join(MOMENTS)}", name)
    return name


Moment = Annotated[str, AfterValidator(_of_moments)]
_Seconds = Annotated[float, Field(gt=0, le=60, allow_inf_nan=False)]


class Fault(Table):
    """[[fault]]. at: without it, the fault comes when its share of the input has been sent.

    nth: which such moment, counted from 1. delay_s: how long after it a death comes. seconds: how
    long connections are refused, or answers late. alone_s: how long no other broker gets what a
    leader takes before it dies. down: a worker stays down until others have taken over.
    beside: Kafka itself is left alone.
    """

    do: Literal[
        "kill", "restart", "upgrade", "downgrade", "pause", "cut", "refuse", "slow", "error"
    ]
    target: Literal["worker", "engine", "broker", "leader"] | None = None
    at: Moment | None = None
    nth: Annotated[int, Field(ge=1, le=1_000)] = 1
    delay_s: _Seconds | None = None
    seconds: _Seconds | None = None
    alone_s: _Seconds | None = None
    down: bool = False
    beside: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.target is None) != (self.do in OF_CONNECTIONS):
            known = "no target" if self.target else "worker or engine"
            raise wrong(f"{known} for {self.do}", self.target, "target")
        of_broker = self.target in OF_BROKERS.values()
        if of_broker and (self.do, self.target) not in _OF_BROKERS:
            leader = ", or leader," if self.do == "restart" else ""
            raise wrong(f"worker or engine{leader} for {self.do}", self.target, "target")
        if self.do in REPLACES and self.target != "engine":
            raise wrong(f"engine for {self.do}", self.target, "target")
        if (self.seconds is None) == (self.do in _LASTING):
            expected = "a number" if self.seconds is None else f"none for {self.do}"
            raise wrong(expected, self.seconds, "seconds")
        if self.alone_s and (self.do, self.target) != ("kill", "leader"):
            raise wrong("none but for a kill of leader", self.alone_s, "alone_s")
        if self.delay_s and (self.do not in ("kill", "restart") or of_broker):
            raise wrong(
                "none but for a kill or restart of worker or engine", self.delay_s, "delay_s"
            )
        if self.down and (self.do, self.target) != ("kill", "worker"):
            raise wrong("false but for a kill of worker", self.down, "down")
        if self.beside and self.do not in _LASTING:
            raise wrong("false but to refuse or slow", self.beside, "beside")
        if self.do == "error" and self.at not in (None, PLAIN.received):
            raise wrong(f"none or {PLAIN.received} for error", self.at, "at")
        if self.nth > 1 and self.at in (None, IDLE):
            raise wrong(f"1 at {IDLE}" if self.at else "1 without at", self.nth, "nth")
        return self

    def strike(self) -> Strike:
        """Return what is to be done in a run."""
        do = _OF_BROKERS.get((self.do, self.target), self.do)
        lasts_s = self.delay_s or self.seconds or self.alone_s or 0.0
        whole, at = self.target == "engine", self.at or ""
        return Strike(do, at, self.nth, whole, lasts_s, self.down, self.beside)


class Schedule(Table):
    """A whole file."""

    fault: Annotated[list[Fault], Field(min_length=1, max_length=50)]
    failure: Failure | None = None


def load_all(paths: Iterable[Path]) -> dict[str, list[Strike]]:
    """Return what each file asks for, by the name of its run; raises InvalidFile."""
    found: dict[str, list[Strike]] = {}
    for path in paths:
        faults = strict_toml.load(path, Schedule).fault
        found[PREFIX + name_of(path, found)] = [one.strike() for one in faults]
    return found


def beside(job: Job) -> list[Path]:
    """Return the schedules that a job once failed, by name."""
    return sorted((job.folder / regressions.FOLDER).glob("*.toml"))


def unclaimed(job: Job, strikes: Iterable[Strike]) -> str:
    """Say which death among them the job does not claim to survive, or lacks; "" for none."""
    survives = job.claims.survives
    claimed: set[str] = {*survives}
    if "engine" in survives and not job.outlives_worker:
        claimed.add("worker")
    for one in strikes:
        if one.do in REPLACES and job.upgrade is None:
            return "job.toml has no [upgrade]"
        if one.do in OF_BROKERS and "broker" not in claimed:
            return f"not claimed by survives = {list(survives)}: broker"
        dies = one.do in ("kill", "pause") or (one.do in REPLACES and one.at)
        if dies and one.target not in claimed:
            return f"not claimed by survives = {list(survives)}: {one.target}"
    return ""


def to_toml(strikes: Sequence[Strike], failure: Failure | None = None) -> str:
    """Return strikes as a file that reads as them, one line a fault."""
    made = Schedule(fault=list(map(_row, strikes)), failure=failure)
    return tomli_w.dumps(made.model_dump(exclude_none=True, exclude_defaults=True))


def _row(strike: Strike) -> Fault:
    lasting, alone = strike.do in _LASTING, strike.do == KILL_LEADER
    return Fault(
        do=_WORDS.get(strike.do, strike.do),  # type: ignore[arg-type]
        target=None if strike.target == "connections" else strike.target,
        at=strike.at or None,
        nth=strike.nth,
        delay_s=None if lasting or alone else strike.seconds or None,
        seconds=strike.seconds if lasting else None,
        alone_s=strike.seconds or None if alone else None,
        down=strike.down,
        beside=strike.beside,
    )
