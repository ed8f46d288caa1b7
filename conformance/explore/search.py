"""`tickproof explore`: draw schedules, play them, shrink the first that fails, save it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Generic

from rich.console import Console
from rich.text import Text

from tickproof.conformance.engines import interruption
from tickproof.conformance.explore import page
from tickproof.conformance.explore.confirmation import Confirmation
from tickproof.conformance.explore.progress import SearchProgress
from tickproof.conformance.explore.shrink import shrink
from tickproof.conformance.explore.subject import Attempt, Attempts, Schedule, Subject
from tickproof.conformance.faults import regressions
from tickproof.conformance.faults.schedule_file import Failure
from tickproof.conformance.report import templates, terminal
from tickproof.conformance.report.document import FORMAT, PAGE_NAME, this_host, this_kit
from tickproof.conformance.report.json_report import result
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Verdict, status_of


@dataclass(frozen=True)
class Search:
    """A search as it was asked for. budget_s: time to search; shrink_s: time to shrink a failure.

    out: gets explore.json and the runs of a failure. save: gets the regression.
    times: runs that have to fail for a schedule to count as failing. command: what searches
    the same again.
    """

    out: Path
    save: Path
    budget_s: float
    shrink_s: float
    seed: int
    times: int
    command: str


@dataclass(frozen=True)
class Found(Generic[Schedule]):
    """A failure: the first one, the smallest schedule, how often that failed, others seen."""

    first: Attempt[Schedule]
    smallest: Attempt[Schedule]
    failed: int
    of: int
    others: dict[str, int]
    seconds: float

    @property
    def confidence(self) -> str:
        """Runs of the smallest schedule that failed: "3 of 3"."""
        return f"{self.failed} of {self.of}"


def explore(subject: Subject[Schedule], search: Search, console: Console) -> int:
    """Search until the budget is used up or a failure is found; return the exit status."""
    runs = search.out / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    runs.mkdir(parents=True)
    progress = SearchProgress(console, subject)
    found: Found[Schedule] | None = None
    broken: Attempt[Schedule] | None = None
    cut_short: BaseException | None = None
    try:
        with progress, subject.attempts(runs, progress.add) as attempts:
            first = _first_bad(attempts, subject.drawn(), search.budget_s)
            if first is not None and first.failed:
                what = progress.described(first)
                progress.say(f"failed: {first.kind}: {what}; shrinking it")
                progress.doing = "shrinking"
                found, cut_short = _shrunk(first, attempts, subject, search, progress)
            elif first is not None:
                broken = first
    except (KeyboardInterrupt, BrokenExecutor) as error:
        cut_short = error
    with interruption.deferred():  # a report of what was played until then
        ended = (found, broken, cut_short)
        report = _reported(subject, search, progress, ended, console)
    if cut_short:
        raise cut_short
    return status_of([report.verdict])


def _reported(
    subject: Subject[Schedule],
    search: Search,
    progress: SearchProgress[Schedule],
    ended: tuple[Found[Schedule] | None, Attempt[Schedule] | None, BaseException | None],
    console: Console,
) -> page.SearchReport:
    """Print a search that is over, and write its report.

    ended: what failed, an error of the kit, and what cut it short, each None without one.
    """
    runs = search.out / "runs"
    found, broken, cut_short = ended
    console.print(progress.summary())
    failure = _kept(found, subject, search, console) if found else None
    broke = result(broken.outcome, None, search.out) if broken is not None else None
    if broke is not None:
        terminal.details(console, [broke], search.out)
    else:
        shutil.rmtree(runs, ignore_errors=True)
    if space := subject.coverage(progress.points):
        share = space.covered / max(space.pairs, 1)
        line = f"fault space: {share:.1%} of {space.pairs:,} pairs covered"
        console.print(Text(line), soft_wrap=True)
    report = page.SearchReport(
        format=FORMAT,
        kit=this_kit(),
        host=this_host(),
        engine=subject.name,
        command=search.command,
        seed=search.seed,
        verdicts=dict(progress.verdicts),
        faults_fired=progress.fired,
        faults_missed=progress.missed,
        fault_space=space,
        failure=failure,
        broke=broke,
        interrupted=_why(cut_short),
    )
    report.write(search.out)
    templates.as_extra(lambda: page.write(report, search.out), console)
    console.print(Text(f"report: {search.out / PAGE_NAME}", style="dim"), soft_wrap=True)
    return report


def _why(cut_short: BaseException | None) -> str:
    """Say what cut a search short, "" if nothing did."""
    if cut_short is None:
        return ""
    if isinstance(cut_short, KeyboardInterrupt):
        return interruption.words()
    return "ended early: a process that played runs died"


def _first_bad(
    attempts: Attempts[Schedule], drawn: Iterable[Schedule], budget_s: float
) -> Attempt[Schedule] | None:
    """Return the first failure; if there is none, a kit-error, if any."""
    bad: list[Attempt[Schedule]] = []
    deadline = time.monotonic() + budget_s
    within = takewhile(lambda _: not bad and time.monotonic() <= deadline, drawn)
    for made in attempts.each(within):
        if made.outcome.verdict in (Verdict.FAIL, Verdict.KIT_ERROR):
            bad.append(made)
    return min(bad, key=lambda made: not made.failed, default=None)


def _shrunk(
    first: Attempt[Schedule],
    attempts: Attempts[Schedule],
    subject: Subject[Schedule],
    search: Search,
    progress: SearchProgress[Schedule],
) -> tuple[Found[Schedule], BaseException | None]:
    """Shrink a failure until its time is up.

    Returns also what cut it short, if something did: what was found by then is not lost.
    """
    began, cut_short = time.monotonic(), None
    confirmation = Confirmation(attempts, first.kind, search.times)
    smallest, failed, of = first, 1, 1
    until = began + search.shrink_s
    steps = shrink(
        first.schedule, subject.smaller(), confirmation.fails, lambda: time.monotonic() > until
    )
    try:
        for smaller in steps:
            smallest, failed, of = confirmation.proof[0], search.times, search.times
            progress.say(f"smaller: {subject.size(smaller)} ({time.monotonic() - began:.0f} s)")
        if smallest is first:
            failed, of = 1 + confirmation.confirm(first.schedule), 1 + search.times
    except (KeyboardInterrupt, BrokenExecutor) as error:
        cut_short = error
    seconds = time.monotonic() - began
    return Found(first, smallest, failed, of, dict(confirmation.others), seconds), cut_short


def _kept(
    found: Found[Schedule], subject: Subject[Schedule], search: Search, console: Console
) -> page.Failure:
    """Save the regression and its run, and print all of it."""
    smallest = found.smallest
    outcome = smallest.outcome
    failure = Failure(
        engine=subject.name,
        reason=smallest.kind,
        actual=shown(outcome.actual, 400),
        confidence=found.confidence,
        seed=search.seed,
    )
    name = "-".join([*dict.fromkeys(subject.faults(smallest.schedule)), outcome.reason])
    text = subject.to_toml(smallest.schedule, failure)
    saved = regressions.save(text, search.save, name.lower().replace("_", "-"))
    kept = search.out / "failed"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.move(outcome.run, kept)
    outcome = subject.told(replace(outcome, run=str(kept), reproduce=subject.again(saved)))
    of_smallest = result(outcome, subject.requirement, search.out)
    before, after = (subject.size(one.schedule) for one in (found.first, smallest))
    shape = f"shrunk from {before} to {after} in {found.seconds:.0f} s"
    terminal.details(console, [of_smallest], search.out)
    console.print()
    console.print(Text(f"fails {found.confidence} runs; {shape}"), soft_wrap=True)
    for kind, times in found.others.items():
        line = f"another failure was seen {times} times on the way, and not pursued: {kind}"
        console.print(Text(shown(line, 300)), soft_wrap=True)
    console.print(Text(f"saved: {saved}"), soft_wrap=True)
    return page.Failure(
        kind=found.first.kind,
        confidence=found.confidence,
        first=subject.to_toml(found.first.schedule),
        smallest=subject.to_toml(smallest.schedule),
        shape=shape,
        shrink_seconds=round(found.seconds, 1),
        others=found.others,
        saved=str(saved),
        result=of_smallest,
    )
