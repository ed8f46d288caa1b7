"""`tickproof survey`: judge engines with several seeds, write survey.json and its pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.kafka import software
from tickproof.conformance.performance.survey import collection, promises, site, words
from tickproof.conformance.performance.survey.collection import Judged
from tickproof.conformance.performance.survey.result import Software, Survey
from tickproof.conformance.report import document, json_report
from tickproof.conformance.report.json_report import Report
from tickproof.conformance.session import run_command
from tickproof.conformance.session.request import Request
from tickproof.conformance.suites.requirement import Requirement
from tickproof.conformance.verdicts import worst_status


def run(
    specs: Sequence[EngineSpec],
    selected: Mapping[str, Requirement],
    request: Request,
    seeds: Sequence[int],
    console: Console,
) -> int:
    """Judge each engine with each seed; returns the worst exit status.

    Sessions go to ``request.out``/seedN, the table of all to survey.json and site/.
    Raises InvalidFile for a promises.toml, before anything is started; OSError where the
    table cannot be written. A survey that is ended early has the table of the seeds before.
    """
    said = [promises.beside(spec.path) for spec in specs]
    out = request.out
    started = datetime.now(UTC)
    sessions: list[list[Judged]] = [[] for _ in specs]
    statuses: list[int] = []

    def write() -> None:
        survey = Survey(
            format=document.FORMAT,
            kit=document.this_kit(),
            host=document.this_host(),
            software=_software(specs),
            profile=request.profile,
            seeds=list(seeds[: len(statuses)]),
            only=list(request.only),
            started=started,
            ended=datetime.now(UTC),
            exit_status=worst_status(statuses),
            engines=[
                collection.row(spec, found, one, out, lambda text: console.print(Text(text)))
                for spec, found, one in zip(specs, sessions, said, strict=True)
            ],
        )
        pages = out / collection.SITE
        written = (survey.write(out), site.write(survey, pages))
        console.print()
        for line in words.brief(survey):
            console.print(Text(line), soft_wrap=True)
        for path in written:
            console.print(Text(f"  {path}", style="dim"), soft_wrap=True)

    hidden = tuple(out / f"seed{seed}" for seed in seeds)
    try:
        for number, seed in enumerate(seeds, 1):
            began = datetime.now(UTC)
            console.print(Text(f"seed {seed}, {number} of {len(seeds)}", style="dim"))
            asked = replace(request, seed=seed, out=out / f"seed{seed}", hidden=hidden)
            folders = run_command.engine_folders(specs, asked.out)
            statuses.append(run_command.judge_all(specs, selected, asked, console))
            for found, folder in zip(sessions, folders, strict=True):
                found.append(Judged(seed, folder, _report(folder, began)))
    finally:
        if statuses:
            write()
    return worst_status(statuses)


def _report(folder: Path, began: datetime) -> Report | None:
    """Return the report of the session that just ended; None where it left none."""
    try:
        report = Report.read(folder / json_report.FILE_NAME)
    except HistoryError:
        return None
    return report if report.started >= began else None


def _software(specs: Sequence[EngineSpec]) -> Software:
    over_kafka = any(spec.kafka is not None for spec in specs)
    found = software.installed() if over_kafka else None
    return Software(**found._asdict()) if found else Software()
