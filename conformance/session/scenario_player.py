"""Plays the scenarios of one process of a session, each once, and decides requirements on them."""

from __future__ import annotations

import contextlib
import shutil
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from tickproof.conformance.engines import disk_space, isolation
from tickproof.conformance.engines.engine_reuse import EnginePool
from tickproof.conformance.engines.isolation import Isolation, Level
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import HistoryError, KitStopped
from tickproof.conformance.explain.outcomes import outcome_of
from tickproof.conformance.faults.kinds import loses_power
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import judging, playing, session_record
from tickproof.conformance.session.feed import RunFeed
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.scenarios import Scenarios
from tickproof.conformance.session.tier_order import BROKEN_FILE
from tickproof.conformance.suites import breaches, registry
from tickproof.conformance.suites.judge import Blocked, Judge, KitError, NotClaimed, NotPlayed
from tickproof.conformance.suites.requirement import check_claims, check_hosts, check_transport
from tickproof.conformance.text import command_line
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

#: What the folder of a run that was played again is called: its scenario and this.
LEFT_OPEN: Final = ".left-open"
#: In the folder of a session: the tracebacks of its kit-errors.
TRACEBACKS: Final = "kit-error.txt"


#: An app with its params.
Deployment: TypeAlias = tuple[str, ...]


def _deployment(scenario: Scenario) -> Deployment:
    return (scenario.app, *sorted(scenario.params.values()))


