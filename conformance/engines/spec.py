"""engine.toml: what an engine is, how it is started, what it claims."""

from __future__ import annotations

import copy
import json
import os
import shutil
import stat
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from tickproof.conformance import resources, strict_toml
from tickproof.conformance.engines import toml_model
from tickproof.conformance.engines.security import PLAINTEXT, Security
from tickproof.conformance.errors import InvalidFile, KitStopped, out_of_reach
from tickproof.conformance.scenario import Claims, survived
from tickproof.conformance.text import shown
from tickproof.generators.spread_rule import DECIMALS, decimals_of, spread_limit

FILE_NAME = "engine.toml"
#: An engine that does more records a second than this is never given up, however long its input.
_SLOWEST: Final = 20_000
_SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")


#: What an engine lacks for a market whose prices have more decimal places than the usual unit.
FINER_PRICES_EXPECTED: Final = (
    f"expected finer_prices = true under [apps.market-spread], for prices with more than "
    f"{DECIMALS} decimal places"
)


@dataclass(frozen=True)
class Timeouts:
    """Time limits in seconds; see section 2 of docs/protocol.md for what each spans."""

    startup_s: float
    drain_s: float
    recovery_s: float
    cut_s: float = 6.0

    @property
    def life_s(self) -> float:
        """The longest that one life of the engine may wait."""
        return self.startup_s + self.drain_s + self.recovery_s + self.cut_s


@dataclass(frozen=True)
class KafkaTimeouts:
    """Timeouts of the clients of an engine that speaks Kafka, in milliseconds.

    They bound how soon it can recover: a dead member of a group, or a transaction left open,
    holds the others up for as long. 0 where there is none.
    """

    session_ms: int
    transaction_ms: int

    @property
    def session_s(self) -> float:
        """Seconds for which a dead member keeps its place in the group."""
        return self.session_ms / 1e3

    @property
    def transaction_s(self) -> float:
        """Seconds for which a transaction that is not ended stays open."""
        return self.transaction_ms / 1e3


