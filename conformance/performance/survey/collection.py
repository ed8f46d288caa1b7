"""From the reports of several seeds to one row of an engine."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tickproof.conformance.engines.spec import EngineSpec, load
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.faults.space.offers import APPS
from tickproof.conformance.history import plain_files
from tickproof.conformance.performance.survey import run_figures
from tickproof.conformance.performance.survey.promises import Promises
from tickproof.conformance.performance.survey.result import (
    ClaimSet,
    Control,
    EngineRow,
    Failure,
    Measured,
    Replays,
    Session,
    Settings,
    State,
    Tally,
)
from tickproof.conformance.performance.survey.source_lines import (
    code_lines,
    reproduction,
    source_files,
    text_of,
)
from tickproof.conformance.report import document, judged, whole_file
from tickproof.conformance.report.document import PAGE_NAME
from tickproof.conformance.report.json_report import Report, Result
from tickproof.conformance.report.terminal import REPEATS
from tickproof.conformance.scenario import Claims
from tickproof.conformance.session.pack import writer
from tickproof.conformance.suites.hints import halves
from tickproof.conformance.verdicts import Verdict

#: The pages of a survey, with all that they link to.
SITE: Final = "site"
PACKS: Final = "packs"
REPORTS: Final = "reports"
SOURCES: Final = "sources"


@dataclass(frozen=True)
class Judged:
    """One engine judged with one seed. report: None where the kit broke before there was one.

    control: of the engine's control, on what the engine failed; None where nothing was judged.
    """

    seed: int
    folder: Path
    report: Report | None
    control: Report | None = None

    @property
    def failed(self) -> list[Result]:
        """What the engine failed."""
        results = self.report.requirements if self.report else ()
        return [result for result in results if result.verdict is Verdict.FAIL]


def row(
    spec: EngineSpec,
    sessions: Sequence[Judged],
    promises: Promises,
    measured: Measured | None,
    out: Path,
    say: Callable[[str], None],
) -> EngineRow:
    """Return what an engine came to. Packs of its failures and reports go to ``out``/site."""
    figures = run_figures.of_sessions([(one.folder, one.report) for one in sessions if one.report])
    seen = [one.report.engine for one in sessions if one.report]
    named = document.engine_facts(spec.name, spec.version, spec.language, spec.path, spec.asked)
    return EngineRow(
        engine=seen[0] if seen else named,
        claims=_claims(spec),
        settings=_settings(spec),
        code_lines=code_lines(spec.path.parent),
        sources=_sources(spec, out / SITE),
        sessions=[
            Session(
                seed=one.seed,
                verdict=one.report.verdict if one.report else None,
                isolation=one.report.isolation if one.report else None,
                report=one.folder.relative_to(out).as_posix(),
                page=_copied(one, out / SITE, say),
            )
            for one in sessions
        ],
        runs=figures.runs,
        faults=dict(sorted(figures.faults.items())),
        deaths=figures.deaths,
        recovery=figures.recovery,
        measured=measured,
        requirements=tallies([one.report for one in sessions]),
        failures=_failures(sessions, promises, spec, out, say),
    )


def _claims(spec: EngineSpec) -> list[ClaimSet]:
    apps: dict[tuple[str, str, tuple[str, ...], str], list[str]] = {}
    for app, params in APPS.values():
        if spec.offers(app, params):
            one: Claims = spec.claims(app, params)
            name = " ".join([app, *(f"{key}={value}" for key, value in params.items())])
            key = (one.state, one.delivery, tuple(sorted(one.survives)), one.rescale)
            apps.setdefault(key, []).append(name)
    return [
        ClaimSet(apps=names, state=state, delivery=delivery, survives=[*survives], rescale=rescale)
        for (state, delivery, survives, rescale), names in apps.items()
    ]


def _settings(spec: EngineSpec) -> Settings:
    limits, kafka = spec.timeouts, spec.kafka
    return Settings(
        transport=spec.transports[0],
        startup_timeout_s=limits.startup_s,
        drain_timeout_s=limits.drain_s,
        recovery_timeout_s=limits.recovery_s,
        cut_timeout_s=limits.cut_s,
        session_timeout_ms=kafka.session_ms if kafka else None,
        transaction_timeout_ms=kafka.transaction_ms if kafka else None,
    )


def tallies(reports: Sequence[Report | None]) -> list[Tally]:
    """Return each requirement over all seeds, in the order of the reports; None: no report."""
    found: dict[str, list[Result]] = {}
    for report in reports:
        for result in report.requirements if report else ():
            found.setdefault(result.id, []).append(result)
    made = []
    for id_, results in found.items():
        state = state_of(results, len(reports))
        whys = {} if state is State.HELD else {judged.why(one): None for one in results}
        verdicts = dict(Counter(one.verdict for one in results))
        why = "; ".join(filter(None, whys)) if state is not State.FAILED else ""
        made.append(Tally(id=id_, title=results[0].title, state=state, verdicts=verdicts, why=why))
    return made


def state_of(results: Sequence[Result], seeds: int) -> State:
    """Return what the results of one requirement come to: a doubt in one seed is a doubt."""
    verdicts = {result.verdict for result in results}
    if Verdict.FAIL in verdicts:
        return State.FAILED
    doubtful = verdicts & {Verdict.UNKNOWN, Verdict.BLOCKED, Verdict.KIT_ERROR}
    if doubtful or len(results) < seeds:
        return State.UNDECIDED
    if verdicts & {Verdict.KNOWN_GAP, Verdict.GAP_FIXED}:
        return State.KNOWN_GAP
    if Verdict.PASS in verdicts:
        return State.HELD
    if not any(map(judged.applies, results)):
        return State.NOT_APPLICABLE
    return State.NOT_CLAIMED


def _failures(
    sessions: Sequence[Judged],
    promises: Promises,
    spec: EngineSpec,
    out: Path,
    say: Callable[[str], None],
) -> list[Failure]:
    failed: dict[str, list[tuple[Judged, Result]]] = {}
    for session in sessions:
        for result in session.failed:
            failed.setdefault(result.id, []).append((session, result))
    made = []
    for id_, found in failed.items():
        session, result = found[0]
        run = session.folder / result.run if result.run else None
        pack = out / SITE / PACKS / f"{session.folder.name}-{id_}{writer.SUFFIX}"
        packed = run is not None and _packed(run, pack, say)
        script = reproduction(spec.path.parent, id_)
        made.append(
            Failure(
                id=id_,
                title=result.title,
                failed_in=len(found),
                of=len(sessions),
                confirmed=len(found) == len(sessions),
                replays=_replays(result),
                seed=session.seed,
                promise=halves(result.promise)[0],
                causes=halves(result.promise)[1],
                reason=result.reason,
                headline=" ".join(result.story.headline),
                story=list(result.story.lines),
                stimulus=result.stimulus,
                expected=result.expected,
                actual=result.actual,
                reproduce=result.reproduce,
                run=run.relative_to(out).as_posix() if run else "",
                pack=f"{PACKS}/{pack.name}" if packed else "",
                script=_source_name(spec.path.parent, script) if script else "",
                breaks=promises.broken_by(id_),
                control=_control(id_, [session for session, _ in found], spec.differs),
            )
        )
    return made


def _control(id_: str, sessions: Sequence[Judged], differs: str) -> Control | None:
    """Return how often the control passed where the engine failed; None without a control."""
    reports = [session.control for session in sessions if session.control]
    if not reports:
        return None
    results = [result for report in reports for result in report.requirements if result.id == id_]
    passed = sum(result.verdict is Verdict.PASS for result in results)
    title = reports[0].engine.title
    return Control(engine=title, differs=differs, passed=passed, of=len(sessions))


def _sources(spec: EngineSpec, site: Path) -> list[str]:
    """Copy engine.toml, README.md and the code beside it into the site, and those of its control.

    Returns where they lie there.
    """
    made = []
    for toml in filter(None, (spec.path, load(spec.control).path if spec.control else None)):
        folder = toml.parent
        about = folder / "README.md"
        told = [about] if about.is_file() and not about.is_symlink() else []
        for path in (toml, *told, *source_files(folder)):
            name = _source_name(folder, path)
            whole_file.write(site / name, text_of(path))
            made.append(name)
    return made


def _source_name(folder: Path, path: Path) -> str:
    """Return where a file of an engine's folder lies in the site."""
    known = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]  # two may have one name
    return f"{SOURCES}/{known}/{folder.name}/{path.relative_to(folder).as_posix()}.txt"


def _replays(result: Result) -> Replays | None:
    found = result.evidence.get(REPEATS)
    return Replays.model_validate(found) if found else None


def _copied(session: Judged, site: Path, say: Callable[[str], None]) -> str:
    """Copy the page of a session into the site; return where it lies there, "" without one."""
    if session.report is None:
        return ""
    page = f"{REPORTS}/{session.folder.name}-seed{session.seed}.html"
    try:
        text = plain_files.read_document(session.folder, PAGE_NAME).decode("utf-8")
        whole_file.write(site / page, text)
    except (HistoryError, OSError, ValueError) as error:
        say(f"no {page}: {error}")
        return ""
    return page


def _packed(run: Path, pack: Path, say: Callable[[str], None]) -> bool:
    """Make a pack of a run. It is an extra: what goes wrong in it costs no table."""
    try:
        pack.parent.mkdir(parents=True, exist_ok=True)
        pack.unlink(missing_ok=True)
        writer.pack(run, pack)
    except Exception as error:
        say(f"no pack of {run}: {type(error).__name__}: {error}")
        return False
    return True
