"""Subjects of a comparison: sessions of run, latency and bench engines, read from documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from tickproof.conformance import resources
from tickproof.conformance.engines import spec
from tickproof.conformance.errors import RequestError, TickproofError
from tickproof.conformance.latency.figures import QUANTILES
from tickproof.conformance.performance import bench_report
from tickproof.conformance.performance.bench_document import Bench, Row
from tickproof.conformance.performance.latency_document import LatencySession
from tickproof.conformance.performance.series import verdict_of
from tickproof.conformance.report import json_report, judged
from tickproof.conformance.report.json_report import Result
from tickproof.conformance.session import out_folder
from tickproof.conformance.session.runs_folder import RUNS
from tickproof.conformance.suites import registry
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Reason, Verdict

Better = Literal["lower", "higher"]
_DOCUMENTS: Final = (json_report.FILE_NAME, LatencySession.FILE_NAME, Bench.FILE_NAME)
_NAME: Final = 60
_ID: Final = 80
_BASIS: Final = 1000
_WHY: Final = 200
#: Sessions that an error names.
_MOST: Final = 5


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
    and what was measured. where: the document, and in it the engine.

    of_job: it is a user's own job, of which other things are asked than of an engine.
    basis: the load that figures were measured under; only equal ones can be compared.
    not_asked: id -> why, of what the engine does not claim or offer, or what does not apply to
    it. made: how its verdicts came about, where sessions may differ. notes: what a reader has to
    know of the session.
    """

    engine: str
    where: str
    results: Mapping[str, Result | Measured] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    basis: Mapping[str, str] = field(default_factory=dict)
    not_asked: Mapping[str, str] = field(default_factory=dict)
    made: str = ""
    notes: Sequence[str] = ()
    of_job: bool = False


def read(path: Path) -> list[Subject]:
    """Return what lies in a folder, or in one document: report.json, latency.json, bench.json.

    A bench has one subject for each engine. Raises RequestError.
    """
    if path.is_dir():
        found = [one for one in map(path.joinpath, _DOCUMENTS) if one.exists()]
    else:
        found = [path] if path.exists() and path.suffix != ".toml" else []
    if not found:
        expected = f"SESSION: expected a folder with one of {', '.join(_DOCUMENTS)}"
        raise RequestError(f"{expected}; got {path}{_hint(path)}")
    return [subject for one in found for subject in _document(one)]


def _hint(path: Path) -> str:
    """Say what a path is that is no session, and where one is or how to make it."""
    try:
        engine = spec.load(spec.find(str(path), resources.fixtures()), registry.load())
    except TickproofError:
        engine = None
    if engine is not None:
        made = Path("tickproof-out", out_folder.folder_name(engine.name))
        if (made / json_report.FILE_NAME).exists():
            return f", an engine; its session is in {made}"
        return f", an engine; `tickproof run {path}` writes a session to {made}"
    if not path.exists():
        return ", which does not exist"
    if (path / RUNS).is_dir():
        return f"; `tickproof report {path}` writes that of a session that was killed"
    within = sorted(path.iterdir()) if path.is_dir() else []
    below = [str(one) for one in within if (one / json_report.FILE_NAME).exists()]
    return f"; sessions are in {', '.join(below[:_MOST])}" if below else ""


def _document(path: Path) -> list[Subject]:
    try:
        if path.name == LatencySession.FILE_NAME:
            return [_latency(path)]
        return list(_bench(path)) if path.name == Bench.FILE_NAME else [_session(path)]
    except (TickproofError, OSError) as error:
        raise RequestError(f"SESSION: {error}") from error


def _session(path: Path) -> Subject:
    """Return what was judged: of what an interrupt left open there is no verdict."""
    report = json_report.Report.read(path)
    found = {one.id: one for one in report.requirements if judged.applies(one)}
    not_asked = {
        one.id: shown(one.actual, _WHY) or Verdict.NOT_CLAIMED.value
        for one in report.requirements
        if one.id not in found or one.verdict is Verdict.NOT_CLAIMED
    }
    results = {id_: one for id_, one in found.items() if one.reason != Reason.INTERRUPTED}
    name, notes = _named(report.engine.name, report.engine.version), []
    if report.interrupted is not None:
        notes.append(f"{path}: {shown(str(report.interrupted), _BASIS)}")
    if newer := _newer(path, report):
        notes.append(f"{path.parent}: this report is not of its newest session, {newer}")
    made = f"profile {report.profile}, isolation {report.isolation}, kit {report.kit.version}"
    of_job = any(one.id.startswith("JB-") for one in report.requirements)
    return Subject(
        name, str(path), results, not_asked=not_asked, made=made, notes=notes, of_job=of_job
    )


