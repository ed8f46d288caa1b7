"""The shape of run.json: what must be there, and of which type, before anything is judged.

Keys that are not named here are for others to check.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.text import shown
from tickproof.generators.spread_rule import decimals_of

_I64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Count = Annotated[int, Field(ge=0, lt=2**48)]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Engine(_Shape):
    name: str
    version: str
    language: str = ""


class _Claims(_Shape):
    state: str
    delivery: str
    survives: list[str]
    rescale: str
    freshness_s: _Number | None = None
    latency: str | None = None


class _Partition(_Shape):
    stream: Annotated[int, Field(ge=0, lt=2**16)]
    partition: Annotated[int, Field(ge=0, lt=2**16)]
    file: Annotated[str, Field(pattern=r"^input/s\d{1,5}p\d{1,5}\.log$")]
    record_size: Annotated[int, Field(ge=0, lt=2**24)]
    records: _Count
    sha256: str


class _Input(_Shape):
    recipe: dict[str, Any]
    warnings: Any = None
    symbols: Any = None
    partitions: list[_Partition]

    @field_validator("recipe")
    @classmethod
    def _unit_of_price(cls, recipe: dict[str, Any]) -> dict[str, Any]:
        decimals_of(recipe)
        return recipe


class _Ended(_Shape):
    how: Literal["completed", "engine-failure", "kit-error"]
    code: str = ""
    message: str = ""
    stderr: list[str] = []

    @model_validator(mode="before")
    @classmethod
    def _says_why(cls, data: Any) -> Any:
        needed = {"engine-failure": ("code", "message"), "kit-error": ("message",)}
        if isinstance(data, dict):
            for key in needed.get(str(data.get("how")), ()):
                if key not in data:
                    raise ValueError(f"{key}: missing")
        return data


class _Pace(_Shape):
    t0_ns: _I64
    tick_ns: Annotated[int, Field(gt=0, lt=2**63)]
    ticks: _Count


class _MadeAt(_Shape):
    engine: str
    folders: dict[str, str]
    user: str
    host: str
    addresses: list[str]


class _Record(_Shape):
    id: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    engine: _Engine
    claims: _Claims
    scenario: dict[str, Any]
    input: _Input
    ended: _Ended | None = None
    ended_ns: _I64 = 0
    started_ns: _I64 = 0
    started: _Number = 0.0
    files: dict[str, _Count] = {}
    sha256: dict[str, str] = {}
    event_counts: dict[str, _Count] = {}
    known_gaps: dict[str, str] = {}
    pace: _Pace | None = None
    service: dict[str, Any] = {}
    cores: dict[str, Any] = {}
    hello: dict[str, Any] = {}
    made_at: _MadeAt | None = None

    @model_validator(mode="before")
    @classmethod
    def _objects_where_present(cls, data: dict[str, Any]) -> dict[str, Any]:
        for key in ("ended", "pace", "made_at"):
            if key in data and data[key] is None:
                raise ValueError(f"{key}: expected an object")
        return data


_SCENARIO: TypeAdapter[Scenario] = TypeAdapter(Scenario)


def check(path: Path, run: dict[str, Any]) -> None:
    """Expect a run.json of the right shape; raises HistoryError with the first key that is not."""
    try:
        _Record.model_validate(run)
        _SCENARIO.validate_json(_SCENARIO.dump_json(Scenario.from_json(run["scenario"])))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "scenario"
        raise HistoryError(f"{path}: {shown(key, 120)}: {shown(first['msg'], 300)}") from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise HistoryError(f"{path}: scenario: {shown(why, 300)}") from error
