"""`tickproof explore`: draw schedules, play them, shrink the first that fails, save it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tickproof.conformance.engines import interruption
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import RequestError
from tickproof.conformance.explain import with_stories
from tickproof.conformance.explore import page
from tickproof.conformance.explore.attempts import Attempt, Attempts
from tickproof.conformance.explore.confirmation import Confirmation
from tickproof.conformance.explore.generation import led, offers
from tickproof.conformance.explore.progress import SearchProgress, described
from tickproof.conformance.explore.shrink import shrink
from tickproof.conformance.faults import regressions
from tickproof.conformance.faults.schedule_file import Failure, from_scenario, to_toml
from tickproof.conformance.faults.space.offers import Offer
from tickproof.conformance.faults.space.offers import offers as space_offers
from tickproof.conformance.faults.space.sessions import coverage
from tickproof.conformance.report import templates, terminal
from tickproof.conformance.report.document import FORMAT, PAGE_NAME, this_host, this_kit
from tickproof.conformance.report.json_report import result
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session.run_command import space_part
from tickproof.conformance.suites import registry
from tickproof.conformance.text import command_line, shown
from tickproof.conformance.verdicts import Verdict, status_of


@dataclass(frozen=True)
class Search:
    """A search as it was asked for. budget_s: time to search; shrink_s: time to shrink a failure.

    out: gets explore.json and the runs of a failure. save: gets the regression.
    times: runs that have to fail for a schedule to count as failing. command: what searches
    the same again. hosts: that the engine runs on, 0 for none but this machine.
    """

    out: Path
    save: Path
    budget_s: float
    shrink_s: float
    seed: int
    parallel: int
    times: int
    command: str
    hosts: int = 0
    secret: str = ""


@dataclass(frozen=True)
class Found:
    """A failure: the first one, the smallest schedule, how often that failed, others seen."""

    first: Attempt
    smallest: Attempt
    failed: int
    of: int
    others: dict[str, int]
    seconds: float

    @property
    def confidence(self) -> str:
        """Runs of the smallest schedule that failed: "3 of 3"."""
        return f"{self.failed} of {self.of}"


def explore(spec: EngineSpec, search: Search, console: Console) -> int:
    """Search until the budget is used up or a failure is found; return the exit status.

    Raises RequestError where the engine claims nothing that could be broken.
    """
    on_hosts = search.hosts > 0
    offered = offers(spec, on_hosts=on_hosts)
    if not offered:
        raise RequestError(
            f"{spec.path}: expected an app with state exactly-once that survives worker or engine"
        )
    claimed = space_offers(spec, on_hosts=on_hosts)
    runs = search.out / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    runs.mkdir(parents=True)
    progress, found, broken, cut_short = SearchProgress(console), None, None, None
    pool = Attempts(spec.path, runs, search.parallel, progress.add, search.hosts)
    try:
        with progress, pool as attempts:
            drawn = led(offered, claimed, search.seed)
            scenarios = (scenario.with_secret(search.secret) for scenario in drawn)
            first = _first_bad(attempts, scenarios, search.budget_s)
            if first is not None and first.failed:
                progress.say(f"failed: {first.kind}: {described(first)}; shrinking it")
                progress.doing = "shrinking"
                found, cut_short = _shrunk(first, attempts, search, progress)
            elif first is not None:
                broken = first
    except (KeyboardInterrupt, BrokenExecutor) as error:
        cut_short = error
    with interruption.deferred():  # a report of what was played until then
        report = _reported(spec, search, claimed, progress, (found, broken, cut_short), console)
    if cut_short:
        raise cut_short
    return status_of([report.verdict])


def _reported(
    spec: EngineSpec,
    search: Search,
    claimed: tuple[Offer, ...],
    progress: SearchProgress,
    ended: tuple[Found | None, Attempt | None, BaseException | None],
    console: Console,
) -> page.SearchReport:
    """Print a search that is over, and write its report.

    ended: what failed, an error of the kit, and what cut it short, each None without one.
    """
    runs = search.out / "runs"
    found, broken, cut_short = ended
    console.print(progress.summary())
    failure = _kept(found, spec, search, console) if found else None
    broke = result(broken.outcome, None, search.out) if broken is not None else None
    if broke is not None:
        terminal.details(console, [broke], search.out)
    else:
        shutil.rmtree(runs, ignore_errors=True)
    covered = coverage(claimed, "full", dict.fromkeys(progress.points))
    share = f"fault space: {covered.share:.1%} of {len(covered.all_pairs):,} pairs covered"
    console.print(Text(share), soft_wrap=True)
    report = page.SearchReport(
        format=FORMAT,
        kit=this_kit(),
        host=this_host(),
        engine=f"{spec.name} {spec.version}",
        command=search.command,
        seed=search.seed,
        verdicts=dict(progress.verdicts),
        faults_fired=progress.fired,
        faults_missed=progress.missed,
        fault_space=space_part(covered),
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
    attempts: Attempts, scenarios: Iterable[Scenario], budget_s: float
) -> Attempt | None:
    """Return the first failure; if there is none, a kit-error, if any."""
    bad: list[Attempt] = []
    deadline = time.monotonic() + budget_s
    drawn = takewhile(lambda _: not bad and time.monotonic() <= deadline, scenarios)
    for made in attempts.each(drawn):
        if made.outcome.verdict in (Verdict.FAIL, Verdict.KIT_ERROR):
            bad.append(made)
    return min(bad, key=lambda made: not made.failed, default=None)


def _shrunk(
    first: Attempt, attempts: Attempts, search: Search, progress: SearchProgress
) -> tuple[Found, BaseException | None]:
    """Shrink a failure until its time is up.

    Returns also what cut it short, if something did: what was found by then is not lost.
    """
    began, cut_short = time.monotonic(), None
    confirmation = Confirmation(attempts, first.kind, search.times)
    smallest, failed, of = first, 1, 1
    over = began + search.shrink_s
    try:
        for smaller in shrink(first.scenario, confirmation.fails, lambda: time.monotonic() > over):
            smallest, failed, of = confirmation.proof[0], search.times, search.times
            shape = f"{len(smaller.faults)} faults, {smaller.recipe['records']:,} records"
            progress.say(f"smaller: {shape} ({time.monotonic() - began:.0f} s)")
        if smallest is first:
            failed, of = 1 + confirmation.confirm(first.scenario), 1 + search.times
    except (KeyboardInterrupt, BrokenExecutor) as error:
        cut_short = error
    seconds = time.monotonic() - began
    return Found(first, smallest, failed, of, dict(confirmation.others), seconds), cut_short


def _kept(found: Found, spec: EngineSpec, search: Search, console: Console) -> page.Failure:
    """Save the regression and its run, and print all of it."""
    smallest = found.smallest
    outcome = smallest.outcome
    failure = Failure(
        engine=f"{spec.name} {spec.version}",
        reason=smallest.kind,
        actual=shown(outcome.actual, 400),
        confidence=found.confidence,
        seed=search.seed,
    )
    schedule = from_scenario(smallest.scenario, failure)
    name = "-".join([*dict.fromkeys(s.do for s in smallest.scenario.faults), outcome.reason])
    saved = regressions.save(schedule, search.save, name.lower().replace("_", "-"))
    kept = search.out / "failed"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.move(outcome.run, kept)
    again = command_line("run", spec.asked or spec.path, schedule=saved, hosts=search.hosts or None)
    outcome = replace(outcome, run=str(kept), reproduce=again)
    (outcome,) = with_stories([outcome])
    of_smallest = result(outcome, registry.load()[outcome.requirement], search.out)
    terminal.details(console, [of_smallest], search.out)
    console.print()
    console.print(Text(f"fails {found.confidence} runs; {_shape(found)}"), soft_wrap=True)
    for kind, times in found.others.items():
        line = f"another failure was seen {times} times on the way, and not pursued: {kind}"
        console.print(Text(shown(line, 300)), soft_wrap=True)
    console.print(Text(f"saved: {saved}"), soft_wrap=True)
    return page.Failure(
        kind=found.first.kind,
        confidence=found.confidence,
        first=to_toml(from_scenario(found.first.scenario)),
        smallest=to_toml(from_scenario(smallest.scenario)),
        shape=_shape(found),
        shrink_seconds=round(found.seconds, 1),
        others=found.others,
        saved=str(saved),
        result=of_smallest,
    )


def _shape(found: Found) -> str:
    before, after = _size(found.first.scenario), _size(found.smallest.scenario)
    return f"shrunk from {before} to {after} in {found.seconds:.0f} s"


def _size(scenario: Scenario) -> str:
    return f"{len(scenario.faults)} faults and {scenario.recipe['records']:,} records"
