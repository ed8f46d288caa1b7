"""The shape of a profile file: pydantic models, and errors in the words of the file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from tickproof.conformance.scenario import App
from tickproof.conformance.text import shown

Text = Annotated[str, Field(min_length=1, max_length=400)]
#: A time or a rate that is not 0; no more than a day in microseconds.
Positive = Annotated[float, Field(gt=0, le=86_400e6, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=3_600, allow_inf_nan=False)]
Part = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Strict(BaseModel):
    """A table: no key but the known ones, no value of another type."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class About(Strict):
    """[profile]."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    what: Text
    source: Text


class Load(Strict):
    """[load]: rate in records a second over all streams and partitions."""

    app: App
    params: dict[str, str] = Field(default_factory=dict)
    rate: Annotated[int, Field(ge=1, le=10_000_000)]
    tick_us: Annotated[int, Field(ge=100, le=100_000)] = 1_000
    partitions: Annotated[int, Field(ge=1, le=64)] = 4
    workers: Annotated[int, Field(ge=1, le=64)] = 2
    probes_per_s: Annotated[int, Field(ge=1)] | None = None
    symbols: Annotated[int, Field(ge=1, le=3_000)] | None = None
    duration_s: Seconds
    warm_up_s: Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)]


class Runs(Strict):
    """[runs]: how many are asked for, how many are played at most, how many may be void."""

    # Fewer than 5 that are all under a limit happen too often by chance.
    least: Annotated[int, Field(ge=5, le=30)] = 5
    most: Annotated[int, Field(ge=6, le=30)] = 9
    void_most: Annotated[int, Field(ge=0, le=30)] = 5


class Recovering(Strict):
    """[recovering]: who is killed at which part of the input; when p99 must be back."""

    kill: Literal["worker", "workers", "coordinator", "engine"]
    at: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
    within_s: Seconds


class Generator(Strict):
    """[generator]."""

    late_p99_us: Positive


class Host(Strict):
    """[host]."""

    level: Literal["none", "P0", "P1", "P2"]
    hiccup_us: Positive
    foreign: Annotated[float, Field(gt=0, le=4_096, allow_inf_nan=False)]
    noisy: Part


class CoreCounts(Strict):
    """[cores]: how many cores kit and engine get, and the generator's real-time priority."""

    kit: Annotated[int, Field(ge=1, le=4_096)]
    engine: Annotated[int, Field(ge=1, le=4_096)]
    priority: Annotated[int, Field(ge=0, le=99)] = 0


class ProfileFile(Strict):
    """A whole profile. limits: microseconds by percentile."""

    profile: About
    load: Load
    runs: Runs = Runs()
    limits: dict[str, Positive] = Field(min_length=1)
    recovering: Recovering | None = None
    generator: Generator
    host: Host
    cores: CoreCounts | None = None


def parse(data: dict[str, Any]) -> tuple[ProfileFile | None, list[str]]:
    """Return (model, []) or (None, what is wrong: one line each, in the file's words)."""
    try:
        return ProfileFile.model_validate(data), []
    except ValidationError as error:
        return None, [_line(detail) for detail in error.errors(include_url=False)]


_KINDS = {
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "too_short": "a table that is not empty",
}
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}


def _line(detail: ErrorDetails) -> str:
    """Put one error of pydantic in the words of the file."""
    kind, loc, context = detail["type"], [str(part) for part in detail["loc"]], detail.get("ctx")
    where = _where(loc)
    if kind == "missing":
        return f"{where}: missing"
    if kind == "extra_forbidden":
        return f"{where}: unknown key; expected one of {', '.join(_keys(loc[:-1]))}"
    got = f"got {shown(repr(detail['input']), 80)}"
    if context and kind in _BOUNDS:
        word, key = _BOUNDS[kind]
        return f"{where}: expected a number {word} {context[key]:,g}; {got}"
    if context and kind == "literal_error":
        choices = context["expected"].replace(" or ", ", ").replace("'", "")
        return f"{where}: expected one of {choices}; {got}"
    if context and kind == "string_too_long":
        return f"{where}: expected at most {context['max_length']} characters; {got}"
    if kind == "string_pattern_mismatch":
        expected = "1 to 40 small letters, digits and hyphens, a hyphen not first"
        return f"{where}: expected {expected}; {got}"
    return f"{where}: expected {_KINDS.get(kind, detail['msg'])}; {got}"


def _where(loc: list[str]) -> str:
    """Say where: ("load", "rate") is "[load] rate", ("load",) is "[load]"."""
    section, *keys = (shown(part, 80) for part in loc)
    return f"[{section}] {' '.join(keys)}".rstrip()


def _keys(loc: list[str]) -> list[str]:
    """Return the keys of the table at a place."""
    if not loc:
        return list(ProfileFile.model_fields)
    found = ProfileFile.model_fields[loc[0]].annotation
    tables = [found, *getattr(found, "__args__", ())]
    model = next(t for t in tables if isinstance(t, type) and issubclass(t, BaseModel))
    return list(model.model_fields)
