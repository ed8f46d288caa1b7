"""One engine through the tiers: runs the suites under pytest, tier by tier, in parallel."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tickproof.conformance import suites
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.faults import regressions
from tickproof.conformance.faults.schedule_file import load_all
from tickproof.conformance.history.folder import History
from tickproof.conformance.requirements import registry
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import pytest_plugin
from tickproof.conformance.session.request import Request
from tickproof.conformance.suites.evidence import SEEN
from tickproof.conformance.suites.judge import (
    JUDGES,
    Fail,
    Judge,
    KitError,
    check_claims,
    import_suites,
)
from tickproof.conformance.suites.outcomes import outcome_of, with_known_gaps
from tickproof.conformance.suites.schedules import judges_of
from tickproof.conformance.verdicts import SEVERITY, Outcome, Verdict

SUITES: Final = Path(suites.__file__).parent
#: Folders of earlier sessions that are kept beside the newest.
KEEP_SESSIONS: Final = 2
FEED_S: Final = 0.1

OnEvent = Callable[[dict[str, Any]], None]


def run_session(engine: Path, request: Request, on_event: OnEvent) -> list[Outcome]:
    """Judge the engine of an engine.toml; one outcome for each selected requirement.

    A tier is tried when no requirement below it failed, unless single requirements
    were asked for. Raises KeyboardInterrupt when interrupted.
    """
    runs = new_runs_folder(request.out / "runs", request.seed)
    selected = registry.chosen(registry.load(), request.tiers, request.only, request.profile)
    outcomes: list[Outcome] = []
    broken: list[str] = []
    for tier in sorted({requirement.tier for requirement in selected.values()}):
        if broken and not request.only:
            why = f"{', '.join(broken[:3])}{' and more' if len(broken) > 3 else ''} did not hold"
            blocked = [
                Outcome(id_, Verdict.BLOCKED, reason="LOWER_TIER", actual=why)
                for id_, requirement in selected.items() if requirement.tier == tier
            ]  # fmt: skip
            for outcome in blocked:
                on_event({"event": "decided", "outcome": outcome.to_json()})
            outcomes += blocked
            continue
        on_event({"event": "tier-started", "tier": tier})
        found = _run_tier(engine, replace(request, out=runs, tiers=(tier,)), on_event)
        of_tier = {id_ for id_, requirement in selected.items() if requirement.tier == tier}
        missing = _undecided(of_tier, found, engine, request)
        for outcome in missing:
            on_event({"event": "decided", "outcome": outcome.to_json()})
        found = _by_requirement(found + missing)
        outcomes += found
        bad = {Verdict.FAIL, Verdict.GAP_FIXED, Verdict.KIT_ERROR}
        broken += [outcome.requirement for outcome in found if outcome.verdict in bad]
    return outcomes


def _undecided(
    requirements: set[str], found: list[Outcome], engine: Path, request: Request
) -> list[Outcome]:
    """Return a kit-error for each test, by requirement and scenario, without an outcome."""
    import_suites()
    given = load_all(request.schedules or regressions.beside(engine))
    expected = {
        (requirement, scenario)
        for scenario in [*(() if request.schedules else JUDGES), *given]
        for requirement, _ in judges_of(scenario)
        if requirement in requirements
    } | {(id_, "") for id_ in requirements - {id_ for j in JUDGES.values() for id_, _ in j}}
    missing = expected - {(outcome.requirement, outcome.scenario) for outcome in found}
    return [
        Outcome(
            requirement, Verdict.KIT_ERROR, scenario, reason="NOT_DECIDED",
            expected="an outcome", actual="none: the process that tested it ended",
        )
        for requirement, scenario in sorted(missing)
    ]  # fmt: skip


def _by_requirement(found: list[Outcome]) -> list[Outcome]:
    """Return one outcome for each requirement, in the order in which they came."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in found:
        groups.setdefault(outcome.requirement, []).append(outcome)
    return [combined(group) for group in groups.values()]


