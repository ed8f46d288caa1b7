"""The language of schedules: one run in TOML or JSON, the same for every engine.

docs/schedules.md explains every key. What a schedule leaves out has the default of the
scenario, the recipe or the fault step that it becomes.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Annotated, Any, Final

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from tickproof.conformance.errors import TickproofError
from tickproof.conformance.scenario import (
    LASTING,
    TARGETS,
    App,
    Do,
    FaultStep,
    Moment,
    Scenario,
    SinkBehaviour,
    Target,
)
from tickproof.conformance.text import shown
from tickproof.generators import recipes

#: Scenarios that come from a schedule are named so.
PREFIX: Final = "schedule-"
#: The kind of input of each app.
KINDS: Final[dict[App, str]] = {
    "passthrough": "payloads", "double": "numbers", "count": "keyed", "market-spread": "market",
}  # fmt: skip
_PARAMS: Final[dict[App, dict[str, tuple[str, ...]]]] = {
    "passthrough": {},
    "double": {},
    "count": {"emit": ("every", "some")},
    "market-spread": {"inputs": recipes.INPUTS, "emit": ("rejects", "verdicts")},
}
#: Moments that a part of the input says: the others follow from the fault before, or the end.
PLACED: Final = frozenset(("fetched", "losing", "staged", "accepted", "committing", "checkpoint"))
#: Keys of a step that only some faults have, and which.
_ONLY: Final[dict[str, frozenset[str]]] = {
    "seconds": LASTING, "lag_s": frozenset(("delay",)), "rate": frozenset(("throttle",)),
}  # fmt: skip

_Seconds = Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Rate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0, le=2**32)]
_Line = Annotated[str, Field(max_length=4_000)]


class ScheduleError(TickproofError):
    """A schedule that cannot be used: file, key and what was expected, one line each."""


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Input(_Table):
    """[input]: keys of the generators' recipes; which of them apply follows from the app."""

    records: _Count
    partitions: Annotated[int, Field(ge=1, le=4_096)] | None = None
    tick: Annotated[int, Field(ge=1, le=2**32)] | None = None
    size: Annotated[int, Field(ge=1, le=1 << 20)] | None = None
    keys: Annotated[int, Field(ge=1, le=2**24)] | None = None
    hot_share: _Share | None = None
    hot_keys: _Share | None = None
    edge_keys: bool | None = None
    wrap: bool | None = None
    symbols: Annotated[int, Field(ge=1, le=3_000)] | None = None
    hot_symbols: _Share | None = None
    reject_one_in: _Count | None = None
    probe_one_in: _Count | None = None
    crossed: bool | None = None
    rate: Annotated[int, Field(ge=1, le=10**9)] | None = None
    start_ns: Annotated[int, Field(ge=0, le=2**62)] | None = None


class Step(_Table):
    """One [[fault]]: the fields of `FaultStep`, those that apply."""

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

    @model_validator(mode="after")
    def _applies(self) -> Step:
        if self.target not in TARGETS[self.do]:
            expected = f"one of {', '.join(TARGETS[self.do])} for {self.do}"
            raise _wrong("target", expected, self.target)
        for key, those in _ONLY.items():
            if self.do in those and getattr(self, key) <= 0:
                raise _wrong(key, f"a number above 0 for {self.do}", getattr(self, key))
            if self.do not in those and getattr(self, key):
                raise _wrong(key, f"only with {', '.join(sorted(those))}", getattr(self, key))
        for key in ("fraction", "burst", "cut"):
            if self.at not in PLACED and getattr(self, key):
                raise _wrong(key, f"none at {self.at}", getattr(self, key))
        return self

    def step(self) -> FaultStep:
        """Return the fault step."""
        return FaultStep(**dict(self))


class Failure(_Table):
    """[failure]: what a regression once showed. Nothing depends on it.

    confidence: "3 of 3" runs. seed: of the search that found it.
    """

    engine: _Line
    reason: _Line
    actual: _Line = ""
    confidence: Annotated[str, Field(pattern=r"^\d+ of \d+$")]
    seed: Annotated[int, Field(ge=0, lt=2**63)]


