"""The runs of a search: each plays one schedule in a process of a pool, and is judged."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tickproof.conformance.engines.isolation import Isolation
from tickproof.conformance.engines.process_pool import process_pool
from tickproof.conformance.engines.spec import load
from tickproof.conformance.errors import HistoryError, KitStopped
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History, write_sealed_json
from tickproof.conformance.runner.run import play
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session.scenario_player import tidy
from tickproof.conformance.suites import evidence, registry
from tickproof.conformance.suites.judge import KitError
from tickproof.conformance.suites.outcomes import cause_of, outcome_of
from tickproof.conformance.suites.requirement import check_claims
from tickproof.conformance.suites.schedules import REQUIREMENT, held
from tickproof.conformance.verdicts import Outcome, Verdict


@dataclass(frozen=True)
class Attempt:
    """One run and its outcome. fired, missed: fault steps. seconds: of the run.

    kind: what failures of one defect have in common; "" where it did not fail. The run
    folder is kept only where it failed.
    """

    scenario: Scenario
    outcome: Outcome
    fired: int
    missed: int
    seconds: float
    kind: str = ""
    no_checkpoint_op: bool = False

    @property
    def failed(self) -> bool:
        """Whether there is a counterexample."""
        return self.outcome.verdict is Verdict.FAIL


def attempt(engine: Path, scenario: Scenario, folder: Path, hosts: int = 0) -> Attempt:
    """Play a scenario on the engine of an engine.toml, and judge it as a whole.

    ``hosts``: it runs on so many, 0: on this machine alone.
    """
    began = time.monotonic()
    try:
        isolation = Isolation(hosts=hosts)
        play(scenario, load(engine), folder, seed=scenario.recipe["seed"], isolation=isolation)
        history = History(folder)
        history.note(outputs=len(evidence.outputs(history)))
    except (KitStopped, HistoryError, OSError) as error:
        outcome = outcome_of(REQUIREMENT, scenario.name, error, None)
        return Attempt(scenario, outcome, 0, 0, time.monotonic() - began)
    outcome = outcome_of(REQUIREMENT, scenario.name, _raised(history, scenario), history)
    if cause := cause_of(outcome):
        # A run that broke off fails, whichever requirement would name it in a session.
        outcome = replace(cause, requirement=REQUIREMENT)
    missed = history.missed_faults
    made = Attempt(
        scenario,
        outcome,
        len(history.faults),
        len(missed),
        time.monotonic() - began,
        _kind(outcome, history),
        any("no checkpoint op" in row.why for row in missed),
    )
    history.cache.clear()
    if made.failed:
        write_sealed_json(folder / "verdict.json", [outcome.to_json() | {"run": "."}])
        tidy(history)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return made


def _raised(history: History, scenario: Scenario) -> Exception | None:
    try:
        check_claims(registry.load()[REQUIREMENT].needs, history.claims, scenario)
        held(history)
    except Exception as error:
        return error
    return None


def _kind(outcome: Outcome, history: History) -> str:
    """Return the code of a failure, with the log's refusal that led to it, if one did."""
    if outcome.verdict is not Verdict.FAIL:
        return ""
    refused = history.all(events.Refused)[-1:] if history.ended.how == "engine-failure" else []
    return outcome.reason + "".join(f" after {one.op} error {one.code}" for one in refused)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _interruptible(engine: Path, scenario: Scenario, folder: Path, hosts: int) -> Attempt:
    """Let Ctrl-C end a run, but not the pool's process that plays it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return attempt(engine, scenario, folder, hosts)
    except KeyboardInterrupt:
        error = KitError("interrupted with Ctrl-C")
        return Attempt(scenario, outcome_of(REQUIREMENT, scenario.name, error, None), 0, 0, 0.0)
    finally:
        _ignore_interrupts()


class Attempts:
    """A pool of processes that play schedules on one engine, ``parallel`` at a time.

    ``hosts``: that it runs on, 0 for none but this machine. Run folders are made in ``folder``.
    ``on_attempt`` is called with each attempt.
    """

    def __init__(
        self,
        engine: Path,
        folder: Path,
        parallel: int,
        on_attempt: Callable[[Attempt], None],
        hosts: int = 0,
    ) -> None:
        self.parallel = parallel
        self._engine, self._folder, self._on_attempt = engine, folder, on_attempt
        self._hosts = hosts
        self._number = 0
        self._pool = process_pool(parallel, _interruptible, _ignore_interrupts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def start(self, scenario: Scenario) -> Future[Attempt]:
        """Start a run."""
        self._number += 1
        folder = self._folder / f"{self._number:05}"
        return self._pool.submit(_interruptible, self._engine, scenario, folder, self._hosts)

    def each(self, scenarios: Iterator[Scenario], until: Callable[[], bool]) -> Iterator[Attempt]:
        """Yield attempts as they end; no run starts once ``until()`` is true."""
        running: set[Future[Attempt]] = set()
        while True:
            while len(running) < self.parallel and not until():
                running.add(self.start(next(scenarios)))
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                yield self.result_of(future)

    def all(self, scenarios: Sequence[Scenario]) -> list[Attempt]:
        """Return one attempt for each scenario, in their order."""
        return [self.result_of(future) for future in [self.start(one) for one in scenarios]]

    def result_of(self, future: Future[Attempt]) -> Attempt:
        """Wait for a run, report it and return it."""
        made = future.result()
        self._on_attempt(made)
        return made
