"""`tickproof run`: choose requirements, judge each engine, write its reports."""

from __future__ import annotations

import contextlib
import re
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from tickproof.conformance.engines import disk_space, interruption, isolation, network
from tickproof.conformance.engines.network import LOG
from tickproof.conformance.engines.spec import FINER_PRICES_EXPECTED, EngineSpec
from tickproof.conformance.errors import RequestError
from tickproof.conformance.faults import regressions
from tickproof.conformance.faults.host_fault import HostFault
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.schedule_file import load_all
from tickproof.conformance.faults.space.dimensions import Point
from tickproof.conformance.faults.space.offers import offers
from tickproof.conformance.faults.space.sessions import Coverage, coverage
from tickproof.conformance.report import json_report, machine, terminal
from tickproof.conformance.report.json_report import FaultSpace, Report
from tickproof.conformance.report.live import SessionProgress
from tickproof.conformance.report.market import market_notes
from tickproof.conformance.report.session_log import FILE_NAME as LIVE_FILE
from tickproof.conformance.report.session_log import SessionLog
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import confirmation, out_folder, session_reports
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.runs_folder import REPLAYS, RUNS, runs_folder
from tickproof.conformance.session.session_record import SessionRecord
from tickproof.conformance.session.tiers import SessionCut, run_session
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.requirement import Requirement
from tickproof.conformance.suites.schedules import COVERING
from tickproof.conformance.verdicts import EXIT_KIT_ERROR, Outcome, worst_status
from tickproof.generators.reading import Reading

KIT_ERROR_FILE: Final = "kit-error.txt"
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
    selected = request.selected
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
            id_
            for id_, one in known.items()
            if tier and one.tier == int(tier[1]) and (hosts or not one.needs.hosts)
        ]
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
    out_folder.check(request.out)
    if request.quotes and request.orders:
        _check_market(request.quotes, request.orders, request.reading, specs, console)


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
            if isinstance(fault_of(step), HostFault) and not hosts:
                raise RequestError(f"{name}: [[fault]] {number}: target host: it needs --hosts")
            for key in ("host", "peer"):
                if (said := step.to_json()[key]) and said not in known:
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


def _check_market(
    quotes: Path, orders: Path, reading: Reading, specs: Sequence[EngineSpec], console: Console
) -> None:
    """Read a recorded market before anything starts; print what is doubtful in it.

    Raises RequestError with file, line and column if the files cannot be used.
    """
    from tickproof.generators import csv_market  # with all of pyarrow

    try:
        market = csv_market.read_market(quotes, orders, reading)
    except csv_market.CsvError as error:
        raise RequestError(str(error)) from error
    for spec in specs:
        if market.finest and "market-spread" in spec.apps and not spec.finer_prices:
            raise RequestError(f"{market.finest}; {spec.path}: {FINER_PRICES_EXPECTED}")
    market_notes(console, market)


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
    kept in kit-error.txt in the engine's folder, and the status is that of a kit-error. However
    a session ends, what it judged is reported; after an interrupt KeyboardInterrupt goes on.
    Raises RequestError, before anything is started, if a folder belongs to a session that goes on.
    """
    folders = engine_folders(specs, request.out)
    with contextlib.ExitStack() as stack:
        for folder in folders:
            stack.enter_context(out_folder.held(folder))
        return _judge_each(specs, folders, request, console, verbose)


def _judge_each(
    specs: Sequence[EngineSpec],
    folders: Sequence[Path],
    request: Request,
    console: Console,
    verbose: bool,
) -> int:
    reports: list[Report] = []
    reported: list[Path] = []
    statuses: list[int] = []
    for spec, folder in zip(specs, folders, strict=True):
        try:
            claim(folder, spec)
            session = _play(spec, request, folder, SessionProgress(console, verbose=verbose))
            try:
                session = _confirmed(session, spec, request, folder, console)
            finally:  # an interrupt costs the replays only
                with interruption.deferred():
                    report, status = _report(session, folder, console, verbose)
        except Exception as error:
            keep_traceback(error, folder, console)
            statuses.append(EXIT_KIT_ERROR)
            if disk_space.caused(error):
                break  # no other engine would have more room
            continue
        reports.append(report)
        reported.append(folder)
        statuses.append(status)
        if session.cut is not None and session.cut.full:
            break
        if session.cut is not None and session.cut.asked:
            # The command line prints this text behind the words for what ended it.
            raise KeyboardInterrupt(_kept(report, session, folder))
    if len(reports) > 1:
        terminal.comparison(console, reports, reported)
    return worst_status(statuses)


def _kept(report: Report, session: _Session, folder: Path) -> str:
    """Say what an interrupt left."""
    cut = report.interrupted
    assert cut is not None
    where = f"runs in {session.runs}"
    if cut.judged:
        where = f"reports of these in {folder}, {where}"
    return f"{cut.judged} of {cut.of} requirements judged, {where}"


def _nothing_new(report: Report, folder: Path) -> bool:
    """Tell whether an interrupt came before there was anything to replace earlier reports with."""
    cut = report.interrupted
    return cut is not None and not cut.judged and (folder / json_report.FILE_NAME).exists()


def engine_folders(specs: Sequence[EngineSpec], out: Path) -> list[Path]:
    """Return one folder under ``out`` for each engine, named after it, none twice.

    A folder that belongs to another engine.toml is left alone, as long as that file exists:
    engines of one name would remove each other's sessions.
    """
    folders: list[Path] = []
    for spec in specs:
        name = out_folder.folder_name(spec.name) or "engine"
        number, folder = 1, out / name
        while folder in folders or _owner(folder) not in (None, spec.path):
            number += 1
            folder = out / f"{name}-{number}"
        folders.append(folder)
    return folders


def claim(folder: Path, spec: EngineSpec) -> None:
    """Write into the folder of an engine to which engine.toml it belongs; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    if _owner(folder) == spec.path:
        return
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
    if disk_space.caused(error):
        _say_kit_error(disk_space.words(folder), console)
        return
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


