"""The runs of a search: each plays one schedule in a process of a pool, and is judged."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tickproof.conformance.engines.isolation import Isolation
from tickproof.conformance.engines.process_pool import TaskPool
from tickproof.conformance.engines.spec import load
from tickproof.conformance.errors import HistoryError, KitStopped
from tickproof.conformance.explain.outcomes import outcome_of
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import judging, playing
from tickproof.conformance.suites.schedules import REQUIREMENT, held
from tickproof.conformance.verdicts import Outcome, Verdict


@dataclass(frozen=True)
class Asked:
    """A schedule to play on the engine of an engine.toml, into a folder.

    hosts: that it runs on, 0 for none but this machine.
    """

    engine: Path
    scenario: Scenario
    folder: Path
    hosts: int = 0


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

    @property
    def failed(self) -> bool:
        """True if there is a counterexample."""
        return self.outcome.verdict is Verdict.FAIL


def attempt(asked: Asked) -> Attempt:
    """Play a schedule, and judge it as a whole."""
    began = time.monotonic()
    spec, scenario = load(asked.engine), asked.scenario
    isolation, seed = Isolation(hosts=asked.hosts), scenario.recipe["seed"]
    try:
        playing.play(scenario, spec, asked.folder, seed=seed, isolation=isolation)
        history = History(asked.folder)
        playing.add_facts(history, spec)
        outcome, *causes = judging.judged(history, [(REQUIREMENT, held)])
    except (KitStopped, HistoryError, OSError) as error:
        outcome = outcome_of(REQUIREMENT, scenario.name, error, None)
        return Attempt(scenario, outcome, 0, 0, time.monotonic() - began)
    if causes:
        # A run that broke off fails, whichever requirement would name it in a session.
        outcome = replace(causes[0], requirement=REQUIREMENT)
    made = Attempt(
        scenario,
        outcome,
        len(history.faults),
        len(history.missed_faults),
        time.monotonic() - began,
        _kind(outcome, history),
    )
    if made.failed:
        judging.save(asked.folder, [outcome])
        playing.tidy(history)
    else:
        shutil.rmtree(asked.folder, ignore_errors=True)
    return made


def _kind(outcome: Outcome, history: History) -> str:
    """Return the code of a failure, with the log's refusal that led to it, if one did."""
    if outcome.verdict is not Verdict.FAIL:
        return ""
    refused = history.all(events.Refused)[-1:] if history.ended.engine_failed else []
    return outcome.reason + "".join(f" after {one.op} error {one.code}" for one in refused)


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
        self._pool = TaskPool(parallel, attempt)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.__exit__(kind, error, trace)

    def each(self, scenarios: Iterable[Scenario]) -> Generator[Attempt, None, None]:
        """Yield attempts as they end; a scenario is taken when there is room for its run.

        What has not begun when the iterator is closed is not played.
        """
        for made in self._pool.results(map(self._asked, scenarios)):
            self._on_attempt(made)
            yield made

    def all(self, scenarios: Sequence[Scenario]) -> list[Attempt]:
        """Return one attempt for each scenario, in their order."""
        found = []
        for future in [self._pool.start(self._asked(one)) for one in scenarios]:
            found.append(future.result())
            self._on_attempt(found[-1])
        return found

    def _asked(self, scenario: Scenario) -> Asked:
        self._number += 1
        return Asked(self._engine, scenario, self._folder / f"{self._number:05}", self._hosts)
