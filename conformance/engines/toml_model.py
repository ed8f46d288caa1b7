"""The shape of engine.toml: pydantic models, and errors in the words of the file."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from tickproof.conformance.text import shown

State = Literal["none", "at-most-once", "at-least-once", "exactly-once"]
Delivery = Literal["at-least-once", "exactly-once"]
Death = Literal["worker", "coordinator", "engine", "connection"]
Rescale = Literal["none", "restart", "live"]
Emit = Literal["every", "some"]
Inputs = Literal["merged", "two"]
MarketEmit = Literal["rejects", "verdicts"]
Text = Annotated[str, Field(min_length=1, max_length=200)]
#: The name of an SLA profile that comes with the kit.
ProfileName = Annotated[str, Field(min_length=1, max_length=40)]
Argument = Annotated[str, Field(pattern=r"^[^\x00]*$")]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]

CLAIMS = ("state", "delivery", "survives", "rescale", "latency")


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class EngineTable(_Table):
    """[engine]."""

    name: Text
    version: Text
    language: Text
    argv: list[Argument] = Field(min_length=1)
    transports: list[Literal["log"]] = Field(min_length=1)
    startup_timeout_s: Seconds = 30.0
    drain_timeout_s: Seconds = 30.0
    recovery_timeout_s: Seconds = 60.0
    cut_timeout_s: Seconds = 6.0


class _ClaimsTable(_Table):
    def claims_set(self) -> dict[str, Any]:
        """Return the claims that this table holds."""
        found = {name: getattr(self, name) for name in CLAIMS}
        return {name: value for name, value in found.items() if value is not None}


class ClaimsTable(_ClaimsTable):
    """[claims]."""

    state: State
    delivery: Delivery
    survives: list[Death]
    rescale: Rescale
    latency: ProfileName | None = None


class Overrides(_ClaimsTable):
    """A sub-table of an app: claims for one value of inputs or emit."""

    state: State | None = None
    delivery: Delivery | None = None
    survives: list[Death] | None = None
    rescale: Rescale | None = None
    latency: ProfileName | None = None


class App(Overrides):
    """[apps.passthrough], [apps.double]: no params."""

    def parameter_values(self) -> dict[str, list[str]]:
        """Return the offered values of each param."""
        found = {name: getattr(self, name, None) for name in ("inputs", "emit")}
        return {name: values for name, values in found.items() if values is not None}

    def overrides_for(self, values: Iterable[str]) -> list[Overrides]:
        """Return the sub-tables of these values."""
        found = [getattr(self, value) for value in values]
        return [table for table in found if table is not None]


class CountApp(App):
    """[apps.count]."""

    emit: list[Emit] = Field(min_length=1)
    every: Overrides | None = None
    some: Overrides | None = None


class MarketApp(App):
    """[apps.market-spread]."""

    inputs: list[Inputs] = Field(min_length=1)
    emit: list[MarketEmit] = Field(min_length=1)
    merged: Overrides | None = None
    two: Overrides | None = None
    rejects: Overrides | None = None
    verdicts: Overrides | None = None
    freshness_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] | None = None


class AppsTable(_Table):
    """[apps]: only the apps named are tried."""

    passthrough: App | None = None
    double: App | None = None
    count: CountApp | None = None
    market_spread: MarketApp | None = Field(default=None, alias="market-spread")

    def offered(self) -> dict[str, App]:
        """Return the tables of the apps named, by the name of the app."""
        return {
            field.alias or name: table
            for name, field in type(self).model_fields.items()
            if (table := getattr(self, name)) is not None
        }


class EngineFile(_Table):
    """A whole engine.toml."""

    engine: EngineTable
    claims: ClaimsTable
    apps: AppsTable
    known_gaps: dict[str, Text] = Field(default_factory=dict)


def parse(data: dict[str, Any]) -> tuple[EngineFile | None, list[str]]:
    """Return (model, []) or (None, what is wrong: one line each, in the file's words)."""
    model, errors = None, []
    try:
        model = EngineFile.model_validate(data)
    except ValidationError as error:
        errors = [_line(detail) for detail in error.errors(include_url=False)]
    errors += _across_keys(data)
    return (None, errors) if errors else (model, [])


def unknown_gaps(data: dict[str, Any], known: Collection[str] | None) -> list[str]:
    """Return an error for each entry of known_gaps that is no requirement."""
    gaps = data.get("known_gaps")
    if known is None or not isinstance(gaps, dict):
        return []
    errors = []
    for name in gaps:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            errors.append(f"[known_gaps] {_quoted(name)}: expected the id of a requirement{hint}")
    return errors


def unknown_profiles(data: dict[str, Any], known: Collection[str]) -> list[str]:
    """Return an error for each claim of latency that names none of ``known``."""
    errors = []
    for where, table in _tables(data):
        name = table.get("latency")
        if isinstance(name, str) and name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            expected = f"the name of an SLA profile, one of {', '.join(sorted(known))}"
            errors.append(f"{where} latency: expected {expected}; got {_quoted(name)}{hint}")
    return errors


def _tables(data: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return each table that may hold claims, and how to name it."""
    found = [("[claims]", data.get("claims"))]
    apps = data.get("apps")
    for app, table in apps.items() if isinstance(apps, dict) else ():
        where = f"[apps.{shown(str(app), 80)}"
        found.append((f"{where}]", table))
        below = table.items() if isinstance(table, dict) else ()
        found += [(f"{where}.{shown(str(value), 80)}]", one) for value, one in below]
    return [(where, table) for where, table in found if isinstance(table, dict)]


def _across_keys(data: dict[str, Any]) -> list[str]:
    """Check what ties keys together, on raw data: one bad key must not hide another."""
    apps = data.get("apps")
    if not isinstance(apps, dict):
        return []
    errors = [] if apps else ["[apps]: expected at least one app"]
    for name, table in apps.items():
        if isinstance(table, dict) and name in ("count", "market-spread"):
            errors += _app_errors(name, table)
    return errors


def _app_errors(app: str, table: dict[str, Any]) -> list[str]:
    where, errors = f"[apps.{app}]", []
    inputs, emit = (_strings(table.get(key)) for key in ("inputs", "emit"))
    if app == "market-spread":
        if "two" in inputs and "freshness_s" not in table:
            errors.append(f'{where} freshness_s: missing; required where inputs holds "two"')
        if "two" not in inputs and "freshness_s" in table:
            errors.append(f'{where} freshness_s: expected only where inputs holds "two"')
    for key, values in (("inputs", inputs), ("emit", emit)):
        if len(set(values)) < len(values):
            errors.append(f"{where} {key}: expected each value once; got {_quoted(values)}")
    for key, value in table.items():
        if isinstance(value, dict) and key in _VALUES[app] and key not in inputs + emit:
            errors.append(f"[apps.{app}.{key}]: {key} is not offered by {where}")
    for first in inputs:
        for second in emit:
            errors += _conflicts(app, table, first, second)
    return errors


_VALUES = {
    "count": ("every", "some"),
    "market-spread": ("merged", "two", "rejects", "verdicts"),
}


def _conflicts(app: str, table: dict[str, Any], first: str, second: str) -> list[str]:
    one, other = table.get(first), table.get(second)
    if not isinstance(one, dict) or not isinstance(other, dict):
        return []
    return [
        f"[apps.{app}.{first}] and [apps.{app}.{second}]: {claim} differs; "
        f"which holds for inputs {first} with emit {second} is not said"
        for claim in CLAIMS
        if claim in one and claim in other and one[claim] != other[claim]
    ]


def _strings(value: Any) -> list[str]:
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


_KINDS = {
    "string_type": "text",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "string_too_short": "text that is not empty",
    "too_short": "a list that is not empty",
    "finite_number": "a finite number",
    "string_pattern_mismatch": "text without NUL",
}


def _line(detail: ErrorDetails) -> str:
    """Put one error of pydantic in the words of the file."""
    kind, loc, context = detail["type"], detail["loc"], detail.get("ctx", {})
    where = _where(loc, kind, detail["input"])
    if kind == "missing":
        return f"{where}: missing"
    if kind == "extra_forbidden":
        return f"{where}: unknown key; expected one of {', '.join(_keys_at(loc[:-1]))}"
    got = f"; got {_quoted(detail['input'])}"
    if kind == "literal_error":
        choices = context["expected"].replace(" or ", ", ").replace("'", "")
        many = "one of " if ", " in choices else ""
        return f"{where}: expected {many}{choices}{got}"
    if kind in ("greater_than", "greater_than_equal", "less_than_equal"):
        bound = {"greater_than": ("above", "gt"), "greater_than_equal": ("at least", "ge")}
        word, key = bound.get(kind, ("at most", "le"))
        return f"{where}: expected a number {word} {context[key]:g}{got}"
    if kind == "string_too_long":
        return f"{where}: expected at most {context['max_length']} characters{got}"
    return f"{where}: expected {_KINDS.get(kind, detail['msg'])}{got}"


def _where(loc: tuple[int | str, ...], kind: str, value: Any) -> str:
    """Say where: ('apps', 'count', 'emit', 0) is "[apps.count] emit[0]"."""
    names = [part for part in loc if isinstance(part, str)]
    index = "".join(f"[{part}]" for part in loc if isinstance(part, int))
    is_table = _model_at(loc) is not None or (kind == "extra_forbidden" and isinstance(value, dict))
    depth = len(names) if is_table or names == ["known_gaps"] else len(names) - 1
    table, key = ".".join(names[:depth]), "".join(names[depth:])
    section = f"[{shown(table, 80)}]" if table else ""
    return f"{section} {shown(key, 80)}{index}".strip()


def _model_at(loc: Iterable[int | str]) -> type[BaseModel] | None:
    """Return the model of the table at a place, None where no table belongs."""
    model: type[BaseModel] | None = EngineFile
    for part in loc:
        fields = {f.alias or name: f for name, f in model.model_fields.items()} if model else {}
        model = _model_of(fields[part].annotation) if part in fields else None
    return model


def _model_of(annotation: Any) -> type[BaseModel] | None:
    candidates = [annotation, *getattr(annotation, "__args__", ())]
    models = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
    return models[0] if models else None


def _keys_at(loc: Iterable[int | str]) -> list[str]:
    model = _model_at(loc)
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _quoted(value: Any) -> str:
    return shown(repr(value), 80)