class ScenarioPlayer:
    """Histories by scenario; a scenario that could not be played stays an error."""

    def __init__(self, spec: EngineSpec, request: Request) -> None:
        self.spec, self.request = spec, request
        self.scenarios = Scenarios(spec, request)
        self._histories: dict[str, History] = {}
        self._errors: dict[str, KitError] = {}
        #: What deployed, and the first run of what did not answer in time before it ran.
        self._deployed: set[Deployment] = set()
        self._silent: dict[Deployment, History] = {}
        self._pool = EnginePool()

    def played(self, scenario: str) -> History | None:
        """Return the history of a scenario if it was played here."""
        return self._histories.get(scenario)

    def decide(self, requirement: str, scenario: str, judge: Judge) -> Outcome:
        """Return the outcome of a requirement on a scenario, which is played if it was not yet.

        The traceback of a kit-error is kept beside the runs.
        """
        began, error = time.monotonic(), None
        try:
            error = judging.raised(requirement, judge, self._history(requirement, scenario))
        except Exception as stopped:
            error = stopped
        outcome = outcome_of(requirement, scenario, error, self.played(scenario))
        outcome = replace(
            outcome,
            seconds=round(time.monotonic() - began, 3),
            reproduce=self.reproduce(requirement, scenario),
        )
        if error is None or outcome.verdict is not Verdict.KIT_ERROR:
            return outcome
        if disk_space.caused(outcome.actual):
            full = disk_space.words(self.request.out)
            return replace(outcome, reason=Reason.NO_SPACE, actual=full)
        self._keep_traceback(error)
        return outcome

    def _history(self, requirement: str, name: str) -> History:
        """Return the history for a requirement.

        Raises NotClaimed if the engine does not promise what is needed, else Blocked once a
        lower tier is known to be broken.
        """
        # First: what does not apply is not a matter of the apps that an engine offers.
        needs = registry.load()[requirement].needs
        check_transport(needs, self.spec.transports[0])
        check_hosts(needs, self.spec.placement)
        scenario = self.scenarios.draw(name)
        if not self.spec.offers(scenario.app, scenario.params):
            words = " ".join([scenario.app, *scenario.params.values()])
            raise NotClaimed(f"offers no {words}")
        check_claims(needs, self.spec.claims(scenario.app, scenario.params), scenario)
        if loses_power(scenario.faults):
            self._require_disk()
        if (self.request.out / BROKEN_FILE).exists():
            raise Blocked("a lower tier does not hold")
        if name in self._errors:
            raise self._errors[name]
        if name not in self._histories:
            self._require_answers(scenario)
            try:
                self._histories[name] = self._play(scenario)
                self._note_answers(scenario, self._histories[name])
            except (KitStopped, HistoryError, OSError) as error:
                self._errors[name] = KitError(str(error))
                if disk_space.caused(error):  # make room for reports: it can be made again
                    shutil.rmtree(self.request.out / name / "input", ignore_errors=True)
                raise self._errors[name] from error
        return self._histories[name]

    def _require_answers(self, scenario: Scenario) -> None:
        """Raise NotPlayed if the app was deployed once, to no answer, and never ran."""
        deployment = _deployment(scenario)
        silent = self._silent.get(deployment)
        if silent is not None and deployment not in self._deployed:
            breach = breaches.of(silent)
            why = f"not played: {silent.ended.message}, in {silent.folder.name}"
            raise NotPlayed(breach.requirement, breach.reason, why)

    def _note_answers(self, scenario: Scenario, history: History) -> None:
        deployment = _deployment(scenario)
        if history.all(events.Deployed):
            self._deployed.add(deployment)
        elif history.ended.code == Reason.NO_ANSWER:
            self._silent.setdefault(deployment, history)

    def _require_disk(self) -> None:
        """Raise NotClaimed if no engine can lose its power here."""
        if self.request.hosts:
            why = "it is lost by an engine on one machine (--hosts)"
        elif self.request.isolation not in (Level.SANDBOX, None):
            why = f"it needs --isolation sandbox, and this is {self.request.isolation}"
        else:
            why = isolation.disk_obstacle()
        if why:
            raise NotClaimed(f"cannot be asked here: no power can be lost: {why}")

    def _play(self, scenario: Scenario) -> History:
        request = self.request
        folder = request.out / scenario.name
        if request.again and folder.exists():
            # What the machine left open stays to be looked at.
            folder.rename(folder.with_name(f"{scenario.name}{LEFT_OPEN}"))
        if folder.exists():
            shutil.rmtree(folder)
        # The runs of the session too: an engine that is kept serves more than one of them.
        kept_apart = Isolation(
            request.isolation or Level.NONE,
            (request.out.resolve(),),
            request.hosts,
            around=tuple(path.absolute() for path in request.hidden),
        )
        feed = RunFeed(request.feed, folder, scenario)
        feed.tell("run-started", records=scenario.recipe.get("records", 0))
        ended, totals = "kit-error", {}
        try:
            playing.play(
                scenario,
                self.spec,
                folder,
                seed=self.scenarios.seed(scenario),
                listener=feed.on_event,
                port=request.port or 0,
                pool=self._pool,
                isolation=kept_apart,
            )
            history = History(folder)
            ended = history.ended.how
            playing.add_facts(history, self.spec)
            totals = {
                "records": history.input_records,
                "served": history.fetched,
                "outputs": history.record.outputs,
            }
            return history
        finally:
            feed.tell("run-ended", ended=ended, **totals)

    def save(self, outcomes: Sequence[Outcome]) -> None:
        """Save what was decided at once, with its run and in the record of the session."""
        if run := outcomes[0].run:
            with contextlib.suppress(OSError):  # the report has it too
                judging.save(Path(run), outcomes)
        if self.request.feed is not None:
            session_record.note(self.request.out, outcomes)

    def reproduce(self, requirement: str, scenario: str) -> str:
        """Return the command that plays a scenario again for a requirement."""
        request, file = self.request, self.scenarios.files.get(scenario)
        asked: dict[str, Any] = {"seed": request.seed, "profile": request.profile}
        asked = {"schedule": _from_here(file)} if file else {"only": requirement} | asked
        reading: list[str] = []
        if request.quotes and request.orders:
            asked |= {"quotes": request.quotes.resolve(), "orders": request.orders.resolve()}
            reading = request.reading.options()
        kafka, hosts = request.kafka, request.hosts or None
        words = ("run", request.engine or _from_here(self.spec.path), *reading)
        return command_line(*words, **asked, secret=request.secret, kafka=kafka, hosts=hosts)

    def _keep_traceback(self, error: Exception) -> None:
        with contextlib.suppress(OSError):  # a full disk is in the verdict itself
            self.request.out.mkdir(parents=True, exist_ok=True)
            with (self.request.out / TRACEBACKS).open("a", encoding="utf-8") as file:
                file.write("".join(traceback.format_exception(error)) + "\n")

    def tidy(self) -> None:
        """Stop an engine that waits; drop from all folders what can be made again."""
        self._pool.close(self.spec.timeouts.drain_s)
        for history in self._histories.values():
            playing.tidy(history)


def _from_here(path: Path) -> str:
    """Return a path as somebody would type it in the working folder."""
    path, here = path.absolute(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