@dataclass(frozen=True)
class _Session:
    """A session that is over. runs: its folder. cut: None if it was played to its end."""

    record: SessionRecord
    runs: Path
    outcomes: Sequence[Outcome]
    ended: datetime
    fault_space: FaultSpace | None = None
    cut: SessionCut | None = None


def _beside_runs(folder: Path, spec: EngineSpec) -> tuple[Path, ...]:
    """Return what a session writes in the folder of its engine: all, unless the engine is there."""
    inside = spec.path.resolve().is_relative_to(folder.resolve())
    return (folder / RUNS, folder / LIVE_FILE) if inside else (folder,)


def _play(spec: EngineSpec, request: Request, folder: Path, view: SessionProgress) -> _Session:
    request = replace(
        request,
        isolation=request.isolation or isolation.best(spec),
        workers=request.workers or machine.runs_at_once(spec.runs_per_processor),
        engine=spec.asked,
    )
    if spec.kafka is not None:
        from tickproof.conformance.kafka import shared_broker

        shared_broker.address()  # one for all processes of the session
    record = SessionRecord.of(spec, request)
    level = request.isolation or isolation.Level.NONE
    facts = {
        "engine": f"{spec.name} {spec.version}",
        "profile": request.profile,
        "seed": str(request.seed),
        "isolation": level.value,
    }
    with runs_folder(folder / RUNS, request.seed) as runs, SessionLog(folder, facts, view) as log:
        try:
            with view:
                hidden = (*request.hidden, *_beside_runs(folder, spec))
                outcomes = run_session(spec.path, replace(request, out=runs, hidden=hidden), log)
        except SessionCut as cut:
            return _Session(record, runs, cut.outcomes, datetime.now(UTC), cut=cut)
        log.came_out(session_reports.conclusion(record, outcomes, folder).word)
    space = _fault_space(spec, request, outcomes)
    return _Session(record, runs, outcomes, datetime.now(UTC), space)


def _confirmed(
    session: _Session, spec: EngineSpec, request: Request, folder: Path, console: Console
) -> _Session:
    """Replay the failures of a session that was played to its end, if that was asked for."""
    if not request.confirm or session.cut is not None:
        return session
    with runs_folder(folder / REPLAYS, request.seed) as runs:
        outcomes = confirmation.confirmed(
            session.outcomes,
            spec,
            runs,
            request.confirm,
            lambda said: console.print(Text(f"  {said}", style="dim"), soft_wrap=True),
        )
    return replace(session, outcomes=outcomes)


def _report(session: _Session, folder: Path, console: Console, verbose: bool) -> tuple[Report, int]:
    """Write and print the reports of a session; returns its exit status, too."""
    cut = session.cut
    report = session_reports.build(
        session.record,
        session.outcomes,
        session.runs,
        folder,
        ended=session.ended,
        fault_space=session.fault_space,
        cut=None if cut is None else (cut.why, cut.status),
    )
    if cut is not None and cut.broke is not None:
        keep_traceback(cut.broke, folder, console)
    kept = _nothing_new(report, folder)
    written = kept or _written(partial(session_reports.write, report, folder), folder, console)
    terminal.summary(console, report, folder, verbose=verbose)
    if not kept and written:
        pages = partial(session_reports.write_pages, report, folder, console)
        written = _written(pages, folder, console)
        if cut is None or cut.broke is None:
            (folder / KIT_ERROR_FILE).unlink(missing_ok=True)  # of an earlier session
    return report, report.exit_status if written else EXIT_KIT_ERROR


def _written(write: Callable[[], None], folder: Path, console: Console) -> bool:
    """Write reports; say why if they cannot be."""
    try:
        write()
    except OSError as error:
        why = disk_space.words(folder) if disk_space.caused(error) else error.strerror
        _say_kit_error(f"the reports cannot be written into {folder}: {why}", console)
        return False
    return True


def _fault_space(
    spec: EngineSpec, request: Request, outcomes: Sequence[Outcome]
) -> FaultSpace | None:
    """Return what a session covered of the fault space; None where it played nothing of it."""
    played = [one.evidence.get("points") for one in outcomes if one.requirement == COVERING]
    points = [Point.from_json(point) for found in played for point in found or ()]
    if not points:
        return None
    covered = coverage(offers(spec, on_hosts=request.hosts > 0), request.profile, points)
    return space_part(covered)


def space_part(covered: Coverage) -> FaultSpace:
    """Return the part of a report that says what was covered of the fault space."""
    return FaultSpace(
        pairs=len(covered.covered) + len(covered.missing),
        covered=len(covered.covered),
        triples=covered.triples[0],
        of_triples=covered.triples[1],
        points=[point.to_json() for point in covered.points],
        missing=sorted([str(one), str(other)] for one, other in covered.missing),
    )