def new_runs_folder(parent: Path, seed: int, used: Path | None = None) -> Path:
    """Make the folder of a session in ``parent``; of earlier ones the newest two are kept.

    One that holds ``used`` is kept too. Raises OSError.
    """
    parent.mkdir(parents=True, exist_ok=True)
    earlier = sorted(path for path in parent.iterdir() if path.is_dir())
    if used is not None:
        earlier = [path for path in earlier if not used.resolve().is_relative_to(path.resolve())]
    for path in earlier[: max(0, len(earlier) - KEEP_SESSIONS)]:
        shutil.rmtree(path, ignore_errors=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(100):
        folder = parent / f"{stamp}-seed{seed}{f'-{number}' if number else ''}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"{parent}: a hundred sessions began in the same second")


def _run_tier(engine: Path, request: Request, on_event: OnEvent) -> list[Outcome]:
    """Run the suites of the one tier of a request under pytest; one outcome for each test."""
    (tier,) = request.tiers
    feed = request.out / "feed.jsonl"
    feed.touch()
    collector = _Collector(on_event)
    arguments = [
        *map(str, sorted(SUITES.glob(f"test_t{tier}*.py"))), "-s",
        "-p", pytest_plugin.__name__, "-p", "no:terminal", "-p", "no:cacheprovider",
        "-c", os.devnull, f"--rootdir={SUITES}", "--engine", str(engine),
        "--tickproof-request", replace(request, feed=feed).to_json(),
    ]  # fmt: skip
    # A run in which time counts shares the machine with no other run of the kit.
    if request.workers > 1 and tier != registry.LATENCY_TIER:
        workers = str(request.workers)
        arguments += ["-n", workers, "--no-loadscope-reorder", "--max-worker-restart=0"]
    with _Feed(feed, on_event):
        status = pytest.main(arguments, plugins=[collector])
    if status == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if status in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
        raise RuntimeError(f"pytest ended with {pytest.ExitCode(status).name}; see its output")
    return collector.found


class _Collector:
    """A pytest plugin that takes the outcomes out of the reports of all processes."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        #: One outcome a test.
        self.found: list[Outcome] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == pytest_plugin.PROPERTY and report.when != "teardown":
                outcome = Outcome.from_json(json.loads(value))
                self.found.append(outcome)
                self._on_event({"event": "decided", "outcome": outcome.to_json()})


def combined(found: list[Outcome]) -> Outcome:
    """Return the worst of several outcomes of one requirement, with the time of all.

    A gap that one test shows is not fixed because another test does not show it.
    """
    considered = found
    if any(outcome.verdict is Verdict.KNOWN_GAP for outcome in found):
        considered = [outcome for outcome in found if outcome.verdict is not Verdict.GAP_FIXED]
    worst = max(considered, key=lambda outcome: SEVERITY.index(outcome.verdict))
    return replace(worst, seconds=round(sum(outcome.seconds for outcome in found), 3))


class _Feed:
    """Reads the events that the processes append to a file, and hands them on."""

    def __init__(self, path: Path, on_event: OnEvent) -> None:
        self._file = path.open(encoding="utf-8")
        self._file.seek(0, os.SEEK_END)  # what is there belongs to the tiers before
        self._on_event = on_event
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self._file.close()

    def _run(self) -> None:
        rest = ""
        stopped = False
        while not stopped:
            stopped = self._stop.wait(FEED_S)
            rest += self._file.read()
            *lines, rest = rest.split("\n")
            for line in lines:
                self._on_event(json.loads(line))


def recheck(folder: Path, opened: Callable[[Path], History] = History) -> list[Outcome]:
    """Judge a recorded run again, from its folder alone; ``opened`` makes its history.

    Raises HistoryError where the folder cannot be judged.
    """
    import_suites()
    history = opened(folder)
    if not judges_of(history.scenario):
        raise HistoryError(f"{folder}: no test judges scenario {history.scenario!r}")
    had_input = (folder / "input").exists()
    known = registry.load()
    found: dict[str, list[Outcome]] = {}
    wanted = history.decided()
    for requirement, judge in judges_of(history.scenario):
        if wanted and requirement not in wanted:
            continue
        error = _raised(known[requirement].needs, judge, history)
        outcome = outcome_of(requirement, history.scenario, error, history)
        outcome = with_known_gaps(outcome, history.run.get("known_gaps", {}))
        found.setdefault(requirement, []).append(outcome)
    if not had_input:
        shutil.rmtree(folder / "input", ignore_errors=True)
    return [combined(outcomes) for outcomes in found.values()]


def _raised(needs: registry.Needs, judge: Judge, history: History) -> Exception | None:
    """Return what a judge raised on a recorded run, HistoryError excepted."""
    scenario = Scenario.from_json(history.run["scenario"])
    try:
        check_claims(needs, history.claims, scenario)
        judge(history)
    except HistoryError:
        raise
    except Fail as error:
        # What is missing from a run that the kit broke off is no fault of the engine.
        if history.ended["how"] == "kit-error" and error.code not in SEEN:
            return KitError(history.ended["message"])
        return error
    except Exception as error:
        return error
    return None
