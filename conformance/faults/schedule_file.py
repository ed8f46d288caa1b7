"""The language of schedules: one run in TOML or JSON, the same for every engine.

docs/schedules.md explains every key. What a schedule leaves out has the default of the
scenario, the recipe or the fault step that it becomes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import tomli_w
from pydantic import Field, model_validator

from tickproof.conformance import strict_toml
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.fault_steps import FaultStep, Row, ScaleStep
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.moments import CUTS, DRAINED, IDLE, RECOVERY, SCALING, moment_of
from tickproof.conformance.scenario import JudgedApp, Scenario, SinkBehaviour
from tickproof.conformance.strict_toml import Table, matching, wrong
from tickproof.conformance.text import shown
from tickproof.generators import recipes
from tickproof.generators.choices import EventTimes, KeyShape
from tickproof.generators.placement import Misplaced, Placement

#: Scenarios that come from a schedule are named so.
PREFIX: Final = "schedule-"
#: The kind of input of each app.
KINDS: Final[dict[JudgedApp, str]] = {
    "passthrough": "payloads", "double": "numbers", "count": "keyed", "market-spread": "market",
}  # fmt: skip
_PARAMS: Final[dict[JudgedApp, dict[str, tuple[str, ...]]]] = {
    "passthrough": {},
    "double": {},
    "count": {"emit": ("every", "some")},
    "market-spread": {"inputs": recipes.INPUTS, "emit": ("rejects", "verdicts")},
}

_Seconds = Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Rate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0, le=2**32)]
_Partitions = Annotated[list[Annotated[int, Field(ge=0, le=4_095)]], Field(max_length=4_096)]
_Secret = Annotated[str, matching(r"[0-9a-f]{1,32}", "1 to 32 hexadecimal digits")]
_Line = Annotated[str, Field(max_length=4_000)]


class Input(Table):
    """[input]: keys of the generators' recipes; which of them apply follows from the app."""

    records: _Count
    partitions: Annotated[int, Field(ge=1, le=4_096)] | None = None
    empty: _Partitions | None = None
    ended_early: _Partitions | None = None
    begin_late: _Partitions | None = None
    skew: _Share | None = None
    tick: Annotated[int, Field(ge=1, le=2**32)] | None = None
    size: Annotated[int, Field(ge=1, le=1 << 20)] | None = None
    keys: Annotated[int, Field(ge=1, le=2**24)] | None = None
    hot_share: _Share | None = None
    hot_keys: _Share | None = None
    edge_keys: bool | None = None
    wrap: bool | None = None
    units: bool | None = None
    edges: bool | None = None
    key_shape: KeyShape | None = None
    falling_ids: bool | None = None
    symbols: Annotated[int, Field(ge=1, le=3_000)] | None = None
    hot_symbols: _Share | None = None
    reject_one_in: _Count | None = None
    probe_one_in: _Count | None = None
    crossed: bool | None = None
    rate: Annotated[int, Field(ge=1, le=10**9)] | None = None
    start_ns: Annotated[int, Field(ge=0, le=2**62)] | None = None
    event_times: EventTimes | None = None