class Schedule(_Table):
    """A whole schedule. ``seed``: of the input, and of the choice among processes."""

    app: App
    params: dict[str, str] = Field(default_factory=dict)
    workers: Annotated[int, Field(ge=1, le=1_024)] = 2
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    rate: _Rate | None = None
    input: Input
    fault: list[Step] = Field(default_factory=list, max_length=64)
    failure: Failure | None = None

    @model_validator(mode="after")
    def _fits(self) -> Schedule:
        known = _PARAMS[self.app]
        if self.params.keys() != known.keys():
            expected = ", ".join(known) or "nothing"
            raise _wrong("params", f"{expected} for {self.app}", ", ".join(self.params))
        for name, values in known.items():
            if self.params[name] not in values:
                raise _wrong(f"params.{name}", f"one of {', '.join(values)}", self.params[name])
        self._input_fits()
        self._order_fits()
        return self

    def _input_fits(self) -> None:
        kind = recipes.KEYS[KINDS[self.app]]
        for key in self.input.model_dump(exclude_none=True):
            if key not in kind:
                applies = ", ".join(k for k in Input.model_fields if k in kind)
                raise _wrong(f"input.{key}", f"one of {applies} for {self.app}", key)
        for key, default in kind.items():
            asked = default is recipes.REQUIRED and key in Input.model_fields
            if asked and getattr(self.input, key) is None:
                raise _wrong(f"input.{key}", f"a value, which {self.app} needs", None)

    def _order_fits(self) -> None:
        for number, step in enumerate(self.fault, 1):
            if number == 1 and step.at == "recovery":
                raise _wrong("fault 1: at", "a fault before a recovery", step.at)
            if step.at != "drained" and any(s.at == "drained" for s in self.fault[: number - 1]):
                raise _wrong(f"fault {number}: at", "drained, as the step before", step.at)


def _wrong(key: str, expected: str, got: object) -> PydanticCustomError:
    return PydanticCustomError(
        "schedule", "{text}", {"key": key, "text": f"expected {expected}; got {got!r}"}
    )


def to_scenario(schedule: Schedule, name: str = "given") -> Scenario:
    """Return the scenario that a schedule describes; ``name`` becomes schedule-NAME."""
    given = schedule.input.model_dump(exclude_none=True)
    recipe = {"kind": KINDS[schedule.app], "seed": schedule.seed, **given}
    recipe.setdefault("tick", tick_for(schedule.input.records))
    if schedule.app == "market-spread":
        recipe["inputs"] = schedule.params["inputs"]
    return Scenario(
        PREFIX + name, schedule.app, dict(schedule.params), recipe, schedule.workers,
        schedule.rate, faults=tuple(step.step() for step in schedule.fault),
    )  # fmt: skip


