"""What can be compared: sessions of run, latency and bench engines, read from their documents."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from tickproof.conformance.errors import RequestError, TickproofError
from tickproof.conformance.history import plain_files
from tickproof.conformance.history.json_lines import loads
from tickproof.conformance.latency.figures import QUANTILES
from tickproof.conformance.performance.bench import FILE_NAME as BENCH
from tickproof.conformance.performance.latency_document import LatencySession
from tickproof.conformance.performance.rounds import VERDICTS
from tickproof.conformance.report import json_report, judged
from tickproof.conformance.report.json_report import Result
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Verdict

Better = Literal["lower", "higher"]
_NAME: Final = 60
_ID: Final = 80
_BASIS: Final = 1000


@dataclass(frozen=True)
class Figure:
    """Something measured once in each run. unit: of the values; better: which end is good."""

    name: str
    unit: str
    better: Better
    values: tuple[float, ...]


@dataclass(frozen=True)
class Measured:
    """How a measurement as a whole came out, beside its figures: it has none where it failed."""

    title: str
    verdict: Verdict
    tier: int = 5


@dataclass(frozen=True)
class Subject:
    """One engine in one session. results: by id, those that say something of such an engine,
    and what was measured.

    basis: under what load figures were measured, in words; only equal ones can be compared.
    excused: ids of requirements that say nothing of such an engine.
    """

    engine: str
    where: Path
    results: Mapping[str, Result | Measured] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    basis: str = ""
    excused: Collection[str] = ()


def read(path: Path) -> list[Subject]:
    """Return what lies in a folder, or in one document: report.json, latency.json, bench.json.

    A bench has one subject for each engine. Raises RequestError.
    """
    names = (json_report.FILE_NAME, LatencySession.FILE_NAME, BENCH)
    found = [one for one in map(path.joinpath, names) if one.exists()] if path.is_dir() else [path]
    if not found:
        raise RequestError(f"{path}: expected a folder with one of {', '.join(names)}")
    return [subject for one in found for subject in _document(one)]


def _document(path: Path) -> list[Subject]:
    try:
        if path.name == LatencySession.FILE_NAME:
            return [_latency(path)]
        return list(_bench(path)) if path.name == BENCH else [_session(path)]
    except (TickproofError, OSError) as error:
        raise RequestError(f"SESSION: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = shown(f"{type(error).__name__}: {error}", 300)
        raise RequestError(f"SESSION: {path}: not as the kit writes it: {why}") from error


def _session(path: Path) -> Subject:
    report = json_report.Report.read(path)
    results = {one.id: one for one in report.requirements if judged.applies(one)}
    excused = [one.id for one in report.requirements if one.id not in results]
    name = _named(report.engine.name, report.engine.version)
    return Subject(name, path, results, excused=excused)


def _latency(path: Path) -> Subject:
    """Return percentiles over the runs whose answers were right and whose rate was kept."""
    session = LatencySession.read(path)
    runs = [run for run in session.runs if not run.wrong and run.percentiles]
    found = {
        name: _figure(name, "us", "lower", [run.percentiles.get(name) for run in runs])
        for name in (*QUANTILES, "max")
    }
    basis = _words(session.profile.to_json()["load"])
    name = _named(session.engine.name, session.engine.version)
    results = {"latency": Measured("the limits of the profile hold", session.decision.verdict)}
    return Subject(name, path, results, _some(found), basis)


def _bench(path: Path) -> Iterator[Subject]:
    """Yield rates by app, latency, and silences after kills, of each engine."""
    data = loads(plain_files.read_bytes(path.parent, path.name))
    basis = _words({key: one for key, one in data["parameters"].items() if key != "seed"})
    # A bench from before has one number of workers and of keys, and no list of them.
    several = [
        name
        for name in ("keys", "workers")
        if isinstance(asked := data["parameters"].get(name), list) and len(asked) > 1
    ]
    for engine in data["engines"]:
        found: dict[str, Figure] = {}
        results: dict[str, Measured] = {}
        add = partial(_add_series, found, results)
        for row in engine["apps"]:
            more = [f"{row[name]:,} {name}" for name in several if row[name]]
            name = f"records a second of {', '.join([row['app'], *more])}"
            add(name, "/s", "higher", row, "rate")
        for row in engine.get("latency", ()):  # a bench from before has none
            for name in ("p50", "p99"):
                add(f"{name} of latency", "s", "lower", row, name)
        for row in engine["kills"]:
            name = f"longest silence of the output after a kill of {row['target']}"
            add(name, "s", "lower", row, "output_s")
        name = _named(engine["name"], engine["version"])
        yield Subject(name, path, results, _some(found), basis)


def _add_series(
    figures: dict[str, Figure],
    results: dict[str, Measured],
    name: str,
    unit: str,
    better: Better,
    row: Mapping[str, Any],
    key: str,
) -> None:
    """Add a series of a bench, and how it came out unless the engine does not offer or claim it."""
    rounds = _rounds(row, key)
    figures[name] = _figure(name, unit, better, rounds)
    verdict = VERDICTS[row["status"]]
    if verdict is Verdict.PASS and None in rounds:
        verdict = Verdict.UNKNOWN  # a partition that stayed silent for good, say
    if verdict is not Verdict.NOT_CLAIMED:
        results[shown(f"measured: {name}", _ID)] = Measured("a figure with a right answer", verdict)


def _rounds(row: Mapping[str, Any], name: str) -> list[Any]:
    return [one.get(name) for one in row["rounds"]] if row["status"] == "measured" else []


def _figure(name: str, unit: str, better: Better, values: Sequence[Any]) -> Figure:
    """Return a figure of the values that are finite and above 0."""
    numbers = [float(one) for one in values if isinstance(one, int | float)]
    kept = tuple(one for one in numbers if math.isfinite(one) and one > 0)
    return Figure(shown(name, _NAME), unit, better, kept)


def _some(figures: Mapping[str, Figure]) -> dict[str, Figure]:
    return {name: figure for name, figure in figures.items() if figure.values}


def _words(load: Mapping[str, Any]) -> str:
    said = {
        key: " and ".join(map(str, one)) if isinstance(one, list) else one
        for key, one in load.items()
    }
    return shown(", ".join(f"{key} {said[key]}" for key in sorted(said)), _BASIS)


def _named(name: object, version: object) -> str:
    return shown(f"{name} {version}".strip(), _NAME)
