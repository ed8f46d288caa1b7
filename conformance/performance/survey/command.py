"""`tickproof survey`: judge engines with several seeds, write survey.json and its pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tickproof.conformance.engines import spec as engine_spec
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import HistoryError, InvalidFile
from tickproof.conformance.kafka import software
from tickproof.conformance.performance.latency_terminal import Status
from tickproof.conformance.performance.survey import collection, load, promises, site, words
from tickproof.conformance.performance.survey.collection import Judged
from tickproof.conformance.performance.survey.result import Load, Measured, Software, Survey
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
    rounds: int,
    console: Console,
) -> int:
    """Judge each engine with each seed; returns the worst exit status.

    rounds: in which rate and latency are measured after that; 0: not at all.

    Sessions go to ``request.out``/seedN, the table of all to survey.json and site/.
    Raises InvalidFile for a promises.toml or a control, before anything is started; OSError
    where the table cannot be written. A survey that is ended early has the table of the seeds
    before.
    """
    said = [promises.beside(spec.path) for spec in specs]
    controls = list(map(_control, specs))
    out = request.out
    started = datetime.now(UTC)
    sessions: list[list[Judged]] = [[] for _ in specs]
    used: Load | None = None
    measured: Sequence[Measured | None] = [None] * len(specs)
    statuses: list[int] = []

    def say(text: str) -> None:
        console.print(Text(text))

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
            load=used,
            exit_status=worst_status(statuses),
            engines=[
                collection.row(spec, found, one, figures, out, say)
                for spec, found, one, figures in zip(specs, sessions, said, measured, strict=True)
            ],
        )
        pages = out / collection.SITE
        written = (survey.write(out), site.write(survey, pages))
        console.print()
        for line in words.brief(survey):
            console.print(Text(line), soft_wrap=True)
        for path in written:
            console.print(Text(f"  {path}", style="dim"), soft_wrap=True)

    places = (out / f"seed{seed}" for seed in seeds)
    hidden = (out / collection.SITE, *(each for one in places for each in (one, _beside(one))))
    try:
        for number, seed in enumerate(seeds, 1):
            began = datetime.now(UTC)
            console.print(Text(f"seed {seed}, {number} of {len(seeds)}", style="dim"))
            asked = replace(request, seed=seed, out=out / f"seed{seed}", hidden=hidden)
            folders = run_command.engine_folders(specs, asked.out)
            statuses.append(run_command.judge_all(specs, selected, asked, console))
            for found, folder, control in zip(sessions, folders, controls, strict=True):
                one = Judged(seed, folder, _report(folder, began))
                found.append(one)
                if control and one.failed:
                    found[-1] = replace(one, control=_controlled(control, one, asked, console))
        if rounds:
            console.print(Text("rate and latency", style="dim"))
            with Status(console) as status:
                used, measured = load.measure(specs, out / "load", rounds, seeds[0], status)
    finally:
        if statuses:
            write()
    return worst_status(statuses)


def _control(spec: EngineSpec) -> EngineSpec | None:
    """Load the control of an engine; an error names the file that asks for it."""
    if spec.control is None:
        return None
    try:
        return engine_spec.load(spec.control)
    except InvalidFile as error:
        raise InvalidFile(spec.path, [f"[control] engine: {error}"]) from error


def _controlled(
    control: EngineSpec, judged: Judged, asked: Request, console: Console
) -> Report | None:
    """Judge the control of an engine on what the engine failed, with the same seed."""
    only = tuple(result.id for result in judged.failed)
    request = replace(asked, tiers=(), only=only, confirm=0, out=_beside(asked.out))
    began = datetime.now(UTC)
    run_command.judge_all([control], run_command.select(request), request, console)
    return _report(run_command.engine_folders([control], request.out)[0], began)


def _beside(seed: Path) -> Path:
    """Return where sessions of controls go, by the folder of a seed."""
    return seed.with_name(f"{seed.name}-control")


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
