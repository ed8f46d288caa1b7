"""`tickproof run`: choose requirements, judge each engine, write its reports."""

from __future__ import annotations

import re
import socket
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from tickproof.conformance.engines import isolation, network
from tickproof.conformance.engines.network import FEWEST, LOG
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import RequestError
from tickproof.conformance.explain import with_stories
from tickproof.conformance.fault_space.dimensions import Point
from tickproof.conformance.fault_space.offers import offers
from tickproof.conformance.fault_space.sessions import coverage
from tickproof.conformance.faults import regressions
from tickproof.conformance.faults.schedule_file import load_all
from tickproof.conformance.html_report import page, templates, verdict_badge
from tickproof.conformance.reports import json_report, junit, machine, terminal
from tickproof.conformance.reports.json_report import FaultSpace, Report, Selection
from tickproof.conformance.reports.live import SessionProgress
from tickproof.conformance.reports.market import csv_notes
from tickproof.conformance.reports.session_log import SessionLog
from tickproof.conformance.requirements import registry
from tickproof.conformance.requirements.registry import Requirement
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.tiers import run_session
from tickproof.conformance.suites.outcomes import reported
from tickproof.conformance.suites.schedules import COVERING, REQUIREMENT
from tickproof.conformance.verdicts import EXIT_KIT_ERROR, Outcome, worst_status
from tickproof.generators import csv_market

KIT_ERROR_FILE: Final = "kit-error.txt"
#: What a session leaves beside its runs.
_WRITTEN: Final = (
    json_report.FILE_NAME, json_report.PAGE_NAME, verdict_badge.FILE_NAME, junit.FILE_NAME,
    KIT_ERROR_FILE,
)  # fmt: skip
#: In the folder of an engine: the path of the engine.toml that it belongs to.
OWNER_FILE: Final = "engine-path.txt"
_PATH_CHARACTERS: Final = 4096


def select(request: Request) -> dict[str, Requirement]:
    """Return the requirements that are asked for by tier, id and profile.

    Raises RequestError for an id or a tier that does not exist, or if none is left.
    """
    known = registry.load()
    for id_ in request.only:
        registry.require_known(id_, f"--only: no requirement {id_}")
    tiers_known = sorted({requirement.tier for requirement in known.values()})
    for tier in request.tiers:
        if tier not in tiers_known:
            expected = ", ".join(map(str, tiers_known))
            raise RequestError(f"--tier: there are tiers {expected}, and no {tier}")
    for id_ in request.only:
        _expect_hosts("--only", known[id_], request.hosts)
    hosts = request.hosts > 0
    selected = registry.chosen(known, request.tiers, request.only, request.profile, hosts)
    if not selected:
        raise RequestError("--tier and --only: no requirement is in both")
    return selected


def required(words: Sequence[str], hosts: int) -> tuple[str, ...]:
    """Return the ids that words name: ids of requirements, and tiers such as "t3".

    Without ``hosts`` a tier is what is asked on this machine alone. Raises RequestError for any
    other word, and for an id that needs hosts.
    """
    known, found = registry.load(), []
    for word in words:
        tier = re.fullmatch(r"[tT]([0-9])", word)
        ids = [
            id_ for id_, one in known.items()
            if tier and one.tier == int(tier[1]) and (hosts or not one.needs.hosts)
        ]  # fmt: skip
        if not ids:
            registry.require_known(word.upper(), f"--require: no requirement or tier {word}")
            _expect_hosts("--require", known[word.upper()], hosts)
        found += ids or [word.upper()]
    return tuple(dict.fromkeys(found))


def _expect_hosts(option: str, one: Requirement, hosts: int) -> None:
    """Raise RequestError for what cannot be asked without hosts."""
    if one.needs.hosts and not hosts:
        about = "about engines on several hosts: it needs --hosts"
        raise RequestError(f"{option}: {one.id} is {about}")


def check(request: Request, specs: Sequence[EngineSpec], console: Console) -> None:
    """Check whatever can be wrong with a request before anything is started.

    Prints what there is to know about a recorded market. Raises RequestError, or InvalidFile
    for a given schedule or a regression of an engine.
    """
    if request.port is not None:
        _check_port(request.port)
    if request.isolation is not None:
        for spec in specs:
            isolation.demand(request.isolation, spec)
    if request.hosts:
        for spec in specs:
            network.demand(spec.placement, spec.name)
    if request.kafka is not None:
        _use_cluster(request.kafka, specs)
    found = [regressions.beside(spec.path, request.hosts) for spec in specs]
    for paths in (request.schedules, *found):
        _check_hosts(load_all(paths), request.hosts)
    check_out(request.out)
    if request.quotes and request.orders:
        _check_market(request.quotes, request.orders, request.strict, console)