class EngineSpec:
    """One loaded engine.toml; ``path`` is the absolute path of the file.

    table: the table of that file that says how the engine is started.
    """

    table: ClassVar[str] = "engine"

    def __init__(self, path: Path, model: toml_model.EngineFile) -> None:
        engine = model.engine
        self.path = path
        #: As the command line named it, such as "miniature" or "mutant:ID"; "" if it did not.
        self.asked = ""
        self.name = engine.name
        self.version = engine.version
        self.language = engine.language
        self.transports = tuple(engine.transports)
        kafka = model.kafka
        #: None where the engine speaks the log protocol.
        self.kafka: KafkaTimeouts | None = None
        #: Of the clients that produce its input.
        self.partitioner = ""
        #: Of the listener that its clients reach.
        self.security: Security = PLAINTEXT
        if kafka is not None:
            self.security = kafka.asked_security()
            self.kafka = KafkaTimeouts(kafka.session_timeout_ms, kafka.transaction_timeout_ms)
            self.partitioner = kafka.partitioner
        recovery_s = engine.recovery_timeout_s
        if self.kafka is not None:
            # So long the broker may keep what a dead process left.
            kept_s = self.kafka.session_s + self.kafka.transaction_s
            recovery_s = max(recovery_s, kept_s + engine.startup_timeout_s)
        self.timeouts = Timeouts(
            engine.startup_timeout_s, engine.drain_timeout_s, recovery_s, engine.cut_timeout_s
        )
        #: None: as many as the kit plays of any engine.
        self.runs_per_processor = engine.runs_per_processor
        #: The engine that is the same but for what makes this one fail, and in what it differs.
        self.control: Path | None = None
        self.differs = ""
        if model.control is not None:
            self.control = path.parent / model.control.engine
            self.differs = model.control.differs
        #: Role -> expression in the command lines of its processes; empty: argv is one worker.
        self.roles: dict[str, str] = {}
        if kafka is not None and kafka.roles is not None:
            self.roles = kafka.roles.expressions()
        #: Role -> on which hosts its processes run; empty: the engine runs on one machine.
        self.placement: dict[str, str] = {}
        if model.hosts is not None:
            self.placement = model.hosts.model_dump(exclude_none=True)
        self.known_gaps: dict[str, str] = dict(model.known_gaps)
        self.apps: tuple[str, ...] = tuple(model.apps.offered())
        self._argv, self._prepare = engine.argv, engine.prepare
        self._model = model

    def __repr__(self) -> str:
        return f"EngineSpec({self.name!r}, {str(self.path)!r})"

    def command(self) -> list[str]:
        """Return what to run, its first item an absolute path; else raises InvalidFile.

        argv; for an engine that speaks Kafka, the supervisor that starts argv.
        """
        argv = self._runnable("argv", self._argv)
        if self.kafka is None:
            return argv
        supervisor = [sys.executable, "-I", "-S", str(_SUPERVISOR), self.name, self.version]
        where = self.placement.get("worker", "first")
        return [*supervisor, json.dumps(self.roles), where, *argv]

    def preparation(self) -> list[str]:
        """Return the command ``prepare`` in the same way; empty where there is none."""
        return self._runnable("prepare", self._prepare) if self._prepare else []

    def _runnable(self, key: str, words: list[str]) -> list[str]:
        here = str(self.path.parent)
        argv = [w.replace("{here}", here).replace("{python}", sys.executable) for w in words]
        return [self._program(f"[{self.table}] {key}[0]", argv[0]), *argv[1:]]

    def _program(self, where: str, name: str) -> str:
        got = f"got {shown(name, 300)!r}"
        if os.sep not in name:
            found = shutil.which(name)
            if found is None:
                raise self._error(f"{where}: expected a program on PATH; {got}")
            return str(Path(found).absolute())
        program = Path(name)
        if not program.is_absolute():
            expected = "a name on PATH, an absolute path, or one that begins with {here}"
            raise self._error(f"{where}: expected {expected}; {got}")
        try:
            is_file = stat.S_ISREG(program.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            is_file = False
        except OSError as error:
            why = out_of_reach(program, error)
            raise self._error(f"{where}: expected a program; {got}: {why}") from error
        if not is_file:
            raise self._error(f"{where}: expected a program; no such file: {got}")
        if not os.access(program, os.X_OK):
            raise self._error(f"{where}: expected a program; not executable: {got}")
        return name

    def _error(self, text: str) -> InvalidFile:
        return InvalidFile(self.path, [text])

    def patient(self, records: int) -> Self:
        """Return the engine with a drain limit that fits a long input."""
        longer = copy.copy(self)
        drain_s = self.timeouts.drain_s + records / _SLOWEST
        longer.timeouts = replace(self.timeouts, drain_s=drain_s)
        return longer

    def offers(self, app: str, params: Mapping[str, str]) -> bool:
        """Tell whether the engine names the app, with each of these params."""
        table = self._model.apps.offered().get(app)
        if table is None:
            return False
        values = table.parameter_values()
        return all(value in values.get(name, ()) for name, value in params.items())

    @property
    def finer_prices(self) -> bool:
        """True if it takes five cents from ``spread_limit``, so that prices may be of any unit."""
        market = self._model.apps.market_spread
        return market is not None and market.finer_prices

    def deploy_params(
        self, app: str, params: Mapping[str, str], recipe: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return params as the deploy request has them, for the input of a recipe.

        Raises KitStopped for prices in a unit that the engine does not know.
        """
        decimals = decimals_of(recipe)
        if app == "market-spread" and self.finer_prices:
            return {**params, "spread_limit": spread_limit(decimals)}
        if decimals > DECIMALS:
            raise KitStopped(f"{self.path}: {FINER_PRICES_EXPECTED}")
        return dict(params)

    @property
    def service_level(self) -> str | None:
        """The SLA profile that the engine claims: in [claims], else in the first table of an app.

        None: it claims none.
        """
        tables = (self._model.claims, *self._model.apps.offered().values())
        claimed = (table.claims_set().get("latency") for table in tables)
        return next(filter(None, claimed), None)

    def claims(self, app: str, params: Mapping[str, str]) -> Claims:
        """Return the claims for one app: the table's, the app's, then the params' own.

        Raises ValueError for what the engine does not offer.
        """
        if not self.offers(app, params):
            raise ValueError(f"{self.name} does not offer {app} with {dict(params)}")
        table = self._model.apps.offered()[app]
        layers = [self._model.claims, table, *table.overrides_for(params.values())]
        merged: dict[str, Any] = {"transport": self.transports[0]}
        for layer in layers:
            merged |= layer.claims_set()
        merged["survives"] = survived(merged["survives"])
        if isinstance(table, toml_model.MarketApp) and params.get("inputs") == "two":
            merged["freshness_s"] = table.freshness_s
        return Claims(**merged)


def load(path: Path, requirement_ids: Collection[str] | None = None) -> EngineSpec:
    """Load an engine.toml, or the one in a folder; raises InvalidFile with all its errors.

    ``requirement_ids`` are those that known_gaps may name; None: any.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 (resolve would follow links)
    if path.is_dir():
        path = path / FILE_NAME
    data = strict_toml.read(path)
    more = [
        *toml_model.conflicts(data),
        *toml_model.unknown_gaps(data, requirement_ids),
        *toml_model.unknown_profiles(data, _profiles()),
    ]
    return EngineSpec(path, strict_toml.validated(data, path, toml_model.EngineFile, more))


def _profiles() -> list[str]:
    """Return the names of the SLA profiles that come with the kit."""
    return [path.stem for path in (resources.fixtures() / "profiles").glob("*.toml")]


#: Engines of earlier versions, and what has become of each.
RENAMED: Final = {"spark-blocks": "spark"}


def find(name_or_path: str | Path, fixtures: Path) -> Path:
    """Return the engine.toml for a name under fixtures/engines, or for a path.

    A plain name is looked up among the fixtures first. Raises InvalidFile.
    """
    path = Path(name_or_path)
    if len(path.parts) == 1:
        named = fixtures / "engines" / path / FILE_NAME
        if named.is_file():
            return named
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            path = path / FILE_NAME
        if stat.S_ISREG(path.stat().st_mode):
            return path
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        why = out_of_reach(path, error)
        raise InvalidFile(path, [f"expected a readable {FILE_NAME}; {why}"]) from error
    known = names(fixtures)
    said = ", ".join(known) or "(none)"
    expected = f"a path to an {FILE_NAME}, a folder that holds one, or one of {said}"
    hint = strict_toml.did_you_mean(str(name_or_path), known)
    if now := RENAMED.get(str(name_or_path)):
        hint = f"; {name_or_path} is part of {now} now"
    raise InvalidFile(path, [f"no such engine; expected {expected}{hint}"])


def names(fixtures: Path) -> list[str]:
    """Return the names of the engines under fixtures/engines, sorted."""
    return [file.parent.name for file in _files(fixtures)]


def available(fixtures: Path) -> list[EngineSpec]:
    """Load every engine under fixtures/engines, by name; raises InvalidFile."""
    return sorted((load(file) for file in _files(fixtures)), key=lambda spec: spec.name)


def _files(fixtures: Path) -> list[Path]:
    return sorted((fixtures / "engines").glob(f"*/{FILE_NAME}"))