def _newer(path: Path, report: json_report.Report) -> str:
    """Return the newest session beside a report that is of an older one, or "".

    It goes on, or it was killed before it wrote a report: ``tickproof report FOLDER`` does.
    """
    runs = path.parent / RUNS
    if not report.session or not runs.is_dir():
        return ""
    # Names begin with the time.
    newest = max((one.name for one in runs.iterdir() if one.is_dir()), default="")
    return shown(newest, _ID) if newest > report.session else ""


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
    return Subject(name, str(path), results, _some(found), basis)


def _bench(path: Path) -> Iterator[Subject]:
    """Yield rates by app, latency, and silences after kills, of each engine."""
    bench = Bench.read(path)
    asked = asdict(bench.parameters)
    basis = _words({key: one for key, one in asked.items() if key != "seed"})
    notes = [f"{path}: {said}" for said in bench_report.notes(bench)]
    several = [name for name in ("keys", "workers") if len(asked[name]) > 1]
    for engine in bench.engines:
        found: dict[str, Figure] = {}
        results: dict[str, Measured] = {}
        not_asked: dict[str, str] = {}
        add = partial(_add_series, found, results, not_asked)
        for app in engine.apps:
            more = [f"{number:,} {name}" for name in several if (number := getattr(app, name))]
            emit = app.params.get("emit", "")  # with one of them there is less to do
            what = f"{app.app} {emit}" if emit and app.app == "count" else app.app
            name = f"records a second of {', '.join([what, *more])}"
            add(name, "/s", "higher", app, [one.rate for one in app.rounds])
        for paced in engine.latency:
            add("p50 of latency", "s", "lower", paced, [one.p50 for one in paced.rounds])
            add("p99 of latency", "s", "lower", paced, [one.p99 for one in paced.rounds])
        for kill in engine.kills:
            name = f"longest silence of the output after a kill of {kill.target}"
            add(name, "s", "lower", kill, [one.output_s for one in kill.rounds])
        name = _named(engine.name, engine.version)
        where = ", ".join(filter(None, (str(path), shown(engine.source, _NAME))))
        yield Subject(name, where, results, _some(found), basis, not_asked, notes=notes)


def _add_series(
    figures: dict[str, Figure],
    results: dict[str, Measured],
    not_asked: dict[str, str],
    name: str,
    unit: str,
    better: Better,
    row: Row,
    values: Sequence[float | None],
) -> None:
    """Add a series of a bench, and how it came out unless the engine does not offer or claim it."""
    figures[name] = _figure(name, unit, better, values if row.status == "measured" else ())
    # unknown: a partition that stayed silent for good, say
    verdict, id_ = verdict_of(row.status, values), shown(f"measured: {name}", _ID)
    if row.status == "measured" and not values:
        return  # an interrupt came first
    if verdict is Verdict.NOT_CLAIMED:
        not_asked[id_] = shown(row.why, _WHY) or row.status
    else:
        results[id_] = Measured("a figure with a right answer", verdict)


def _figure(name: str, unit: str, better: Better, values: Sequence[float | None]) -> Figure:
    """Return a figure of the values that are finite and above 0."""
    kept = tuple(one for one in values if one is not None and math.isfinite(one) and one > 0)
    return Figure(shown(name, _NAME), unit, better, kept)


def _some(figures: Mapping[str, Figure]) -> dict[str, Figure]:
    return {name: figure for name, figure in figures.items() if figure.values}


def _words(load: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: " and ".join(map(str, one)) if isinstance(one, list | tuple) else str(one)
        for key, one in sorted(load.items())
    }


def _named(name: str, version: str) -> str:
    return shown(f"{name} {version}".strip(), _NAME)