def _check_port(port: int) -> None:
    """Raise RequestError where the log server cannot have this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise RequestError(f"--port: expected a free port, got {port}: {error}") from error


def _check_hosts(schedules: Mapping[str, Scenario], hosts: int) -> None:
    """Raise RequestError where a schedule names hosts that there will not be."""
    known = {LOG, *network.names(hosts)}
    for name, scenario in schedules.items():
        for number, step in enumerate(scenario.faults, 1):
            if step.target == "host" and not hosts:
                raise RequestError(f"{name}: [[fault]] {number}: target host: it needs --hosts")
            for key in ("host", "peer"):
                if (said := getattr(step, key)) and said not in known:
                    expected = f"{LOG} or host-1 to host-{hosts} (--hosts {hosts})"
                    where = f"{name}: [[fault]] {number}: {key}"
                    raise RequestError(f"{where}: expected {expected}, got {said}")


def _use_cluster(address: str, specs: Sequence[EngineSpec]) -> None:
    """Have all runs of this command use a cluster that is there.

    Raises RequestError where no engine speaks Kafka, and KafkaUnavailable.
    """
    speaking = [spec for spec in specs if spec.kafka is not None]
    if not speaking:
        raise RequestError('--kafka: expected an engine whose transports are ["kafka"]')
    from tickproof.conformance.kafka import existing, shared_broker

    shared_broker.use(existing.reached(address, speaking))


def _check_market(quotes: Path, orders: Path, strict: bool, console: Console) -> None:
    """Read a recorded market before anything starts; print what is doubtful in it.

    Raises RequestError with file, line and column where the files cannot be used.
    """
    try:
        market = csv_market.read_market(quotes, orders, strict=strict)
    except csv_market.CsvError as error:
        raise RequestError(str(error)) from error
    csv_notes(console, market.warnings, market.symbols)


def check_out(out: Path, option: str = "--out") -> None:
    """Raise RequestError where nothing can be written into ``out``, the value of an option."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        expected = f"{option}: expected a folder that can be written, got {out}"
        raise RequestError(f"{expected}: {error.strerror}") from error


def judge_all(
    specs: Sequence[EngineSpec],
    selected: Mapping[str, Requirement],
    request: Request,
    console: Console,
    *,
    verbose: bool = False,
) -> int:
    """Judge engines one after another, print summaries; returns the exit status.

    An exception of the kit ends the judgement of that engine only: its traceback is
    kept in kit-error.txt in the engine's folder, and the status is that of a kit-error.
    """
    reports: list[Report] = []
    statuses: list[int] = []
    for spec, folder in zip(specs, engine_folders(specs, request.out), strict=True):
        try:
            claim(folder, spec)
            view = SessionProgress(console, verbose=verbose)
            report = _judge(spec, selected, request, folder, view)
        except Exception as error:
            keep_traceback(error, folder, console)
            statuses.append(EXIT_KIT_ERROR)
            continue
        terminal.summary(console, report, folder, verbose=verbose)
        reports.append(report)
        statuses.append(report.exit_status)
        try:
            json_report.write(report, folder)
            junit.write(report, folder)
            templates.as_extra(partial(page.write, report, folder), console)
            templates.as_extra(partial(verdict_badge.write, report, folder), console)
        except OSError as error:
            why = f"the reports cannot be written into {folder}: {error.strerror}"
            _say_kit_error(why, console)
            statuses.append(EXIT_KIT_ERROR)
    if len(reports) > 1:
        terminal.comparison(console, reports)
    return worst_status(statuses)


def engine_folders(specs: Sequence[EngineSpec], out: Path) -> list[Path]:
    """Return one folder under ``out`` for each engine, named after it, none twice.

    A folder that belongs to another engine.toml is left alone, as long as that file exists:
    engines of one name would remove each other's sessions.
    """
    folders: list[Path] = []
    for spec in specs:
        # No dots at the ends, so that no name leads out of the folder.
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", spec.name).strip("-.")[:60] or "engine"
        number, folder = 1, out / name
        while folder in folders or _owner(folder) not in (None, spec.path):
            number += 1
            folder = out / f"{name}-{number}"
        folders.append(folder)
    return folders


