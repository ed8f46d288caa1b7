"""Searching an engine: scenarios, each played in a process of a pool and judged as a whole."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tickproof.conformance.engines.isolation import Isolation
from tickproof.conformance.engines.process_pool import TaskPool
from tickproof.conformance.engines.spec import EngineSpec, load
from tickproof.conformance.errors import HistoryError, KitStopped, RequestError
from tickproof.conformance.explain import with_stories
from tickproof.conformance.explain.outcomes import outcome_of
from tickproof.conformance.explore.generation import led, offers
from tickproof.conformance.explore.shrink import PASSES
from tickproof.conformance.explore.subject import Attempt, Attempts, Subject
from tickproof.conformance.faults.schedule_file import Failure, from_scenario, to_toml
from tickproof.conformance.faults.space.dimensions import Point
from tickproof.conformance.faults.space.offers import offers as space_offers
from tickproof.conformance.faults.space.sessions import coverage
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.report.json_report import FaultSpace
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import judging, playing
from tickproof.conformance.session.run_command import space_part
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.schedules import REQUIREMENT, held
from tickproof.conformance.text import command_line, counted
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


def attempt(asked: Asked) -> Attempt[Scenario]:
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


class EngineSubject(Subject[Scenario]):
    """An engine. hosts: that it runs on, 0 for none but this machine. secret: of the input.

    Raises RequestError where it claims nothing that could be broken.
    """

    def __init__(
        self, spec: EngineSpec, parallel: int, seed: int, secret: str = "", hosts: int = 0
    ) -> None:
        self.spec, self.parallel, self.hosts = spec, parallel, hosts
        self._seed, self._secret = seed, secret
        self.name = f"{spec.name} {spec.version}"
        self.requirement = registry.load()[REQUIREMENT]
        self._offered = offers(spec, on_hosts=hosts > 0)
        if not self._offered:
            raise RequestError(
                f"{spec.path}: expected an app with state exactly-once that survives worker or "
                "engine"
            )
        self._claimed = space_offers(spec, on_hosts=hosts > 0)

    def drawn(self) -> Iterator[Scenario]:
        """Yield scenarios near the moments where engines break, each other one a point."""
        drawn = led(self._offered, self._claimed, self._seed)
        return (scenario.with_secret(self._secret) for scenario in drawn)

    @contextmanager
    def attempts(
        self, folder: Path, on_attempt: Callable[[Attempt[Scenario]], None]
    ) -> Iterator[Attempts[Scenario]]:
        """Give what plays scenarios, in processes."""

        def asked(scenario: Scenario, folder: Path) -> Asked:
            return Asked(self.spec.path, scenario, folder, self.hosts)

        with TaskPool(self.parallel, attempt) as pool:
            yield Attempts(pool, asked, folder, on_attempt)

    def smaller(self) -> Sequence[Callable[[Scenario], Sequence[Scenario]]]:
        """Return the passes of the shrinker."""
        return PASSES

    def described(self, schedule: Scenario) -> str:
        """Say app, size and faults."""
        parts = [" ".join((schedule.app, *schedule.params.values()))]
        parts.append(f"{schedule.recipe['records']:,} records")
        parts.append(", ".join(f"{s.do} {s.target} at {s.at}" for s in schedule.faults))
        return "; ".join(parts)

    def size(self, schedule: Scenario) -> str:
        """Say how many faults and records there are."""
        faults = counted(len(schedule.faults), "fault")
        return f"{faults} and {counted(schedule.recipe['records'], 'record')}"

    def faults(self, schedule: Scenario) -> list[str]:
        """Return what its faults do."""
        return [step.do for step in schedule.faults]

    def to_toml(self, schedule: Scenario, failure: Failure | None = None) -> str:
        """Return it as a file of the language of schedules."""
        return to_toml(from_scenario(schedule, failure))

    def again(self, saved: Path) -> str:
        """Return the command that plays a saved schedule on the engine."""
        asked = self.spec.asked or self.spec.path
        return command_line("run", asked, schedule=saved, hosts=self.hosts or None)

    def told(self, outcome: Outcome) -> Outcome:
        """Return an outcome with its story, from the run folder."""
        (told,) = with_stories([outcome])
        return told

    def coverage(self, points: Sequence[dict[str, str]]) -> FaultSpace:
        """Return what points covered of the space that the claims leave."""
        played = dict.fromkeys(map(Point.from_json, points))
        return space_part(coverage(self._claimed, "full", played))
