"""Plays the scenarios of one pytest process, each once, and looks after their folders."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.engines import disk_space, isolation, process_table
from tickproof.conformance.engines.engine_reuse import EnginePool
from tickproof.conformance.engines.isolation import Isolation, Level
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import HistoryError, KitStopped
from tickproof.conformance.faults import regressions
from tickproof.conformance.faults.kinds import loses_power
from tickproof.conformance.faults.schedule_file import load_all
from tickproof.conformance.faults.space.dimensions import Point
from tickproof.conformance.faults.space.offers import EVERYTHING, offers
from tickproof.conformance.history.event import EventKind, PartitionState
from tickproof.conformance.history.folder import History, write_sealed_json
from tickproof.conformance.latency import profiles
from tickproof.conformance.runner.isolated import play_isolated
from tickproof.conformance.runner.run import play
from tickproof.conformance.scenario import Claims, Scenario
from tickproof.conformance.session import session_record
from tickproof.conformance.session.request import Request
from tickproof.conformance.suites import evidence, registry, space
from tickproof.conformance.suites.carriers import EVERY, STATE_FIRST, Carrier
from tickproof.conformance.suites.catalog import CATALOG, seconds
from tickproof.conformance.suites.families.lt_latency import service_recovery, within_s
from tickproof.conformance.suites.judge import Blocked, KitError, NotClaimed
from tickproof.conformance.suites.requirement import check_claims, check_hosts, check_transport
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.suites.selection import played_on
from tickproof.conformance.text import command_line
from tickproof.conformance.usage.process_sample import scheduling
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

#: In the folder of a session: a tier is finished and does not hold.
BROKEN_FILE: Final = "broken"
#: What the folder of a run that was played again is called: its scenario and this.
LEFT_OPEN: Final = ".left-open"
#: Events of a run that a live view shows.
_SHOWN = {EventKind.PROGRESS, EventKind.FAULT}


#: How long a point of the fault space takes, about: only used to order the runs.
_POINT_S: Final = 1.0


class ScenarioPlayer:
    """Histories by scenario; a scenario that could not be played stays an error."""

    def __init__(self, spec: EngineSpec, request: Request) -> None:
        self.spec, self.request = spec, request
        self._registry = registry.load()
        #: Given schedules by the names of their scenarios.
        files = request.schedules or tuple(regressions.beside(spec.path, request.hosts))
        self.schedules = load_all(files)
        self._files = dict(zip(self.schedules, files, strict=True))
        self.offers = offers(spec, on_hosts=request.hosts > 0) or EVERYTHING
        self._given = {name: Point.from_json(row) for name, row in request.points.items()}
        #: Names of the points of the fault space that the session plays.
        self.points = list(self._given) or space.names_for(self.offers, request.profile)
        self._histories: dict[str, History] = {}
        self._errors: dict[str, Exception] = {}
        self._pool = EnginePool()
        self._offered = offered(spec)

    def played(self, scenario: str) -> History | None:
        """Return the history of a scenario if it was played here."""
        return self._histories.get(scenario)

    def history(self, requirement: str, name: str) -> History:
        """Return the history for a test; plays the scenario where that was not done yet.

        Raises NotClaimed if the engine does not promise what the test needs, else Blocked once a
        lower tier is known to be broken.
        """
        # First: what does not apply is not a matter of the apps that an engine offers.
        check_transport(self._registry[requirement].needs, self.spec.transports[0])
        check_hosts(self._registry[requirement].needs, self.spec.placement)
        scenario = self._scenario(name)
        if not self.spec.offers(scenario.app, scenario.params):
            words = " ".join([scenario.app, *scenario.params.values()])
            raise NotClaimed(f"offers no {words}")
        claims = self.spec.claims(scenario.app, scenario.params)
        check_claims(self._registry[requirement].needs, claims, scenario)
        if loses_power(scenario.faults):
            self._require_disk()
        if (self.request.out / BROKEN_FILE).exists():
            raise Blocked("a lower tier does not hold")
        if name in self._errors:
            raise self._errors[name]
        if name not in self._histories:
            try:
                self._histories[name] = self._play(scenario)
            except (KitStopped, HistoryError, OSError) as error:
                self._errors[name] = KitError(str(error))
                if disk_space.caused(error):  # make room for reports: it can be made again
                    shutil.rmtree(self.request.out / name / "input", ignore_errors=True)
                raise self._errors[name] from error
        return self._histories[name]

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

    def completed(self, outcome: Outcome, seconds: float) -> Outcome:
        """Add what only the session knows: duration, reproduce command, a full disk."""
        if outcome.verdict is Verdict.KIT_ERROR and disk_space.caused(outcome.actual):
            outcome = replace(
                outcome, reason=Reason.NO_SPACE, actual=disk_space.words(self.request.out)
            )
        return replace(outcome, seconds=round(seconds, 3), reproduce=self._reproduce(outcome))

    def save(self, outcomes: Sequence[Outcome]) -> None:
        """Save what one test decided, with its run and in the record of the session."""
        for outcome in outcomes:
            if outcome.run:
                with contextlib.suppress(OSError):  # the report has it too
                    _save(Path(outcome.run), outcome)
        if self.request.feed is not None:
            session_record.note(self.request.out, outcomes)

    def _reproduce(self, outcome: Outcome) -> str:
        request, file = self.request, self._files.get(outcome.scenario)
        known = {"seed": request.seed, "profile": request.profile}
        asked = {"schedule": _from_here(file)} if file else {"only": outcome.requirement, **known}
        reading: list[str] = []
        if request.quotes and request.orders:
            asked |= {"quotes": request.quotes.resolve(), "orders": request.orders.resolve()}
            reading = request.reading.options()
        kafka, hosts = request.kafka, request.hosts or None
        words = ("run", request.engine or _from_here(self.spec.path), *reading)
        return command_line(*words, **asked, secret=request.secret, kafka=kafka, hosts=hosts)

    def keep_traceback(self, text: str) -> None:
        """Keep the traceback of a kit-error beside the runs."""
        with contextlib.suppress(OSError):  # a full disk is in the verdict itself
            self.request.out.mkdir(parents=True, exist_ok=True)
            with (self.request.out / "kit-error.txt").open("a", encoding="utf-8") as file:
                file.write(text + "\n")

    def tidy(self) -> None:
        """Stop an engine that waits; drop from all folders what can be made again."""
        self._pool.close(self.spec.timeouts.drain_s)
        for history in self._histories.values():
            history.cache.clear()
            tidy(history)

    def seconds(self, name: str) -> float:
        """Estimate how long a scenario lasts; given schedules come last, and in their order."""
        if name in self.points:
            return _POINT_S
        return 0.0 if name in self.schedules else seconds(name)

    def _scenario(self, name: str) -> Scenario:
        if name in self.schedules:
            return self.schedules[name].with_secret(self.request.secret)
        request, market = self.request, None
        if request.quotes and request.orders:
            market = {
                "kind": "market-csv",
                "quotes": str(request.quotes.resolve()),
                "orders": str(request.orders.resolve()),
                **asdict(request.reading),
            }
        context = Context(
            request.seed,
            request.profile,
            market=market,
            latency=level(self.spec, name),
            recovery_s=self.spec.timeouts.recovery_s,
            offers=self.offers,
            transport=self.spec.transports[0],
            secret=request.secret,
            **_timeouts(self.spec),
        )
        if name in self.points:
            return space.entry(name, self._given.get(name)).draw(context)
        if not CATALOG[name].carriers:
            return CATALOG[name].draw(context)
        return played_on(name, context, self._offered, self._registry)

    def _play(self, scenario: Scenario) -> History:
        folder = self.request.out / scenario.name
        if self.request.again and folder.exists():
            # What the machine left open stays to be looked at.
            folder.rename(folder.with_name(f"{scenario.name}{LEFT_OPEN}"))
        if folder.exists():
            shutil.rmtree(folder)
        feed = self._feed(folder, scenario)
        feed({"event": "run-started", "records": scenario.recipe.get("records", 0)})
        ended, totals = "kit-error", {}
        try:
            given = scenario.name in self.schedules
            # The runs of the session too: an engine that is kept serves more than one of them.
            kept_apart = Isolation(
                self.request.isolation or Level.NONE,
                (self.request.out.resolve(),),
                self.request.hosts,
                around=tuple(path.absolute() for path in self.request.hidden),
            )
            seed = scenario.recipe["seed"] if given else self.request.seed
            if scenario.pace is not None:
                # A process of its own, and an engine that served nobody else.
                self._pool.close(self.spec.timeouts.drain_s)
                play_isolated(
                    scenario,
                    self.spec,
                    folder,
                    seed=seed,
                    port=self.request.port or 0,
                    isolation=kept_apart,
                )
            else:
                play(
                    scenario,
                    self.spec,
                    folder,
                    seed=seed,
                    listener=lambda row: feed(row) if row["event"] in _SHOWN else None,
                    port=self.request.port or 0,
                    pool=self._pool,
                    isolation=kept_apart,
                )
            history = History(folder)
            ended = history.ended.how
            add_facts(history, self.spec)
            totals = {
                "records": history.input_records,
                "served": history.fetched,
                "outputs": history.record.outputs,
            }
            return history
        finally:
            feed({"event": "run-ended", "ended": ended, **totals})

    def _feed(self, folder: Path, scenario: Scenario) -> Callable[[dict[str, Any]], None]:
        base = {"run": str(folder), "scenario": scenario.name, "app": scenario.app}

        def feed(row: dict[str, Any]) -> None:
            if self.request.feed is None:
                return
            if row["event"] == EventKind.FAULT:
                fetched = sum(PartitionState(*one).fetched for one in row["partitions"])
                step = row["step"]
                row = {
                    "event": row["event"],
                    "do": step["do"],
                    "target": step["target"],
                    "pid": row["pids"][0] if row["pids"] else 0,
                    "served": fetched,
                    "records": row["total"],
                }
            # One short write in append mode: lines of several processes do not mix.
            line = json.dumps(base | row) + "\n"
            with contextlib.suppress(OSError):  # a live view is worth no run
                with self.request.feed.open("ab", buffering=0) as file:
                    file.write(line.encode())

        return feed


def _timeouts(spec: EngineSpec) -> dict[str, float]:
    """Return the timeouts that an engine over Kafka claims, in seconds, as Context has them."""
    if spec.kafka is None:
        return {}
    return {"session_s": spec.kafka.session_s, "transaction_s": spec.kafka.transaction_s}


def offered(spec: EngineSpec) -> dict[Carrier, Claims]:
    """Return what scenarios can be played on, with the claims for each."""
    return {
        carrier: spec.claims(carrier.app, carrier.params)
        for carrier in STATE_FIRST
        if spec.offers(carrier.app, carrier.params)
    }


def _from_here(path: Path) -> str:
    """Return a path as somebody would type it in the working folder."""
    path, here = path.absolute(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _save(folder: Path, outcome: Outcome) -> None:
    """Add an outcome to the run's verdict.json."""
    path = folder / "verdict.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    known = [row for row in known if row["requirement"] != outcome.requirement]
    write_sealed_json(path, [*known, outcome.to_json() | {"run": "."}])


