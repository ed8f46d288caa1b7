"""A job through its runs: without faults, what it is held to, with faults, and the report."""

from __future__ import annotations

import contextlib
import math
import random
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from tickproof.conformance.engines import interruption, isolation
from tickproof.conformance.engines.preparation import prepare
from tickproof.conformance.errors import InvalidFile, RequestError, TickproofError
from tickproof.conformance.fault_steps import ALONE_S
from tickproof.conformance.history import job_run, plain_files, provenance
from tickproof.conformance.history.job_run import JobRun, Strike
from tickproof.conformance.jobs import (
    comparison,
    judge,
    ledger,
    oracle,
    schedules,
    sinks,
    trial,
    user_code,
)
from tickproof.conformance.jobs.comparison import Claims, Kind, Level, Rows
from tickproof.conformance.jobs.declaration import POSTGRESQL, Job, UpgradeTable
from tickproof.conformance.jobs.judge import Baseline, Judged
from tickproof.conformance.jobs.records import Record, of_input, poisoned
from tickproof.conformance.jobs.requirements import CALM, JB, SCHEDULE
from tickproof.conformance.jobs.sinks import Row
from tickproof.conformance.jobs.topic import KEY
from tickproof.conformance.jobs.trial import Plan, Run
from tickproof.conformance.jobs.workers import JobSpec
from tickproof.conformance.kafka import software
from tickproof.conformance.kafka.exchanges import PLAIN, STAGED
from tickproof.conformance.report import document, json_report, junit, machine, terminal
from tickproof.conformance.report.json_report import Interrupted, Report, Selection
from tickproof.conformance.report.live import SessionProgress
from tickproof.conformance.report.session_log import SessionLog
from tickproof.conformance.report.style import JOB_TIER_NAMES
from tickproof.conformance.session import session_reports
from tickproof.conformance.session.runs_folder import RUNS, runs_folder
from tickproof.conformance.suites.requirement import Requirement
from tickproof.conformance.text import counted, shown
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

#: Moments of a commit, those first that show most. Before them come those of a database.
COMMITS: Final = (
    "commit-received", "committed", "staged", "join-received", "joined", "offsets-taken",
    "offsets-received", "append-received", "appended",
)  # fmt: skip
#: A kill needs so many of its moments in a run without faults.
FEWEST: Final = 3
_KILLS: Final = 4
#: Commits that are further apart come by a timer, and a kill waits for one of them.
_TIMER_S: Final = 5.0
#: So many lives that end in an error, without faults, and nothing that says the input was read.
_MOST_FAILED: Final = 3
#: The runs in which the whole job may die.
DEATHS: Final = ("restart", "commit", "all-at-once")
#: How long a kill at the write of a dead letter waits for whoever gives that write up.
_PATIENCE_S: Final = 2.5
#: How long connections are refused, for less and for more than a session, and answers late.
REFUSED_S: Final = (4.0, 9.0)
SLOW_S: Final = 6.0
#: A message that is no JSON, nor text.
_NO_JSON: Final = b'\xff{"no": JSON'
#: What a broker takes.
_LONGEST_MESSAGE: Final = 1_000_000


#: Runs that are played at once, at least.
AT_ONCE: Final = 2
#: By what share of itself the input before a strike is less than so many whole parts. The size of
#: a batch mostly divides these: then each life forms the same batches, and one that begins anew is
#: right by luck.
_SHORT: Final = (0.005, 0.045)
#: The run without faults in which all input is there before the job starts.
_ALL_FIRST: Final = "all-input-first"
#: Runs that may wait for a client's own time limits: they begin first.
_LONG: Final = ("cut", "pause", "commit")


class Refused(TickproofError):
    """A job of which nothing can be judged; the text is the sentence that says why."""


@dataclass(frozen=True)
class Settings:
    """How a job is judged."""

    out: Path
    seed: int
    profile: str = "quick"
    level: isolation.Level | None = None
    #: Runs that are played at once; None: as many as there is room for.
    at_once: int | None = None
    only: Sequence[str] = ()
    #: What has to be judged.
    require: Sequence[str] = ()
    #: Files of faults that are played, in place of the kit's own runs or beside them.
    schedules: Sequence[Path] = ()
    regressions: Sequence[Path] = ()

    @property
    def selected(self) -> dict[str, Requirement]:
        """The requirements that are asked for, and that without faults."""
        asked = {*JB} if self.regressions else {*JB} - {SCHEDULE}
        if self.schedules:
            asked = {CALM, SCHEDULE}
        elif self.only:
            asked = {CALM, *self.only, *self.require}
        return {id_: one for id_, one in JB.items() if id_ in asked}

    def plays(self, run: str) -> bool:
        """Tell whether what is asked for needs a run."""
        asked = self.selected.keys()
        if judge.RECOVERY in asked and run in DEATHS:
            return True
        if run not in judge.BY_RUN.values() and SCHEDULE in asked:
            return True
        return bool(asked & judge.BY_KIND.keys()) or run in map(judge.BY_RUN.get, asked)

    def __str__(self) -> str:
        """Return the options that another session needs to be the same."""
        words = [f"--seed {self.seed}"]
        words += [f"-n {self.at_once}"] if self.at_once is not None else []
        words += [f"--isolation {self.level.value}"] if self.level is not None else []
        words += [f"--schedule {shlex.quote(str(one))}" for one in self.schedules]
        return " ".join(words + [f"--only {one}" for one in self.only])


