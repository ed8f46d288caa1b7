"""run.json as a typed object, checked before anything is judged."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.scenario import Claims, Scenario
from tickproof.conformance.text import shown
from tickproof.generators.spread_rule import decimals_of

_I64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Count = Annotated[int, Field(ge=0, lt=2**48)]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class _Shape(BaseModel):
    model_config = ConfigDict(defer_build=True, strict=True, extra="ignore")


class Engine(_Shape):
    """The engine that was run."""

    name: str
    version: str
    language: str = ""


class Partition(_Shape):
    """One partition of the input; ``file``: its name within the run folder."""

    stream: Annotated[int, Field(ge=0, lt=2**16)]
    partition: Annotated[int, Field(ge=0, lt=2**16)]
    file: Annotated[str, Field(pattern=r"^input/s\d{1,5}p\d{1,5}\.log$")]
    record_size: Annotated[int, Field(ge=0, lt=2**24)]
    records: _Count
    sha256: str


class Input(_Shape):
    """Recipe and partitions of the input; symbols: short name in the records -> original symbol."""

    recipe: dict[str, Any]
    warnings: dict[str, Any] = {}
    symbols: dict[str, str] = {}
    partitions: list[Partition]

    @field_validator("recipe")
    @classmethod
    def _unit_of_price(cls, recipe: dict[str, Any]) -> dict[str, Any]:
        decimals_of(recipe)
        return recipe


#: Its input was played to the end; the engine failed; the kit failed.
Ending = Literal["completed", "engine-failure", "kit-error"]


class Ended(_Shape):
    """The end of a run. code, message: of the failure. status: exit status of the engine."""

    how: Ending
    code: str = ""
    message: str = ""
    status: int | None = None
    stderr: list[str] = []

    @property
    def completed(self) -> bool:
        """True if the run went to its end."""
        return self.how == "completed"

    @property
    def engine_failed(self) -> bool:
        """True if the engine ended the run."""
        return self.how == "engine-failure"

    @property
    def kit_failed(self) -> bool:
        """True if the kit ended the run."""
        return self.how == "kit-error"

    def to_json(self) -> dict[str, Any]:
        """Return the object of run.json: of a run that completed, `how` alone."""
        return self.model_dump(exclude_unset=True)

    @model_validator(mode="before")
    @classmethod
    def _says_why(cls, data: Any) -> Any:
        needed = {"engine-failure": ("code", "message"), "kit-error": ("message",)}
        if isinstance(data, dict):
            for key in needed.get(str(data.get("how")), ()):
                if key not in data:
                    raise ValueError(f"{key}: missing")
        return data


class Hello(_Shape):
    """The first answer of an engine, as it came."""

    name: JsonValue
    version: JsonValue
    protocol: JsonValue


class Timing(_Shape):
    """Ticks of a run: when the first was due (monotonic ns), their length, their planned number."""

    t0_ns: _I64
    tick_ns: Annotated[int, Field(gt=0, lt=2**63)]
    ticks: _Count


class MadeAt(_Shape):
    """Provenance of a run: names that no pack of it may hold; engine: path of engine.toml."""

    engine: str
    folders: dict[str, str]
    user: str
    host: str
    addresses: list[str]


class Process(_Shape):
    """A process that was left over."""

    pid: int
    name: str


class KafkaTimeouts(_Shape):
    """Timeouts of a run over Kafka, in seconds."""

    session_s: _Number = 0.0
    transaction_s: _Number = 0.0


class Service(_Shape):
    """Facts that a run of tier 5 is judged by.

    profile: as of `latency.Profile.to_json`. within_s: time to recover. manner: scheduling policy
    and nice value that the engine was started with.
    """

    profile: dict[str, Any] = {}
    within_s: _Number = 0.0
    manner: dict[str, Any] = {}


class Cores(_Shape):
    """Cores of kit and engine; refused: why the engine could not be pinned."""

    kit: list[int] = []
    engine: list[int] = []
    shared: bool = False
    refused: list[str] = []


class Files(_Shape):
    """Files below a folder."""

    bytes: _Count
    files: _Count


class RunRecord(_Shape):
    """Everything that run.json says of a run.

    outputs: records; by_symbol: symbol -> [rejected orders, orders] of a recorded market. kept:
    the folder of the state at the end. known_gaps: requirement -> why it is not met.
    """

    id: str = ""
    kit: str = "of an unknown version"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    engine: Engine
    claims: Claims
    scenario_json: dict[str, Any] = Field(alias="scenario")
    input: Input
    ended: Ended = Ended(how="kit-error", message="the run did not end")
    ended_ns: _I64 = 0
    started_ns: _I64 = 0
    started: _Number = 0.0
    event_counts: dict[str, _Count] = {}
    known_gaps: dict[str, str] = {}
    pace: Timing | None = None
    service: Service = Service()
    cores: Cores = Cores()
    hello: Annotated[Hello | None, BeforeValidator(lambda data: None if data == {} else data)] = (
        None
    )
    made_at: MadeAt | None = None
    isolation: str = ""
    hosts: _Count = 0
    kafka: KafkaTimeouts = KafkaTimeouts()
    kept: Files | None = None
    left_over: list[Process] = []
    outputs: _Count = 0
    by_symbol: dict[str, list[int]] = {}

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario that was played."""
        return Scenario.from_json(self.scenario_json)

    @model_validator(mode="before")
    @classmethod
    def _objects_where_present(cls, data: dict[str, Any]) -> dict[str, Any]:
        for key in ("ended", "pace", "made_at"):
            if key in data and data[key] is None:
                raise ValueError(f"{key}: expected an object")
        return data


_SCENARIO: TypeAdapter[Scenario] = TypeAdapter(Scenario)


def read(path: Path, run: dict[str, Any]) -> RunRecord:
    """Return the record of a run; raises HistoryError with the first key of a wrong shape."""
    try:
        record = RunRecord.model_validate(run)
        _SCENARIO.validate_json(_SCENARIO.dump_json(record.scenario))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "scenario"
        raise HistoryError(f"{path}: {shown(key, 120)}: {shown(first['msg'], 300)}") from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise HistoryError(f"{path}: scenario: {shown(why, 300)}") from error
    return record