def add_facts(history: History, spec: EngineSpec) -> None:
    """Write what reports show of a run, and what its verdict depends on."""
    facts: dict[str, Any] = {
        "known_gaps": spec.known_gaps,
        "outputs": len(evidence.outputs(history)),
    }
    if history.record.input.recipe["kind"] == "market-csv":
        facts["by_symbol"] = evidence.rejects_by_symbol(history)
    if history.record.scenario.pace:
        facts["service"] = _service_facts(spec, history.scenario)
    history.note(**facts)


def level(spec: EngineSpec, scenario: str) -> str:
    """Return the SLA profile that a scenario of tier 5 is held against.

    A recovery is one of count: state takes time, and an engine may claim less for it.
    """
    if scenario == service_recovery.name and spec.offers(EVERY.app, EVERY.params):
        return spec.claims(EVERY.app, EVERY.params).latency or Context.latency
    return spec.service_level or Context.latency


def _service_facts(spec: EngineSpec, scenario: str) -> dict[str, Any]:
    """Return what a run of tier 5 is judged by: profile, time to recover, how it was started."""
    profile = profiles.load(level(spec, scenario))
    own = process_table.read(os.getpid())
    assert own is not None
    return {
        "profile": profile.to_json(),
        "within_s": within_s(profile, spec.timeouts.recovery_s),
        # An engine inherits both from the kit.
        "manner": {key: value for key, value in scheduling(own).items() if key != "name"},
    }


def tidy(history: History) -> None:
    """Drop from a run folder what can be made again, and what no judgement needs.

    The input of a recorded market is kept: its files may change.
    """
    (history.folder / "output" / "staged.bin").unlink(missing_ok=True)
    kinds = {"market-csv", "keyed-csv"}
    if history.record.input.recipe["kind"] not in kinds:
        shutil.rmtree(history.folder / "input", ignore_errors=True)