@dataclass(frozen=True)
class Poison:
    """A message that the job cannot read, and the number of the record that it follows.

    stops: whether the job has to stop at it.
    """

    input: str
    at: int
    message: bytes
    stops: bool

    def __str__(self) -> str:
        what = shown(repr(self.message), 100)
        until = ", until the job has stopped at it twice" if self.stops else ""
        return f"record {self.at:,} of [inputs.{self.input}] is followed by {what}{until}"


@dataclass(frozen=True)
class Ground:
    """What runs without faults say of a job. again: makes the plan of a run with faults."""

    calm: Sequence[Run]
    baselines: Mapping[str, Baseline]
    again: Callable[..., Plan]
    at_once: int


class Session:
    """The runs of one job, in a folder of theirs."""

    def __init__(
        self,
        job: Job,
        settings: Settings,
        runs: Path,
        on_event: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> None:
        self._job, self._settings, self._runs, self._on_event = job, settings, runs, on_event
        #: Runs tell of themselves side by side.
        self._telling = threading.Lock()
        self._stopped = threading.Event()
        #: Folder of a run that was played -> its name.
        self._played_in: dict[Path, str] = {}
        #: What ended the session before all runs were played, in words.
        self.interrupted = ""
        self._inputs = self._inputs_of(job)
        self._due = self._of_oracle()
        self._schedules = schedules.load_all(settings.schedules or settings.regressions)
        self.level = settings.level or isolation.best(JobSpec(job, {}))
        if job.table.listen and self.level is not isolation.Level.SANDBOX:
            raise RequestError(
                f"{job.path}: [job] listen: expected isolation sandbox, where a port is the job's "
                f"own; got {self.level.value}"
            )
        #: The command that plays a failure again, "": the session's own, with less to play.
        self.reproduce = ""

    def judge(self) -> list[Outcome]:
        """Play all runs and judge them; raises KitStopped, KafkaUnavailable, InvalidFile."""
        self._tell("tier-started", tier=JB[CALM].tier)
        ground = self.without_faults()
        if isinstance(ground, Outcome):
            return self._saved([ground, *judge.blocked(ground)])
        calm = self._calm_passed(ground)
        self._tell("decided", outcome=calm.to_json())
        for name, one in ground.baselines.items():
            self._tell("note", said=f"[outputs.{name}] is held to: {one.level.value}")
        if names := ", ".join(ground.calm[0].shared_names):
            said = f"each run has a broker of its own, because the job has names in it: {names}"
            self._tell("note", said=said)
        made = [*self._plans(ground.calm[0], ground.again), *self._given(ground.again)]
        plans = [plan for plan in made if self._settings.plays(plan.name)]
        plans.sort(key=lambda plan: plan.name not in _LONG)
        self._tell("tier-started", tier=JB[SCHEDULE].tier)
        runs = self._played(plans, ground)
        found = self._judged(ground, {name: (run, self._runs / name) for name, run in runs.items()})
        if self.interrupted:
            missing = {plan.name for plan in plans} - runs.keys()
            found = [judge.interrupted(one, missing, self.interrupted) for one in found]
        return self._saved([calm, *found])

    def replay(
        self, recorded: JobRun, times: int, on_run: Callable[[int, list[Outcome]], None]
    ) -> list[list[Outcome]]:
        """Play a recorded run's faults again and again; return what each run decides by itself.

        A job that gives nothing to judge faults by has one list, of that alone. Raises as `judge`.
        """
        ground = self.without_faults()
        if isinstance(ground, Outcome):
            on_run(1, [ground])
            return [self._saved([ground])]
        plan = ground.again(
            recorded.name,
            strikes=recorded.strikes,
            poisoned=recorded.poison,
            workers=recorded.workers,
            partitions=recorded.partitions,
            twice=recorded.twice,
        )
        found = []
        for number in range(1, times + 1):
            folder = self._runs / f"{plan.name}-{number}"
            _, outcomes = self.tried(ground, plan, folder)
            found.append(outcomes)
            on_run(number, outcomes)
        return found

    def tried(self, ground: Ground, plan: Plan, folder: Path) -> tuple[Run, list[Outcome]]:
        """Play a run with faults into a folder; return it, and what it decides by itself."""
        run = self._play(plan, folder)
        outcomes = self._judged(ground, {plan.name: (run, folder)})
        alone = judge.alone(outcomes, plan.name, folder)
        job_run.save_verdict(folder, alone)
        return run, alone

    def stop(self) -> None:
        """End the runs that go on; each raises KitStopped."""
        self._stopped.set()

    def _judged(self, ground: Ground, runs: Mapping[str, tuple[Run, Path]]) -> list[Outcome]:
        judged = {
            name: Judged(run, folder, self._findings(run, ground.baselines))
            for name, (run, folder) in runs.items()
        }
        given = {name: schedules.unclaimed(self._job, one) for name, one in self._schedules.items()}
        outcomes = judge.outcomes(self._job, ground.baselines, judged, given)
        by_run = {name: id_ for id_, name in judge.BY_RUN.items()}
        for at, one in enumerate(outcomes):
            if one.verdict is Verdict.FAIL:
                decided = one.requirement
                if decided in judge.BY_KIND:
                    decided = by_run.get(one.scenario, SCHEDULE)
                outcomes[at] = replace(one, reproduce=self._again(decided))
        return outcomes

    def _again(self, requirement: str) -> str:
        """Return the command that plays what decides a requirement again."""
        asked = self._settings
        if not asked.schedules:
            asked = replace(asked, only=[requirement], require=())
        return self.reproduce or f"tickproof run {shlex.quote(str(self._job.path))} {asked}"

    def _saved(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Write into the folder of each run what it decides by itself."""
        for folder, name in self._played_in.items():
            job_run.save_verdict(folder, judge.alone(outcomes, name, folder))
        return outcomes

    def without_faults(self) -> Ground | Outcome:
        """Play the runs without faults; of a job that gives nothing to judge by say why."""
        protected = self._settings.level != isolation.Level.NONE
        prepare(JobSpec(self._job, {}), self._runs / "prepare.log", protected=protected)
        calm = [self._play(Plan("calm"))]
        again = partial(
            Plan,
            silence_s=max(calm[0].silence_s, 0.1),
            uncommitted_s=calm[0].uncommitted_s,
            startup_s=calm[0].startup_s,
            short=random.Random(f"short {self._settings.seed}").uniform(*_SHORT),
            tells="" if calm[0].ended.startswith(trial.SILENCE) else calm[0].ended,
            alone=bool(calm[0].shared_names),
        )
        try:
            self._expect_output(calm[0])
            if self._due is None:
                calm.append(self._play(again(_ALL_FIRST, first=True)))
                self._expect_output(calm[1])
            baselines = {name: self._baseline(name, calm) for name in self._job.judged_outputs}
            if dead := self._job.claims.dead_letter:
                baselines[dead] = self._dead_letters(())
        except Refused as refused:
            return self._refused(str(refused), calm[-1])
        at_once = self._settings.at_once or _room(calm[0].busy)
        return Ground(calm, baselines, again, at_once)

    def _played(self, plans: Sequence[Plan], ground: Ground) -> dict[str, Run]:
        """Play runs with faults, and return them by name; after an interrupt those that ended."""
        runs: dict[str, Run] = {}
        # Those without faults took as long as so many of these: each had the machine to itself.
        before = len(ground.calm) * ground.at_once
        with ThreadPoolExecutor(ground.at_once) as pool:
            waiting = {pool.submit(self._play, plan): plan.name for plan in plans}
            try:
                for one in as_completed(waiting):
                    name = waiting[one]
                    runs[name] = one.result()
                    self._tell_outcomes(ground, name, runs[name])
                    done, of = len(runs), len(plans)
                    shares = {"done_s": before + done, "of_s": before + of}
                    self._tell("scenario-judged", done=done, of=of, **shares)
            except BaseException as error:
                self.stop()
                pool.shutdown(cancel_futures=True)
                if not isinstance(error, KeyboardInterrupt):
                    raise  # a run that the kit could not play
                self.interrupted = interruption.words()
        return {plan.name: runs[plan.name] for plan in plans if plan.name in runs}

    def _tell(self, event: str, **facts: Any) -> None:
        with self._telling:
            self._on_event({"event": event, **facts})

    def _tell_outcomes(self, ground: Ground, name: str, run: Run) -> None:
        """Tell what one run decides by itself; what all of them decide comes in the end."""
        folder = self._runs / name
        for one in judge.alone(self._judged(ground, {name: (run, folder)}), name, folder):
            self._tell("decided", outcome=one.to_json())

    def _findings(
        self, run: Run, baselines: Mapping[str, Baseline]
    ) -> list[tuple[str, comparison.Finding]]:
        """Return what is wrong; what a job did not give as it stood still, or yet, is not lost."""
        if not run.rows:  # they could not be read
            return []
        dead = self._job.claims.dead_letter
        if dead and run.poison:
            baselines = {**baselines, dead: self._dead_letters([self._poison.message])}
        found = [
            (name, one) for name, base in baselines.items() for one in base.findings(run, name)
        ]
        if run.unfinished:
            return [one for one in found if one[1].kind is Kind.TWICE]
        return [one for one in found if not (run.stalled and one[1].kind is Kind.LOST)]

    # -- runs --------------------------------------------------------------------------------

    def _inputs_of(self, job: Job) -> dict[str, list[Record]]:
        return {name: of_input(job, name, self._settings.seed) for name in job.inputs}

    def _play(self, plan: Plan, folder: Path | None = None) -> Run:
        if self._due is not None and not plan.twice:
            plan = replace(plan, complete=self._complete)
        folder, started = folder or self._runs / plan.name, time.time()
        job, inputs = self._job, self._inputs
        if plan.workers:
            job = job.scaled(plan.workers)
        if plan.partitions:
            job = job.spread(plan.partitions)
            inputs = self._inputs_of(job)
        if plan.poisoned:
            poison = self._poison
            records = poisoned(inputs[poison.input], poison.message, poison.at)
            inputs = {**inputs, poison.input: records}
        if plan.twice:
            inputs = {name: [*records, *records] for name, records in inputs.items()}
        tell = partial(self._tell, run=str(folder), scenario=plan.name, app="")
        made = trial.Trial(job, inputs, plan, folder, self.level, self._stopped, tell)
        tell("run-started", records=sum(map(len, inputs.values())))
        run = made.play()
        struck = f", {counted(len(run.fired), 'fault')}" if plan.strikes else ""
        said = f"{run.seconds:.0f} s{struck}, {run.ended}"
        tell("run-ended", ended=run.ended.partition(" of ")[0], said=said)
        facts = {
            "job": str(self._job.path),
            "job_name": self._job.name,
            "seed": self._settings.seed,
            "started": started,
            "strikes": [asdict(one) for one in plan.strikes],
            provenance.MADE_AT: provenance.provenance(self._job.path),
        }
        job_run.write(folder, facts | run.to_json(), run.rows)
        self._played_in[folder] = run.name
        return run

    @staticmethod
    def _by_timer(calm: Run) -> bool:
        """Whether commits are so rare that all input may have come before the first."""
        commits = (one for one in COMMITS if not one.startswith("append"))
        return calm.uncommitted_s > _TIMER_S and all(calm.moments[one] < FEWEST for one in commits)

    def moments(self, calm: Run) -> list[str]:
        """Return the moments of commits that a run without faults had, those first that show most.

        Of databases and files whose commits are not seen, those at which they are guessed.
        """
        job = self._job
        fewest = 1 if self._by_timer(calm) else FEWEST
        moments = [one for one in COMMITS if calm.moments[one] >= fewest]
        databases = {one.url for one in job.outputs.values() if one.kind == "sql"}
        kinds = {one.kind for one in job.outputs.values()}
        if databases == {POSTGRESQL}:  # its moments are seen by a proxy, unless they are hidden
            moments = moments or list(trial.IN_DATABASE)
        elif "http" in kinds:
            called = [one for one in ledger.UNDER_WAY if one in moments]
            moments = called + [one for one in moments if one not in called]
        elif databases or "files" in kinds:
            moments = [one for one in moments if not one.startswith("append")]
            moments[:0] = trial.IN_DATABASE
        return moments or ["fetched"]

    def _plans(self, calm: Run, again: Callable[..., Plan]) -> Iterator[Plan]:
        """Yield the runs with faults that the claims select."""
        job, chance = self._job, random.Random(self._settings.seed)
        moments = self.moments(calm)
        if job.claims.poison:
            # The kill aims at the write of the dead letter, if the job writes nothing else so.
            alone = job.claims.dead_letter and not calm.moments["append-received"]
            # Whoever waits for the write a while, and gives it up, has done so before it dies.
            kill = [Strike("kill", "append-received", seconds=_PATIENCE_S)] if alone else []
            yield again(judge.POISON, strikes=kill, poisoned=str(self._poison))
        if job.claims.workers:
            yield again(judge.WORKERS, workers=job.claims.workers)
        if job.claims.partitions:
            yield again(judge.PARTITIONS, partitions=job.claims.partitions)
        if job.claims.idempotent:
            yield again(judge.TWICE, twice=True)
        at_rest = Strike("restart", trial.IDLE, whole=True)
        # In the midst of a transaction, too: what ends a job may commit the half of it.
        at_work = [one for one in moments if one in (moments[0], "staged")]
        restarts = [replace(at_rest, at=one, nth=2) for one in at_work]
        yield again("restart", strikes=[at_rest, *restarts])
        # One meets an answer that the job waits for: what it says is done.
        answered = next((one for one in ("committed", "appended") if one in moments), moments[0])
        cuts = [Strike("cut"), Strike("cut", answered, 2), Strike("cut")]
        yield again("cut", strikes=cuts)
        # Where Kafka stays, nobody begins again at the last commit: what was given up is lost.
        beside = any(one.kind == "http" or one.url == POSTGRESQL for one in job.outputs.values())
        short, long = (Strike("refuse", seconds=each) for each in REFUSED_S)
        yield again("refuse", strikes=[short, replace(long, beside=beside)])
        yield again("slow", strikes=[Strike("slow", seconds=SLOW_S)])
        if error := self.error(calm):
            yield again("error", strikes=[error] * 2)
        if job.upgrade is not None:
            yield again("upgrade", strikes=self._versions(job.upgrade, moments[0]))
        if "broker" in job.claims.survives:
            yield from self._of_brokers(calm, moments, again)
        if not {"worker", "engine"} & set(job.claims.survives):
            return
        yield again("commit", strikes=self._kills(moments, self._by_timer(calm), chance))
        if "worker" in job.claims.survives:
            at = moments[-1] if moments[-1] not in trial.IN_DATABASE else "fetched"
            taken_over = [Strike("kill", one, 2, down=True) for one in (at, moments[0])]
            # A commit that is under way can be taken after a short pause of the worker.
            held = "commit-received" if "commit-received" in moments else at
            if job.table.roles is not None:  # a moment that is a worker's own
                held = at = "fetched"
                taken_over = [Strike("kill", "fetched")] * 4
            yield again("pause", strikes=[Strike("pause", one, 2) for one in (held, at, held)])
            if job.outlives_worker:
                yield again("rebalance", strikes=taken_over)
        if job.outlives_worker and "engine" in job.claims.survives:
            yield again(
                "all-at-once", strikes=[Strike("kill", moments[0], n, whole=True) for n in (1, 2)]
            )

    def error(self, calm: Run) -> Strike | None:
        """Return an error that the job meets: of offsets in a transaction, or else of output."""
        if calm.joined >= FEWEST:
            return Strike("error")
        tables = self._job.outputs.values()
        topics = any(one.kind == "topic" for one in tables) and not any(one.http for one in tables)
        if topics and calm.moments[PLAIN.received] >= FEWEST:
            return Strike("error", PLAIN.received, 2)
        return None

    def _of_brokers(
        self, calm: Run, moments: list[str], again: Callable[..., Plan]
    ) -> Iterator[Plan]:
        """Yield the runs in which brokers die."""
        seen = [one for one in moments if one not in trial.IN_DATABASE] or ["fetched"]
        yield again("broker", strikes=[Strike("kill-broker", seen[at], 2) for at in (0, -1)])
        leaders = [Strike("kill-leader", seen[0], 2), Strike("end-leader", seen[-1], 2)]
        if any(one.kind == "topic" for one in self._job.outputs.values()):
            acked = (one.acked for one in (PLAIN, STAGED) if calm.moments[one.acked] >= FEWEST)
            leaders.append(Strike("kill-leader", next(acked, ""), seconds=ALONE_S))
        yield again("leader", strikes=leaders)

    def _kills(self, moments: list[str], by_timer: bool, chance: random.Random) -> list[Strike]:
        """Return kills at the moments in turn, and one of a job that stands still."""
        # Of a moment that is looked for rather than told some are met a little late.
        most = _KILLS + 2 if trial.IN_DATABASE[0] in moments else _KILLS
        number, last = (_KILLS // 2, 1) if by_timer else (most, 2)
        kills = [
            Strike("kill", moments[n % len(moments)], chance.randint(1, last))
            for n in range(number)
        ]
        kills.append(Strike("kill", trial.IDLE))
        # Of a job that is one command, another process than its workers commits.
        survives = self._job.claims.survives
        one_command = self._job.table.roles is not None and "engine" in survives
        if one_command or "worker" not in survives:
            kills = [replace(one, whole=True) for one in kills]
        return kills

    def _versions(self, upgrade: UpgradeTable, moment: str) -> list[Strike]:
        """Return how versions follow each other; without the way back there is one upgrade."""
        back = upgrade.back
        up, down = Strike("upgrade", whole=True), Strike("downgrade", whole=True)
        kill = Strike("kill", moment, whole=True)
        if schedules.unclaimed(self._job, [kill]):
            return [up, down, up] if back else [up]
        last = replace(up, at=moment)
        if not back:
            return [last, kill]
        several = (upgrade.workers or self._job.workers) > 1
        if several and "worker" in self._job.claims.survives:
            # What its own has not handled another one of this version goes on with.
            return [up, Strike("pause", "fetched", 3), kill, down, last]
        return [up, kill, down, last]

    def _given(self, again: Callable[..., Plan]) -> Iterator[Plan]:
        """Yield the runs of schedules whose deaths are claimed."""
        for name, strikes in self._schedules.items():
            if not schedules.unclaimed(self._job, strikes):
                yield again(name, strikes=strikes)

    # -- what output is held to ----------------------------------------------------------------

    def _of_oracle(self) -> list[tuple[Record, dict]] | None:
        name = self._job.claims.oracle
        if name is None:
            return None
        (records,) = self._inputs.values()
        expect = user_code.function(self._job.folder, name)
        return list(oracle.outputs(expect, self._job.folder / name.rpartition(":")[0], records))

    def _due_rows(self, name: str) -> list[Row]:
        """Return the rows that the oracle gives an output: of a table, the last of each row."""
        assert self._due is not None
        table = self._job.outputs[name]
        rows = []
        for record, value in self._due:
            if missing := [one for one in table.identity if one not in value]:
                what = f"the oracle, at {record}: expected the field {missing[0]} of identity"
                raise InvalidFile(self._job.path, [f"{what}; got {shown(str(value), 100)}"])
            if table.identity and KEY in value and table.kind in ("topic", "http"):
                what = f"the oracle, at {record}: {KEY} says nothing beside identity; leave it out"
                raise InvalidFile(self._job.path, [what])
            rows.append(oracle.row(table, record, value))
        return oracle.last_of_each(rows) if table.kind == "sql" else rows

    def _dead_letters(self, messages: Iterable[bytes]) -> Baseline:
        """Return what the output of dead letters is held to: these, each at least once."""
        rows = [sinks.dead_letter(one) for one in messages]
        keyed = [(comparison.canonical([one["message"]]), one) for one in rows]
        claims = Claims(self._job.claims.state, "at-least-once", ordered=True, knows=True)
        return Baseline(Level.VALUES, comparison.grouped(keyed), claims)

    @cached_property
    def _poison(self) -> Poison:
        """The record that the job cannot read: its place is drawn, before the end of faults."""
        tables = self._job.inputs
        name = next((one for one, table in tables.items() if table.poison), next(iter(tables)))
        message, file = _NO_JSON, tables[name].poison
        if file:
            message = plain_files.read_bytes(self._job.folder, file, _LONGEST_MESSAGE)
        records, chance = self._inputs[name], random.Random(f"poison {self._settings.seed}")
        at = max(1, round(len(records) * chance.uniform(0.2, 0.4)))
        return Poison(name, at, message, self._job.claims.poison == "stop")

    def _complete(self, rows: Mapping[str, Sequence[Row]]) -> bool:
        """Say whether rows hold the last that is due of each key."""
        for name in self._job.judged_outputs:
            ignore = self._job.outputs[name].ignore
            due = comparison.grouped(self._due_rows(name), ignore)
            got = comparison.grouped(rows[name], ignore)
            if any(got.get(key, [""])[-1] != values[-1] for key, values in due.items()):
                return False
        return True

    def _claims(self, name: str) -> Claims:
        table, claims = self._job.outputs[name], self._job.claims
        return Claims(
            claims.state,
            claims.delivery,
            ordered=table.kind in ("topic", "http"),
            knows=self._due is not None,
            counts=table.counts or "",
        )

    def _baseline(self, name: str, calm: Sequence[Run]) -> Baseline:
        """Return what an output is held to; raises Refused."""
        table, claims = self._job.outputs[name], self._claims(name)
        given = [comparison.grouped(run.rows[name], table.ignore) for run in calm]
        if self._due is not None:
            return self._by_oracle(name, given[0], claims)
        level = comparison.strongest(given, claims.levels)
        if level is None:
            told = _told(comparison.varying(given, claims.levels[-1]))
            raise Refused(f"[outputs.{name}]: runs without faults agree on nothing: {told}")
        if claims.counts and not any(claims.counts in row for _, row in calm[0].rows[name]):
            raise InvalidFile(
                self._job.path,
                [f"[outputs.{name}] counts: expected a field of the output; no {claims.counts}"],
            )
        due: Rows = given[0]
        varies = ""
        if level is Level.IDENTITIES:
            varies = _told(comparison.varying(given, claims.levels[0]))
        if level is Level.AT_LEAST:
            due = comparison.lower_bound(given, claims)
            # Without a count of records, their number is that of rows, if it is one at all: a
            # filter behind a state gives as many as the order of the input has it.
            other = None if claims.counts else comparison.uneven(given)
            if other is not None:
                level, varies = Level.IDENTITIES, _told(other)
        records = self._records_of(name)
        return Baseline(level, due, claims, tuple(table.ignore), records, varies, self._sent())

    def _by_oracle(self, name: str, given: Rows, claims: Claims) -> Baseline:
        table = self._job.outputs[name]
        due = comparison.grouped(self._due_rows(name), table.ignore)
        if claims.state == "at-least-once":
            levels: tuple[Level, ...] = (Level.AT_LEAST,)
            agrees = not comparison.compared(Level.AT_LEAST, due, given, claims)
        else:
            levels = tuple(one for one in claims.levels if one is not Level.IDENTITIES)
            agrees = comparison.strongest([due, given], levels) is not None
        if not agrees and (twice := self._several(name, given)):
            raise Refused(twice)
        if not agrees:
            raise Refused(self._disagreement(name, due, given, levels[-1], claims))
        level = comparison.strongest([due, given], levels) or Level.AT_LEAST
        return Baseline(level, due, claims, tuple(table.ignore), self._records_of(name))

    def _several(self, name: str, given: Rows) -> str:
        """Say which identity of a table is in several rows, "" for none."""
        table = self._job.outputs[name]
        key, rows = max(given.items(), key=lambda one: len(one[1]))
        if table.kind != "sql" or len(rows) == 1:
            return ""
        return (
            f"[outputs.{name}]: the oracle gives one row for each identity; {len(rows)} have "
            f"{shown(key, 100)}, as {shown(rows[0], 100)} and {shown(rows[1], 100)}: the table "
            f"needs a primary key, or identity more fields than {', '.join(table.identity)}"
        )

    def _disagreement(self, name: str, due: Rows, given: Rows, level: Level, claims: Claims) -> str:
        """Say on which record job and oracle disagree first."""
        wrong = {one.key: one for one in comparison.compared(level, due, given, claims)}
        by_row = self._records_of(name)
        first = min(
            wrong.values(), key=lambda one: by_row[one.key][-1].number if by_row.get(one.key) else 0
        )
        records = by_row.get(first.key, [])
        where = str(records[-1]) if records else f"key {shown(first.key, 100)}"
        return (
            f"the job and the oracle disagree on {where} before any fault: the oracle says "
            f"{shown(first.expected, 200) or 'nothing'}, the job gives "
            f"{shown(first.actual, 200) or 'nothing'}"
        )

    def _records_of(self, name: str) -> dict[str, list[Record]]:
        """Return records by the identity of the row that they have an effect on, if that shows."""
        table = self._job.outputs[name]
        if self._due is not None:
            found: dict[str, list[Record]] = {}
            for record, value in self._due:
                key, _ = oracle.row(table, record, value)
                found.setdefault(key, []).append(record)
            return found
        records = self._sent()
        if not table.identity:
            return judge.by_key(records, lambda one: one.key)
        if not all(name in one.value for one in records[:1] for name in table.identity):
            return {}
        return judge.by_key(
            records, lambda one: comparison.canonical([one.value.get(x) for x in table.identity])
        )

    def _sent(self) -> list[Record]:
        return [one for some in self._inputs.values() for one in some]

    # -- outcomes ------------------------------------------------------------------------------

    def _expect_output(self, run: Run) -> None:
        """Raise Refused for a job that fails, or gives nothing, without faults."""
        if run.failure:
            raise Refused(run.failure)
        if run.reused_key:
            raise Refused(f"{run.reused_key}: the second was answered 422, and does not count")
        if run.exits and self._job.claims.poison == "stop":
            said = "with nothing to stop at; the last that it said"
            raise Refused(f"without faults {run.exits[0]}, {said}: {run.last_said}")
        failed = [one for one in run.exits if not one.endswith(" 0")]
        if len(failed) >= _MOST_FAILED and run.ended.startswith(trial.SILENCE):
            said = "and nothing says that it read its input; the last that it said"
            raise Refused(
                f"without faults {failed[0]}, and so on, {len(failed)} times, {said}: "
                f"{run.last_said}"
            )
        if run.name == _ALL_FIRST and run.stalled and not run.moments["fetched"]:
            raise Refused(
                f"the job read nothing until {run.ended}: all input was there before it started, "
                "and a job that begins at the end of a topic (auto.offset.reset) leaves it out"
            )
        if run.stalled or run.unfinished:
            what = "stood still with input left, until" if run.stalled else "was still at work at"
            raise Refused(f"without faults the job {what} {run.ended}")
        empty = [name for name in self._job.judged_outputs if not run.rows.get(name)]
        if empty:
            raise Refused(
                f"[outputs.{empty[0]}]: the job gave nothing in {run.seconds:.0f} s without "
                f"faults; the last that it said: {run.last_said}"
            )

    def _refused(self, why: str, run: Run) -> Outcome:
        return Outcome(
            CALM,
            Verdict.UNKNOWN if run.unfinished else Verdict.FAIL,
            scenario=run.name,
            reason=Reason.TIME_LIMIT if run.unfinished else Reason.NOT_SEEN,
            expected="the output that is due, without any fault",
            actual=why,
            run=str(self._runs / run.name),
            reproduce=self._again(CALM),
        )

    def _calm_passed(self, ground: Ground) -> Outcome:
        calm = ground.calm
        compared = {name: one.level.value for name, one in ground.baselines.items()}
        return Outcome(
            CALM,
            Verdict.PASS,
            scenario="calm",
            evidence={run.name: judge.as_evidence(run) for run in calm} | {"compared": compared},
            run=str(self._runs / "calm"),
            seconds=sum(run.seconds for run in calm),
        )


def _room(busy: float) -> int:
    """Return how many runs to play at once where a calm one keeps so many processors busy.

    Rounded up: one with faults waits for sessions that end and for restarts.
    """
    processors = machine.usable_cpus()
    return max(AT_ONCE, min(processors + 1, math.ceil(processors / max(busy, 0.1))))


def _told(varying: tuple[str, str, str] | None) -> str:
    """Say what varies, with two values, and what to do."""
    if varying is None:
        return "one of them is empty"
    key, one, other = varying
    fields = ""
    with contextlib.suppress(ValueError, AttributeError):
        names = comparison.varying_fields(one, other)
        fields = f'; if {names[0]} may vary, set ignore = ["{names[0]}"]' if names else ""
    both = f"{shown(one, 200)} in one run, {shown(other, 200)} in another"
    return f"{shown(key, 100)} was {both}{fields}"


def run(job: Job, settings: Settings, console: Console, *, verbose: bool = False) -> Report:
    """Judge a job; write, print and return its report."""
    started = datetime.now(UTC)
    folder = settings.out / job.name
    folder.mkdir(parents=True, exist_ok=True)

    if not settings.schedules:
        settings = replace(settings, regressions=schedules.beside(job))
    view = SessionProgress(console, verbose=verbose, tiers=JOB_TIER_NAMES)
    facts = {"engine": job.name, "profile": settings.profile, "seed": str(settings.seed)}
    with runs_folder(folder / RUNS, settings.seed) as runs, SessionLog(folder, facts, view) as log:
        session = Session(job, settings, runs, log)
        with view:
            found = session.judge()
        outcomes = judge.decisive(found, settings.selected)
        for one in outcomes:
            log({"event": "decided", "outcome": one.to_json()})
        report = _report(job, settings, session, outcomes, started, folder, runs)
        if report.interrupted is None:
            log.came_out(str(report.verdict))
    with interruption.deferred():
        report.write(folder)
        junit.write(report, folder)
        terminal.summary(console, report, folder, verbose=verbose)
        session_reports.write_pages(report, folder, console)
    if report.interrupted is not None:
        # The command line prints this text behind the words for what ended it.
        raise KeyboardInterrupt(f"reports of what was judged in {folder}")
    return report


def _report(
    job: Job,
    settings: Settings,
    session: Session,
    outcomes: Sequence[Outcome],
    started: datetime,
    folder: Path,
    runs: Path,
) -> Report:
    report = json_report.build(
        engine=document.engine_facts(
            job.name, "", "", job.path, over=str(software.installed() or "")
        ),
        outcomes=outcomes,
        selected=settings.selected,
        folder=folder,
        profile=settings.profile,
        seed=settings.seed,
        isolation=session.level.value,
        selection=Selection(tiers=[], only=list(settings.only), require=list(settings.require)),
        started=started,
        ended=datetime.now(UTC),
    )
    cut = None
    if session.interrupted:
        judged = sum(one.reason is not Reason.INTERRUPTED for one in outcomes)
        cut = Interrupted(
            by=session.interrupted,
            exit_status=interruption.status(),
            judged=judged,
            of=len(outcomes),
        )
    return json_report.of_session(report, runs.name, cut)
