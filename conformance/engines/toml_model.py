"""The shape of engine.toml: pydantic models, and what ties its keys together."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from tickproof.conformance.engines.security import (
    DEFAULT_MECHANISM,
    Mechanism,
    Security,
    SecurityProtocol,
)
from tickproof.conformance.engines.security import conflicts as security_conflicts
from tickproof.conformance.scenario import Death, Step
from tickproof.conformance.strict_toml import Table, did_you_mean, matching, quoted, wrong
from tickproof.conformance.text import shown

_LONGEST_MS: Final = 3_600_000


def _expression(text: str) -> str:
    """Accept a regular expression that can be compiled, and that nothing at all does not match."""
    expected = "a regular expression that empty text does not match"
    try:
        if re.search(text, ""):
            raise wrong(expected, text)
    except re.error as error:
        raise wrong(f"{expected} ({error})", text) from None
    return text


def _timeout(value: object) -> int:
    """Accept milliseconds; "none" is 0."""
    if value == "none":
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LONGEST_MS:
        return value
    raise wrong(f'milliseconds, 1 to {_LONGEST_MS}, or "none"', value)


State = Literal["none", "at-most-once", "at-least-once", "exactly-once"]
Delivery = Literal["at-least-once", "exactly-once"]
Rescale = Literal["none", "restart", "live"]
Emit = Literal["every", "some"]
Inputs = Literal["merged", "two"]
MarketEmit = Literal["rejects", "verdicts"]
Transport = Literal["log", "kafka"]
#: Names of `generators.partitioner.OF_CLIENTS`.
Partitioner = Literal["murmur2", "crc32", "fnv1a"]
#: "first": the host that argv is started on; "others": any but that; "any": all of them.
Placement = Literal["first", "others", "any"]
Text = Annotated[str, Field(min_length=1, max_length=200)]
#: The name of an SLA profile that comes with the kit.
ProfileName = Annotated[str, Field(min_length=1, max_length=40)]
Argument = Annotated[str, matching(r"[^\x00]*", "text without NUL")]
Timeout = Annotated[int, BeforeValidator(_timeout)]
Expression = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_expression)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]

CLAIMS = ("state", "delivery", "survives", "rescale", "latency")


class EngineTable(Table):
    """[engine]."""

    name: Text
    version: Text
    language: Text
    argv: list[Argument] = Field(min_length=1)
    prepare: list[Argument] | None = Field(default=None, min_length=1)
    transports: list[Transport] = Field(min_length=1, max_length=1)
    startup_timeout_s: Seconds = 30.0
    drain_timeout_s: Seconds = 30.0
    recovery_timeout_s: Seconds = 60.0
    cut_timeout_s: Seconds = 6.0
    runs_per_processor: int | None = Field(default=None, ge=1, le=16)


class RolesTable(Table):
    """[kafka.roles], [job.roles]: how the processes of what is one command are known."""

    worker: Expression
    coordinator: Expression | None = None

    def expressions(self) -> dict[str, str]:
        """Return the roles that are named, each with its expression."""
        return self.model_dump(exclude_none=True)


class KafkaTable(Table):
    """[kafka]: the timeouts of the engine's clients, their security, and how input is placed."""

    session_timeout_ms: Timeout
    transaction_timeout_ms: Timeout
    partitioner: Partitioner = "murmur2"
    security: SecurityProtocol = "plaintext"
    sasl_mechanism: Mechanism | None = None
    roles: RolesTable | None = None

    def asked_security(self) -> Security:
        """Return what the clients of the engine are set to."""
        return Security(self.security, self.sasl_mechanism or DEFAULT_MECHANISM)


class ControlTable(Table):
    """[control]: the same engine but for a repair or a setting, by which it keeps its promises.

    engine: the path of its engine.toml, or of its folder. differs: in what, in a sentence.
    """

    engine: Annotated[str, Field(min_length=1, max_length=300)]
    differs: Annotated[str, Field(min_length=1, max_length=600)]


class HostsTable(Table):
    """[hosts]: on which of several hosts the processes of a role run.

    Copies of a command, over Kafka, have no coordinator.
    """

    coordinator: Placement | None = None
    worker: Placement


class _ClaimsTable(Table):
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
        found = {name: getattr(self, name, None) for name in ("inputs", "emit", "step")}
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
    finer_prices: bool = False


class LadderApp(App):
    """[apps.ladder]: for `tickproof ladder`; nothing is judged by it."""

    step: list[Step] = Field(min_length=1)

    def overrides_for(self, values: Iterable[str]) -> list[Overrides]:
        """Return none: a step has no claims of its own, and `state` is one of its names."""
        return []


