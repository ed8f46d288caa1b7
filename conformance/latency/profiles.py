"""SLA profiles: what is asked of an engine's latency, at which load, on which host."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol

from tickproof.conformance import resources, strict_toml
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.fault_steps import FaultStep, fault_step
from tickproof.conformance.latency.figures import QUANTILES, shown_us
from tickproof.conformance.latency.profile_model import Load, ProfileFile
from tickproof.conformance.latency.statistics import samples_needed
from tickproof.conformance.scenario import Pace, Scenario
from tickproof.conformance.text import shown
from tickproof.generators.partitions import MAX_TICKS

SUFFIX: Final = ".toml"
SECOND_US: Final = 1_000_000
#: A passthrough record weighs as much as one of Market Spread.
PAYLOAD_BYTES: Final = 52
#: App -> its params, with the values that each may have.
_PARAMS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "passthrough": {},
    "double": {},
    "count": {"emit": ("every", "some")},
    "market-spread": {"inputs": ("merged", "two"), "emit": ("rejects", "verdicts")},
}


class CoresGiven(Protocol):
    """Core numbers; those of tickproof.conformance.hosts.cores will do."""

    @property
    def kit(self) -> tuple[int, ...]:
        """Cores of the kit."""

    @property
    def engine(self) -> tuple[int, ...]:
        """Cores of the engine."""


class Profile(ProfileFile):
    """One profile, every rule of it checked; see docs/latency.md for its keys."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.profile.name

    @property
    def what(self) -> str:
        """Its demands, in a sentence."""
        return self.profile.what

    @property
    def source(self) -> str:
        """The source of its limits."""
        return self.profile.source

    @property
    def rate_step(self) -> int:
        """The least difference between two rates that this profile can be played at.

        A tick holds whole records, and one order in a whole number of them is a probe.
        """
        return _rate_step(self.load)

    @property
    def steady_s(self) -> float:
        """Seconds that are steady for certain: not warm-up, not within the time to recover."""
        return self.load.duration_s - (self.recovering.within_s if self.recovering else 0.0)

    def at_rate(self, rate: int) -> Profile:
        """Return the profile at another rate, a multiple of ``rate_step``.

        Raises InvalidFile for a rate that it cannot be played at.
        """
        data = self.model_dump(exclude_none=True)
        return _made(Path(self.name), data | {"load": data["load"] | {"rate": rate}})

    def scenario(self, seed: int, cores: CoresGiven | None = None) -> Scenario:
        """Return the scenario of one run; ``cores`` None: nothing is pinned."""
        load = self.load
        faults: tuple[FaultStep, ...] = ()
        if self.recovering:
            at = self.recovering.at
            faults = (fault_step("kill", self.recovering.kill, "fetched", fraction=at),)
        pace = Pace(
            load.tick_us,
            load.warm_up_s,
            tuple(cores.kit) if cores else (),
            tuple(cores.engine) if cores else (),
            self.cores.priority if self.cores else 0,
        )
        return Scenario(
            "latency",
            load.app,
            dict(load.params),
            _recipe(load) | {"seed": seed},
            workers=load.workers,
            rate=float(load.rate),
            faults=faults,
            pace=pace,
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict; `from_json` is its inverse."""
        data = self.model_dump(mode="json", exclude_none=True)
        return data.pop("profile") | data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Profile:
        """Rebuild a profile; raises InvalidFile for one that is not valid."""
        about = {key: data[key] for key in ("name", "what", "source") if key in data}
        rest = {key: value for key, value in data.items() if key not in about}
        return _made(Path(shown(str(data.get("name", "profile")), 80)), rest | {"profile": about})


def load(name_or_path: str | Path) -> Profile:
    """Load a profile by its name among the fixtures, or by a path; raises InvalidFile."""
    path = _find(name_or_path)
    return _made(path, strict_toml.read(path))


def available() -> list[Profile]:
    """Load every profile under fixtures/profiles, by name; raises InvalidFile."""
    return sorted((load(file) for file in _files()), key=lambda profile: profile.name)


def _files() -> list[Path]:
    return sorted((resources.fixtures() / "profiles").glob(f"*{SUFFIX}"))


def _find(name_or_path: str | Path) -> Path:
    path = Path(os.path.abspath(name_or_path))  # noqa: PTH100 (resolve would follow links)
    if len(Path(name_or_path).parts) == 1:
        named = {file.stem: file for file in _files()}
        if str(name_or_path) in named:
            return named[str(name_or_path)]
        if not path.is_file():
            name = shown(str(name_or_path), 80)
            expected = f"a path to a profile, or one of {', '.join(named) or '(none)'}"
            hint = strict_toml.did_you_mean(name, named)
            raise InvalidFile(Path(name), [f"no such profile; expected {expected}{hint}"])
    return path


def _made(path: Path, data: dict[str, Any]) -> Profile:
    model = strict_toml.validated(data, path, ProfileFile)
    errors = [*_load_errors(model.load), *_limit_errors(model), *_run_errors(model)]
    if errors:
        raise InvalidFile(path, errors)
    limits = {name: model.limits[name] for name in QUANTILES if name in model.limits}
    return Profile.model_construct(**{**dict(model), "limits": limits})


def _load_errors(load: Load) -> list[str]:
    errors = _param_errors(load) or _probe_errors(load)
    if load.rate * load.tick_us % SECOND_US:
        step = SECOND_US // math.gcd(SECOND_US, load.tick_us)
        errors.append(
            f"[load] rate: expected whole records in each tick of {load.tick_us:,} us, "
            f"a multiple of {step:,}; got {load.rate:,}, {load.rate * load.tick_us / SECOND_US:g} "
            "records a tick"
        )
    for key in ("duration_s", "warm_up_s"):
        ticks = getattr(load, key) * SECOND_US / load.tick_us
        if abs(ticks - round(ticks)) > 1e-6:
            errors.append(
                f"[load] {key}: expected a whole number of ticks of {load.tick_us:,} us; "
                f"got {ticks:,.10g}"
            )
    ticks = _ticks(load)
    if ticks > MAX_TICKS:
        errors.append(
            f"[load] tick_us: expected at most {MAX_TICKS:,} ticks in warm_up_s and duration_s; "
            f"got {ticks:,}"
        )
    if load.rate * (load.warm_up_s + load.duration_s) > 2**32:
        errors.append("[load] duration_s: expected at most 4,294,967,296 records in a run")
    return errors


def _ticks(load: Load) -> int:
    return round((load.warm_up_s + load.duration_s) * SECOND_US / load.tick_us)


def _param_errors(load: Load) -> list[str]:
    wanted = _PARAMS[load.app]
    errors = [
        f"[load.params] {shown(name, 80)}: unknown param of {load.app}; "
        f"expected {', '.join(wanted) or 'none'}"
        for name in load.params
        if name not in wanted
    ]
    for name, values in wanted.items():
        if load.params.get(name) not in values:
            got = shown(repr(load.params[name]), 80) if name in load.params else "nothing"
            errors.append(f"[load.params] {name}: expected one of {', '.join(values)}; got {got}")
    if load.symbols is not None and load.app != "market-spread":
        errors.append(f"[load] symbols: expected only with app market-spread; got {load.app}")
    return errors


def _probe_errors(load: Load) -> list[str]:
    # Of a market that answers rejects only, one record in 140,000 has an answer.
    rejects = load.params.get("emit") == "rejects"
    if load.probes_per_s is None:
        missing = "[load] probes_per_s: missing; required with emit = rejects, which answers "
        return [f"{missing}too few records to measure"] if rejects else []
    if not rejects:
        return ["[load] probes_per_s: expected only with app market-spread and emit = rejects"]
    if load.rate % (2 * load.probes_per_s):
        return [
            "[load] probes_per_s: expected a whole part of the orders, which are half of the "
            f"rate: {load.rate / 2:,g} a second; got {load.probes_per_s:,}"
        ]
    return []


def _limit_errors(model: ProfileFile) -> list[str]:
    unknown = [name for name in model.limits if name not in QUANTILES]
    errors = [
        f"[limits] {shown(name, 80)}: unknown percentile; expected one of {', '.join(QUANTILES)}"
        for name in unknown
    ]
    named = [name for name in QUANTILES if name in model.limits]
    for lower, higher in pairwise(named):
        if model.limits[higher] < model.limits[lower]:
            errors.append(
                f"[limits] {higher}: expected at least the limit of {lower}, "
                f"{shown_us(model.limits[lower])}; got {shown_us(model.limits[higher])}"
            )
    if model.recovering and "p99" not in model.limits:
        errors.append("[limits] p99: missing; [recovering] ends when p99 is back under it")
    return errors


def _run_errors(model: ProfileFile) -> list[str]:
    """Check what ties runs, their length and their limits together."""
    errors, runs, load = [], model.runs, model.load
    if runs.most < runs.least:
        errors.append(f"[runs] most: expected at least least, {runs.least}; got {runs.most}")
    steady_s, where = load.duration_s, f"duration_s {load.duration_s:g}"
    if model.recovering:
        killed_s = model.recovering.at * (load.warm_up_s + load.duration_s)
        left_s = load.warm_up_s + load.duration_s - killed_s
        if killed_s <= load.warm_up_s:
            errors.append(
                "[recovering] at: expected a kill after the warm-up, above "
                f"{load.warm_up_s / (load.warm_up_s + load.duration_s):.3g}; "
                f"got {model.recovering.at:g}"
            )
        if left_s <= model.recovering.within_s:
            errors.append(
                "[recovering] within_s: expected less than what is left after the kill, "
                f"{left_s:.3g} s; got {model.recovering.within_s:g}"
            )
        steady_s -= model.recovering.within_s
        where += f" less within_s {model.recovering.within_s:g}"
    per_s = measured_per_s(load)
    for name in model.limits:
        needs = samples_needed(QUANTILES[name]) if name in QUANTILES else 0
        gets = max(0, math.floor(per_s * steady_s))
        if gets < needs:
            errors.append(
                f"[limits] {name}: needs {needs:,} samples a run; {where} gives {gets:,}, "
                f"{per_s:,g} a second"
            )
    return errors


def measured_per_s(load: Load) -> float:
    """Return how many records a second have an answer that is measured."""
    if load.app == "market-spread":
        return load.probes_per_s or load.rate / 2
    return load.rate


def _rate_step(load: Load) -> int:
    tick = SECOND_US // math.gcd(SECOND_US, load.tick_us)
    return math.lcm(tick, 2 * load.probes_per_s) if load.probes_per_s else tick


def _recipe(load: Load) -> dict[str, Any]:
    """Return the input recipe, without its seed."""
    tick = load.rate * load.tick_us // SECOND_US
    kinds: dict[str, dict[str, Any]] = {
        "passthrough": {"kind": "payloads", "size": PAYLOAD_BYTES},
        "double": {"kind": "numbers"},
        "count": {"kind": "keyed"},
        "market-spread": {"kind": "market", "inputs": load.params.get("inputs"), "rate": load.rate},
    }
    recipe = kinds[load.app]
    if load.probes_per_s:
        recipe["probe_one_in"] = load.rate // (2 * load.probes_per_s)
    if load.symbols:
        recipe["symbols"] = load.symbols
    return recipe | {"records": tick * _ticks(load), "tick": tick, "partitions": load.partitions}