def tick_for(records: int) -> int:
    """Return a tick that lets a small input out in many steps, a large one in few."""
    return max(1, min(64, records // 64))


def from_scenario(scenario: Scenario, failure: Failure | None = None) -> Schedule:
    """Return the schedule of a scenario; ValueError for what the language cannot say."""
    recipe = dict(scenario.recipe)
    kind, seed = recipe.pop("kind"), recipe.pop("seed")
    recipe.pop("inputs", None)
    recipe.setdefault("tick", recipes.KEYS[kind]["tick"])
    if kind != KINDS[scenario.app]:
        raise ValueError(f"{scenario.name}: input of kind {kind!r} cannot be said in a schedule")
    plain = Scenario(
        scenario.name, scenario.app, scenario.params, scenario.recipe, scenario.workers,
        scenario.rate, faults=scenario.faults,
    )  # fmt: skip
    if replace(scenario, sink=replace(scenario.sink, seed=0)) != replace(
        plain, sink=SinkBehaviour()
    ):
        raise ValueError(
            f"{scenario.name}: sink, hold, drain_at, ending, probes, fresh, pace cannot be said"
        )
    return Schedule(
        app=scenario.app, params=scenario.params, workers=scenario.workers, seed=seed,
        rate=None if scenario.rate is None else float(scenario.rate), input=Input(**recipe),
        fault=[Step(**_said(step)) for step in scenario.faults], failure=failure,
    )  # fmt: skip


def _said(step: FaultStep) -> dict[str, Any]:
    """Return the fields of a step that are not at their defaults; numbers as the file has them."""
    said = {}
    for field in fields(step):
        value = getattr(step, field.name)
        if field.default is MISSING or value != field.default:
            said[field.name] = float(value) if isinstance(field.default, float) else value
    return said


def to_toml(schedule: Schedule) -> str:
    """Return a schedule as TOML that reads as itself: one line a fault."""
    data = schedule.model_dump(exclude_none=True, exclude_defaults=True)
    for key in ("params", "fault"):
        if not data.get(key):
            data.pop(key, None)
    data["workers"], data["seed"] = schedule.workers, schedule.seed
    order = [key for key in Schedule.model_fields if key in data]
    return tomli_w.dumps({key: data[key] for key in order})


def parse(text: str, source: str, *, as_json: bool = False) -> Schedule:
    """Return the schedule of a text; raises ScheduleError that names ``source`` and key."""
    try:
        data = json.loads(text) if as_json else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        wanted = "JSON" if as_json else "TOML"
        raise ScheduleError(f"{source}: expected {wanted}; {shown(str(error), 300)}") from error
    try:
        return Schedule.model_validate(data)
    except ValidationError as error:
        lines = [f"{source}: {_told(detail)}" for detail in error.errors(include_url=False)]
        raise ScheduleError("\n".join(lines)) from error


def load(path: Path) -> Schedule:
    """Read a schedule from a .toml or .json file; raises ScheduleError."""
    if path.suffix not in (".toml", ".json"):
        raise ScheduleError(f"{path}: expected a file that ends in .toml or .json")
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise ScheduleError(f"{path}: expected a readable file; {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScheduleError(f"{path}: expected UTF-8; byte {error.start} is not") from error
    return parse(text, str(path), as_json=path.suffix == ".json")


def load_all(paths: Iterable[Path]) -> dict[str, Scenario]:
    """Load schedules as scenarios by their names, none twice; raises ScheduleError."""
    found: dict[str, Scenario] = {}
    for path in paths:
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-")[:60] or "one"
        name, number = stem, 1
        while PREFIX + name in found:
            number += 1
            name = f"{stem}-{number}"
        found[PREFIX + name] = to_scenario(load(path), name)
    return found


def _told(detail: ErrorDetails) -> str:
    """Put one error of pydantic in the words of the file."""
    where = _where(detail["loc"])
    context: Mapping[str, Any] = detail.get("ctx", {})
    got = f"; got {shown(repr(detail['input']), 80)}"
    match detail["type"]:
        case "schedule":
            key = f"{where}: {context['key']}" if where else context["key"]
            return f"{key}: {shown(context['text'], 300)}"
        case "missing":
            return f"{where}: missing"
        case "extra_forbidden":
            return f"{where}: unknown key; expected one of {', '.join(_keys(detail['loc'][:-1]))}"
        case "model_type" | "dict_type" | "model_attributes_type":
            return f"{where or 'the whole'}: expected a table{got}"
    expected = detail["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return f"{where}: expected {shown(expected, 300)}{got}"


def _where(loc: tuple[int | str, ...]) -> str:
    """Say where: ("fault", 1, "do") is "fault 2: do", ("input", "keys") is "input.keys"."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f" {part + 1}:"
        else:
            joint = "" if not text else " " if text.endswith(":") else "."
            text += joint + shown(part, 80)
    return text.removesuffix(":")


def _keys(loc: tuple[int | str, ...]) -> list[str]:
    tables: dict[str, type[BaseModel]] = {"input": Input, "fault": Step, "failure": Failure}
    return list((tables[str(loc[0])] if loc else Schedule).model_fields)