def claim(folder: Path, spec: EngineSpec) -> None:
    """Write into the folder of an engine to which engine.toml it belongs; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / OWNER_FILE).write_text(f"{spec.path}\n", encoding="utf-8", errors="surrogateescape")


def _owner(folder: Path) -> Path | None:
    """Return the engine.toml that a folder belongs to, None where there is none any more."""
    try:
        with (folder / OWNER_FILE).open(encoding="utf-8", errors="surrogateescape") as file:
            path = Path(file.read(_PATH_CHARACTERS).removesuffix("\n"))
        return path if path.is_file() else None
    except (OSError, ValueError):
        return None


def keep_traceback(error: BaseException, folder: Path, console: Console) -> None:
    """Write a traceback to kit-error.txt in a folder, print where, or print it whole."""
    text = "".join(traceback.format_exception(error))
    path = folder / KIT_ERROR_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as second:
        console.print(Text(text), soft_wrap=True)
        where = f"shown above ({path} cannot be written: {second.strerror})"
    else:
        where = str(path)
    _say_kit_error(f"the kit itself broke ({type(error).__name__}: {error})", console)
    console.print(Text(f"traceback: {where}"), soft_wrap=True)


def _say_kit_error(why: str, console: Console) -> None:
    line = Text("kit-error: ", style="bold magenta").append(why, style="default")
    console.print(line, soft_wrap=True)


def _judge(
    spec: EngineSpec,
    selected: Mapping[str, Requirement],
    request: Request,
    folder: Path,
    view: SessionProgress,
) -> Report:
    folder.mkdir(parents=True, exist_ok=True)
    for name in _WRITTEN:
        # A report of an earlier session must not pass for one of this session.
        (folder / name).unlink(missing_ok=True)
    request = replace(
        request, isolation=request.isolation or isolation.best(spec),
        workers=request.workers or machine.runs_at_once(spec.runs_per_processor),
    )  # fmt: skip
    if spec.kafka is not None:
        from tickproof.conformance.kafka import shared_broker

        shared_broker.address()  # one for all processes of the session
    started = datetime.now(UTC)
    level = request.isolation or isolation.Level.NONE
    facts = {"engine": f"{spec.name} {spec.version}", "profile": request.profile,
             "seed": str(request.seed), "isolation": level.value}  # fmt: skip
    with SessionLog(folder, facts, view) as log:
        outcomes = with_stories(_outcomes(spec, request, folder, view, log))
        report = json_report.build(
            engine=json_report.engine_facts(spec.name, spec.version, spec.language, spec.path),
            outcomes=outcomes,
            selected=reported(selected, outcomes),
            folder=folder,
            profile=request.profile,
            seed=request.seed,
            isolation=level,
            hosts=request.hosts,
            not_asked=_not_asked(spec, request),
            selection=Selection(
                tiers=list(request.tiers), only=list(request.only), require=list(request.require)
            ),
            started=started,
            ended=datetime.now(UTC),
            fault_space=_fault_space(spec, request, outcomes),
        )
        log.came_out(report.conclusion.word)
    return report


def _not_asked(spec: EngineSpec, request: Request) -> list[str]:
    """Return what the engine would be asked as well if it ran on several hosts.

    Requirements by their ids, regressions by the names of their files.
    """
    if not spec.placement or request.hosts:
        return []
    known = registry.load()
    asked = (known, request.tiers, request.only, request.profile)
    more = [id_ for id_ in registry.chosen(*asked, True) if id_ not in registry.chosen(*asked)]
    if REQUIREMENT in registry.chosen(*asked) and not request.schedules:
        with_hosts, without = (regressions.beside(spec.path, hosts) for hosts in (FEWEST, 0))
        more += [path.name for path in with_hosts if path not in without]
    return more


def _fault_space(
    spec: EngineSpec, request: Request, outcomes: Sequence[Outcome]
) -> FaultSpace | None:
    """Return what a session covered of the fault space; None where it played nothing of it."""
    played = [one.evidence.get("points") for one in outcomes if one.requirement == COVERING]
    points = [Point.from_json(point) for found in played for point in found or ()]
    if not points:
        return None
    covered = coverage(offers(spec, on_hosts=request.hosts > 0), request.profile, points)
    return FaultSpace(
        pairs=len(covered.covered) + len(covered.missing), covered=len(covered.covered),
        triples=covered.triples[0], of_triples=covered.triples[1],
        points=[point.to_json() for point in points],
        missing=sorted([str(one), str(other)] for one, other in covered.missing),
    )  # fmt: skip


def _outcomes(
    spec: EngineSpec, request: Request, folder: Path, view: SessionProgress, log: SessionLog
) -> list[Outcome]:
    try:
        with view:
            return run_session(spec.path, replace(request, out=folder), log)
    except KeyboardInterrupt:
        decided = sum(view.counts.values())
        # The command line prints this text; the runs recorded so far stay in the folder.
        raise KeyboardInterrupt(
            f"{decided} requirements decided, runs kept in {folder}, "
            "judge one with: tickproof check RUN"
        ) from None