class AppsTable(Table):
    """[apps]: only the apps named are tried."""

    passthrough: App | None = None
    double: App | None = None
    count: CountApp | None = None
    market_spread: MarketApp | None = Field(default=None, alias="market-spread")
    ladder: LadderApp | None = None

    def offered(self) -> dict[str, App]:
        """Return the tables of the apps named, by the name of the app."""
        return {
            field.alias or name: table
            for name, field in type(self).model_fields.items()
            if (table := getattr(self, name)) is not None
        }


class EngineFile(Table):
    """A whole engine.toml."""

    engine: EngineTable
    claims: ClaimsTable
    apps: AppsTable
    kafka: KafkaTable | None = None
    hosts: HostsTable | None = None
    control: ControlTable | None = None
    known_gaps: dict[str, Text] = Field(default_factory=dict)


def unknown_gaps(data: dict[str, Any], known: Collection[str] | None) -> list[str]:
    """Return an error for each entry of known_gaps that is no requirement."""
    gaps = data.get("known_gaps")
    if known is None or not isinstance(gaps, dict):
        return []
    return [
        f"[known_gaps] {quoted(name)}: expected the id of a requirement{did_you_mean(name, known)}"
        for name in gaps
        if name not in known
    ]


def unknown_profiles(data: dict[str, Any], known: Collection[str]) -> list[str]:
    """Return an error for each claim of latency that names none of ``known``."""
    errors = []
    for where, table in _tables(data):
        name = table.get("latency")
        if isinstance(name, str) and name not in known:
            expected = f"the name of an SLA profile, one of {', '.join(sorted(known))}"
            got = quoted(name) + did_you_mean(name, known)
            errors.append(f"{where} latency: expected {expected}; got {got}")
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


def conflicts(data: dict[str, Any]) -> list[str]:
    """Check what ties keys together, on raw data: one bad key must not hide another."""
    errors = _transport_errors(data) + _survives_errors(data) + _rescale_errors(data)
    apps = data.get("apps")
    if not isinstance(apps, dict):
        return errors
    errors += [] if apps else ["[apps]: expected at least one app"]
    for name, table in apps.items():
        if isinstance(table, dict) and name in ("count", "market-spread"):
            errors += _app_errors(name, table)
    return errors


def _transport_errors(data: dict[str, Any]) -> list[str]:
    engine = data.get("engine")
    kafka = isinstance(engine, dict) and engine.get("transports") == ["kafka"]
    if kafka and "kafka" not in data:
        return ['[kafka]: missing; required where transports is ["kafka"]']
    if not kafka and "kafka" in data:
        return ['[kafka]: expected only where transports is ["kafka"]']
    table = data.get("kafka")
    table = table if isinstance(table, dict) else {}
    found = security_conflicts("[kafka]", table.get("security"), table.get("sasl_mechanism"))
    return [*found, *_hosts_errors(data.get("hosts"), data.get("kafka"))]


def _survives_errors(data: dict[str, Any]) -> list[str]:
    errors = [
        f'{where} survives: expected "{less}" beside "{more}"'
        for where, table in _tables(data)
        for more, less in (("all-workers", "worker"), ("power", "engine"), ("disk", "engine"))
        if more in (claimed := _strings(table.get("survives"))) and less not in claimed
    ]
    return errors + [
        f'{where} survives: expected "{death}" only where transports is ["kafka"]'
        for where, table in _tables(data)
        for death in ("broker", "disk")
        if "kafka" not in data and death in _strings(table.get("survives"))
    ]


def _rescale_errors(data: dict[str, Any]) -> list[str]:
    kafka = data.get("kafka")
    if not isinstance(kafka, dict) or "roles" not in kafka:
        return []
    return [
        f'{where} rescale: expected "none" or "restart" beside [kafka.roles]: the kit starts no '
        "worker of an engine that is one command"
        for where, table in _tables(data)
        if table.get("rescale") == "live"
    ]


def _hosts_errors(hosts: Any, kafka: Any) -> list[str]:
    """Check [hosts] by [kafka], which is None where the transport is the log."""
    if not isinstance(hosts, dict):
        return []
    if isinstance(kafka, dict) and "roles" in kafka:
        return ["[hosts]: expected only without [kafka.roles]: one command starts all on one host"]
    if kafka is None and "coordinator" not in hosts:
        return ['[hosts] coordinator: missing; required where transports is ["log"]']
    if kafka is not None and "coordinator" in hosts:
        return ['[hosts] coordinator: expected only where transports is ["log"]']
    return []


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
            errors.append(f"{where} {key}: expected each value once; got {quoted(values)}")
    for key, value in table.items():
        if isinstance(value, dict) and key in _VALUES[app] and key not in inputs + emit:
            errors.append(f"[apps.{app}.{key}]: {key} is not offered by {where}")
    for first in inputs:
        for second in emit:
            errors += _differing_claims(app, table, first, second)
    return errors


_VALUES = {"count": ("every", "some"), "market-spread": ("merged", "two", "rejects", "verdicts")}


def _differing_claims(app: str, table: dict[str, Any], first: str, second: str) -> list[str]:
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
