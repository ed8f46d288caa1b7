"""A run of a user's own job on disk: job-run.json, its rows, and what was decided from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import plain_files
from tickproof.conformance.history.folder import write_json
from tickproof.conformance.history.json_lines import loads
from tickproof.conformance.text import counted, shown
from tickproof.conformance.verdicts import Outcome

FILE: Final = "job-run.json"
#: What was decided from the run, as in the folder of an engine's run.
VERDICT: Final = "verdict.json"
#: Below the folder: a file of rows for each output, an identity and a value in each line.
OUTPUT: Final = "output"
FORMAT: Final = 2

_Seconds = Annotated[float, Field(ge=0, lt=1e12, allow_inf_nan=False)]
T = TypeVar("T")


#: What a fault does.
Do = Literal[
    "kill",
    "pause",
    "cut",
    "refuse",
    "slow",
    "error",
    "restart",
    "upgrade",
    "downgrade",
    "kill-broker",
    "kill-leader",
    "end-leader",
]
Target = Literal["worker", "engine", "broker", "leader", "connections"]
KILL_BROKER: Final = "kill-broker"
#: Of one broker of three, in whose place others lead.
KILL_LEADER: Final = "kill-leader"
#: By SIGTERM, on which it hands over what it leads.
END_LEADER: Final = "end-leader"
#: What is done to brokers -> what it is done to.
OF_BROKERS: Final[Mapping[Do, Target]] = {
    KILL_BROKER: "broker",
    KILL_LEADER: "leader",
    END_LEADER: "leader",
}
#: The job ends, by SIGTERM at any time or by SIGKILL at a moment, and another version goes on.
REPLACES: Final = ("upgrade", "downgrade")
#: What is done to connections.
OF_CONNECTIONS: Final = ("cut", "refuse", "slow", "error")


@dataclass(frozen=True)
class Strike:
    """One fault. at: a moment of the proxy, one of a database, or "".

    nth: which such moment, counted from 1. whole: the whole job at once, not the worker at whose
    moment it is. seconds: it lasts so long, or a kill comes so much after its moment; a leader
    has for so long what no other broker gets. down: a worker that is killed is started again once
    others have taken over; the next such strike meets it again. beside: connections to databases
    and servers beside Kafka alone.
    """

    do: Do
    at: str = ""
    nth: Annotated[int, Field(ge=1, lt=2**31)] = 1
    whole: bool = False
    seconds: _Seconds = 0.0
    down: bool = False
    beside: bool = False

    @property
    def target(self) -> Target:
        """What it is done to."""
        if self.do in OF_BROKERS:
            return OF_BROKERS[self.do]
        if self.do in OF_CONNECTIONS:
            return "connections"
        return "engine" if self.whole else "worker"


@dataclass(frozen=True)
class Fired:
    """A strike that was carried out. fetched: records that the lives it struck had been given.

    under_way: what was under way: "an open transaction", "a held commit", ... ; "": nothing.
    """

    do: str
    at: str
    t_s: float
    worker: str
    fetched: int
    under_way: str

    @property
    def counts(self) -> bool:
        """Whether it is evidence: what it ended was at work."""
        return self.fetched > 0 and bool(self.under_way)

    def __str__(self) -> str:
        verb = {
            "kill": "killed", "pause": "paused", "cut": "cut off", "restart": "ended (SIGTERM)",
            "kill-broker": "killed, and started again", "refuse": "reset, and none was taken",
            "kill-leader": "killed, and others lead",
            "end-leader": "ended (SIGTERM), and others lead",
            "slow": "answered late", "error": _answered(self.at),
            "upgrade": "ended, for the next version",
            "downgrade": "ended, for the version before",
        }.get(self.do, self.do)  # fmt: skip
        where = f" at {self.at}" if self.at else ""
        during = f", during {self.under_way}" if self.under_way else ""
        return f"{self.t_s:.1f} s: {self.worker} {verb}{where}{during}"


def _answered(at: str) -> str:
    """Say with which error the kit answered: output, at its moment, or offsets, at any time."""
    return "was answered UNKNOWN_SERVER_ERROR" if at else "were answered ILLEGAL_GENERATION"


def changes(poison: str, workers: int, partitions: int, twice: bool) -> list[str]:
    """Return in words what was otherwise than in a run without faults, beside its faults."""
    words = [poison] if poison else []
    words += [f"with {counted(workers, 'worker')}"] if workers else []
    words += [f"with {counted(partitions, 'partition')} of each input"] if partitions else []
    return [*words, "all input comes twice"] if twice else words


class JobRun(BaseModel):
    """What job-run.json says of a run; all text in it may be the job's own.

    job: the path of its job.toml. strikes: what was to be done to it. rows: how many there are of
    each output. workers, partitions: another number of them than declared, 0 for that. twice: all
    input came again. made_at: what a pack leaves out.
    """

    model_config = ConfigDict(defer_build=True, strict=True, extra="ignore")

    format: Literal[2]
    job: str
    job_name: str
    name: str
    seed: int
    started: _Seconds
    seconds: _Seconds
    ended: str
    failure: str = ""
    stalled: bool = False
    unfinished: bool = False
    poison: str = ""
    workers: int = 0
    partitions: int = 0
    twice: bool = False
    strikes: list[Strike]
    fired: list[Fired]
    missed: list[str]
    exits: list[str]
    timeouts: dict[str, str]
    recoveries_s: list[_Seconds]
    rows: dict[str, int]
    stderr: list[str]
    made_at: dict[str, Any] | None = None

    @property
    def changed(self) -> list[str]:
        """What `changes` says of it."""
        return changes(self.poison, self.workers, self.partitions, self.twice)


def write(folder: Path, facts: Mapping[str, Any], rows: Mapping[str, Sequence[Any]]) -> None:
    """Write job-run.json, and the rows of each output as JSON lines; raises OSError."""
    below = folder / OUTPUT
    below.mkdir()
    for name, some in rows.items():
        with (below / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for row in some:
                file.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
    counts = {name: len(some) for name, some in rows.items()}
    write_json(folder / FILE, {"format": FORMAT, **facts, "rows": counts})


def is_one(folder: Path) -> bool:
    """Tell whether a folder is that of a job's run."""
    return folder.is_dir() and (folder / FILE).is_file()


def read(folder: Path) -> JobRun:
    """Return what a run says of itself; raises HistoryError with the key that is wrong."""
    return _validated(folder, FILE, TypeAdapter(JobRun))


def save_verdict(folder: Path, outcomes: Iterable[Outcome]) -> None:
    """Write what was decided from a run; raises OSError."""
    write_json(folder / VERDICT, [one.to_json() | {"run": "."} for one in outcomes])


def verdict(folder: Path) -> list[Outcome]:
    """Return what was decided from a run, nothing before its session ended; raises HistoryError."""
    if not (folder / VERDICT).exists():
        return []
    return _validated(folder, VERDICT, TypeAdapter(list[Outcome]))


def _validated(folder: Path, name: str, shape: TypeAdapter[T]) -> T:
    path = folder / name
    try:
        return shape.validate_python(loads(plain_files.read_document(folder, name)))
    except FileNotFoundError:
        raise HistoryError(f"{path}: not found; expected the run of a job that ended") from None
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read ({error})") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = shown(".".join(map(str, first["loc"])), 120)
        raise HistoryError(f"{path}: {key}: {shown(first['msg'], 300)}") from error
    except ValueError as error:
        raise HistoryError(f"{path}: not JSON ({error})") from error