class Step(Row):
    """One [[fault]]: a step whose values make sense together."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Step:
        step = self.step()
        if misfit := fault_of(step).misfit():
            raise wrong(misfit[0], getattr(self, misfit[1]), misfit[1])
        for key in ("fraction", "burst", "cut"):
            if not moment_of(step).placed and getattr(self, key):
                raise wrong(f"none at {self.at}", getattr(self, key), key)
        for key, moment in (("cuts", CUTS), ("idle_s", IDLE)):
            if moment_of(step) is not moment and getattr(self, key):
                raise wrong(f"only at {moment.name}", getattr(self, key), key)
        return self


class Failure(Table):
    """[failure]: what a regression once showed. Nothing depends on it.

    confidence: "3 of 3" runs. seed: of the search that found it.
    """

    engine: _Line
    reason: _Line
    actual: _Line = ""
    confidence: Annotated[str, matching(r"\d+ of \d+", 'text such as "3 of 3"')]
    seed: Annotated[int, Field(ge=0, lt=2**63)]


class Schedule(Table):
    """A whole schedule.

    seed: of the input, and of the choice among processes. secret: of the input; None: the
    session's.
    """

    app: JudgedApp
    params: dict[str, str] = Field(default_factory=dict)
    workers: Annotated[int, Field(ge=1, le=1_024)] = 2
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    secret: _Secret | None = None
    rate: _Rate | None = None
    input: Input
    fault: list[Step] = Field(default_factory=list, max_length=64)
    hold: Annotated[tuple[_Share, _Seconds], Field(strict=False)] | None = None
    failure: Failure | None = None

    @model_validator(mode="after")
    def _fits(self) -> Schedule:
        known = _PARAMS[self.app]
        if self.params.keys() != known.keys():
            expected = ", ".join(known) or "nothing"
            raise wrong(f"{expected} for {self.app}", ", ".join(self.params), "params")
        for name, values in known.items():
            if self.params[name] not in values:
                raise wrong(f"one of {', '.join(values)}", self.params[name], "params", name)
        self._input_fits()
        self._order_fits()
        return self

    def _input_fits(self) -> None:
        kind = recipes.KEYS[KINDS[self.app]]
        for key in self.input.model_dump(exclude_none=True):
            if key not in kind:
                applies = ", ".join(k for k in Input.model_fields if k in kind)
                raise wrong(f"one of {applies} for {self.app}", key, "input", key)
        for key, default in kind.items():
            asked = default is recipes.REQUIRED and key in Input.model_fields
            if asked and getattr(self.input, key) is None:
                raise wrong(f"a value, which {self.app} needs", None, "input", key)
        try:
            Placement(
                self.input.partitions or kind["partitions"],
                tuple(self.input.empty or ()),
                tuple(self.input.ended_early or ()),
                tuple(self.input.begin_late or ()),
                skew=self.input.skew or 0.0,
            )
        except Misplaced as error:
            key = error.key
            raise wrong(error.expected, getattr(self.input, key), "input", key) from error

    def _order_fits(self) -> None:
        steps = [row.step() for row in self.fault]
        for number, step in enumerate(steps):
            if expected := out_of_place(step, steps[:number]):
                raise wrong(expected, step.at, "fault", number, "at")


def out_of_place(step: FaultStep, before: Sequence[FaultStep]) -> str:
    """Return what was expected of a step after those before it, "" where it makes sense."""
    moment = moment_of(step)
    if not before and moment is RECOVERY:
        return "a fault before a recovery"
    if moment is SCALING and not isinstance(before[-1] if before else None, ScaleStep):
        return "a scale before it"
    if moment is not DRAINED and any(moment_of(one) is DRAINED for one in before):
        return "drained, as the step before"
    return ""


def to_scenario(schedule: Schedule, name: str = "given") -> Scenario:
    """Return the scenario that a schedule describes; ``name`` becomes schedule-NAME."""
    given = schedule.input.model_dump(exclude_none=True)
    recipe = {"kind": KINDS[schedule.app], "seed": schedule.seed, **given}
    recipe |= {"secret": schedule.secret} if schedule.secret else {}
    recipe.setdefault("tick", tick_for(schedule.input.records))
    if schedule.app == "market-spread":
        recipe["inputs"] = schedule.params["inputs"]
    return Scenario(
        PREFIX + name,
        schedule.app,
        dict(schedule.params),
        recipe,
        schedule.workers,
        schedule.rate,
        faults=tuple(row.step() for row in schedule.fault),
        hold=schedule.hold,
    )


def tick_for(records: int) -> int:
    """Return a tick that lets a small input out in many steps, a large one in few."""
    return max(1, min(64, records // 64))


def from_scenario(scenario: Scenario, failure: Failure | None = None) -> Schedule:
    """Return the schedule of a scenario; ValueError for what the language cannot say."""
    recipe = dict(scenario.recipe)
    kind, seed = recipe.pop("kind"), recipe.pop("seed")
    secret = recipe.pop("secret", None)
    recipe.pop("inputs", None)
    recipe.setdefault("tick", recipes.KEYS[kind]["tick"])
    if scenario.app == "ladder" or kind != KINDS[scenario.app]:
        raise ValueError(f"{scenario.name}: input of kind {kind!r} cannot be said in a schedule")
    plain = Scenario(
        scenario.name,
        scenario.app,
        scenario.params,
        scenario.recipe,
        scenario.workers,
        scenario.rate,
        faults=scenario.faults,
        hold=scenario.hold,
        point=scenario.point,
    )
    if replace(scenario, sink=replace(scenario.sink, seed=0)) != replace(
        plain, sink=SinkBehaviour()
    ):
        raise ValueError(
            f"{scenario.name}: sink, drain_at, ending, probes, checkpoints, fresh, pace cannot "
            "be said"
        )
    return Schedule(
        app=scenario.app,
        params=scenario.params,
        workers=scenario.workers,
        seed=seed,
        secret=secret,
        rate=None if scenario.rate is None else float(scenario.rate),
        input=Input(**recipe),
        hold=scenario.hold,
        fault=[Step(**_said(step)) for step in scenario.faults],
        failure=failure,
    )


def _said(step: FaultStep) -> dict[str, Any]:
    """Return the keys of a step that are not at their defaults; numbers as the file has them."""
    row, said = step.to_json(), {}
    for key, one in Row.model_fields.items():
        if row[key] != one.default:
            said[key] = float(row[key]) if isinstance(one.default, float) else row[key]
    return said


def to_toml(schedule: Schedule) -> str:
    """Return a schedule as TOML that reads as itself: one line a fault, if it fits."""
    data = schedule.model_dump(exclude_none=True, exclude_defaults=True)
    for key in ("params", "fault"):
        if not data.get(key):
            data.pop(key, None)
    data["workers"], data["seed"] = schedule.workers, schedule.seed
    order = [key for key in Schedule.model_fields if key in data]
    return tomli_w.dumps({key: data[key] for key in order})


def parse(text: str, source: str, *, as_json: bool = False) -> Schedule:
    """Return the schedule of a text; raises InvalidFile that names ``source`` and key."""
    path = Path(source)
    if not as_json:
        return strict_toml.validated(strict_toml.parse(text, path), path, Schedule)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFile(path, [f"expected JSON; {shown(str(error), 300)}"]) from error
    return strict_toml.validated(data, path, Schedule)


def load(path: Path) -> Schedule:
    """Read a schedule from a .toml or .json file; raises InvalidFile."""
    if path.suffix not in (".toml", ".json"):
        raise InvalidFile(path, ["expected a file that ends in .toml or .json"])
    return parse(strict_toml.read_text(path), str(path), as_json=path.suffix == ".json")


def load_all(paths: Iterable[Path]) -> dict[str, Scenario]:
    """Load schedules as scenarios by their names, none twice; raises InvalidFile."""
    found: dict[str, Scenario] = {}
    for path in paths:
        name = name_of(path, found)
        found[PREFIX + name] = to_scenario(load(path), name)
    return found


def name_of(path: Path, taken: Container[str]) -> str:
    """Return the name of the schedule in a file, one that with PREFIX is not taken."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-")[:60] or "one"
    name, number = stem, 1
    while PREFIX + name in taken:
        number += 1
        name = f"{stem}-{number}"
    return name
