"""Searching a user's own job: strikes at moments that it has, drawn within what it claims."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.engines.process_pool import Pool
from tickproof.conformance.errors import HistoryError, KitStopped, RequestError
from tickproof.conformance.explore.shrink import fewer
from tickproof.conformance.explore.subject import Attempt, Attempts, Subject
from tickproof.conformance.fault_steps import ALONE_S
from tickproof.conformance.faults.schedule_file import PREFIX, Failure
from tickproof.conformance.history.job_run import Do, Strike
from tickproof.conformance.jobs import judge, schedules
from tickproof.conformance.jobs.declaration import Job
from tickproof.conformance.jobs.requirements import JB, SCHEDULE
from tickproof.conformance.jobs.session import FEWEST, REFUSED_S, SLOW_S, Ground, Session
from tickproof.conformance.text import command_line, counted
from tickproof.conformance.verdicts import Outcome, Verdict

Strikes = tuple[Strike, ...]
MOST_FAULTS: Final = 5
#: How often each fault is drawn: most mistakes are shown by a death.
_WEIGHTS: Final[Mapping[Do, int]] = {
    "kill": 6, "pause": 2, "kill-broker": 1, "kill-leader": 1, "end-leader": 1, "restart": 1,
    "cut": 2, "refuse": 1, "slow": 1, "error": 1,
}  # fmt: skip
_LATEST: Final = 6
_NAME: Final = PREFIX + "drawn"


def drawn(job: Job, moments: Sequence[str], error: Strike | None, seed: int) -> Iterator[Strikes]:
    """Yield schedules without an end, none twice.

    moments: those that the job has. error: that it meets, None if none.
    """
    chance, seen = random.Random(seed), set[Strikes]()
    weights = {do: one for do, one in _WEIGHTS.items() if error or do != "error"}
    while True:
        number = chance.randint(1, MOST_FAULTS)
        made = tuple(_strike(moments, weights, error, chance) for _ in range(number))
        if made not in seen and not schedules.unclaimed(job, made):
            seen.add(made)
            yield made


def _strike(
    moments: Sequence[str], weights: Mapping[Do, int], error: Strike | None, chance: random.Random
) -> Strike:
    do = chance.choices([*weights], [*weights.values()])[0]
    if do == "error" and error:
        return replace(error, nth=chance.randint(1, _LATEST)) if error.at else error
    at = chance.choice(moments) if moments and chance.random() < 0.8 else ""
    if do in ("refuse", "slow"):
        longest_s = SLOW_S if do == "slow" else max(REFUSED_S)
        return Strike(do, at, seconds=round(chance.uniform(0.5, longest_s), 1))
    nth = chance.randint(1, _LATEST) if at else 1
    if do in ("cut", "kill-broker", "end-leader"):
        return Strike(do, at, nth)
    if do == "kill-leader":
        return Strike(do, at, nth, seconds=chance.choice((0.0, ALONE_S)))
    delay_s = chance.choice((0.0, 0.0, 0.1, 1.0)) if do == "kill" else 0.0
    whole = chance.random() < 0.3
    down = do == "kill" and not whole and chance.random() < 0.3
    return Strike(do, at, nth, whole, delay_s, down)


def simpler(strikes: Strikes) -> list[Strikes]:
    """Return the schedule with one strike simpler each."""
    found = []
    for at, one in enumerate(strikes):
        at_once = one.do in ("kill", "kill-leader")
        plain = (
            replace(one, nth=1),
            replace(one, seconds=0.0 if at_once else one.seconds),
            replace(one, down=False),
        )
        found += [(*strikes[:at], new, *strikes[at + 1 :]) for new in plain if new != one]
    return found


class JobSubject(Subject[Strikes]):
    """A job in a session whose runs without faults have been played; parallel: runs at once."""

    def __init__(
        self, job: Job, session: Session, ground: Ground, parallel: int, seed: int
    ) -> None:
        self.parallel, self._job, self._seed = parallel, job, seed
        self._session, self._ground = session, ground
        self.name, self.requirement = job.name, JB[SCHEDULE]

    def drawn(self) -> Iterator[Strikes]:
        """Yield schedules at moments that a run without faults had often enough."""
        calm = self._ground.calm[0]
        seen = [one for one in schedules.MOMENTS if calm.moments[one] >= FEWEST]
        moments = [*dict.fromkeys((*self._session.moments(calm), *seen))]
        return drawn(self._job, moments, self._session.error(calm), self._seed)

    @contextmanager
    def attempts(
        self, folder: Path, on_attempt: Callable[[Attempt[Strikes]], None]
    ) -> Iterator[Attempts[Strikes]]:
        """Give what plays schedules, in threads: what a run takes is in processes of its own."""
        threads = ThreadPoolExecutor(self.parallel)
        pool = Pool[Any, Attempt[Strikes]](
            threads, self.parallel, lambda task: self._attempt(*task)
        )
        with pool:
            yield Attempts(pool, lambda *task: task, folder, on_attempt, self._session.stop)

    def smaller(self) -> Sequence[Callable[[Strikes], Sequence[Strikes]]]:
        """Return what leaves strikes out, and what makes one simpler."""
        return fewer, simpler

    def described(self, schedule: Strikes) -> str:
        """Say what is done, and at which moments."""
        return ", ".join(_words(one) for one in schedule)

    def size(self, schedule: Strikes) -> str:
        """Say how many faults there are."""
        return counted(len(schedule), "fault")

    def faults(self, schedule: Strikes) -> list[str]:
        """Return what each strike does."""
        return [one.do for one in schedule]

    def to_toml(self, schedule: Strikes, failure: Failure | None = None) -> str:
        """Return it as a file for ``run --schedule``."""
        return schedules.to_toml(schedule, failure)

    def again(self, saved: Path) -> str:
        """Return the command that plays a saved schedule on the job."""
        return command_line("run", self._job.path, schedule=saved, seed=self._seed)

    def _attempt(self, strikes: Strikes, folder: Path) -> Attempt[Strikes]:
        """Play a schedule, and judge it as a whole."""
        began = time.monotonic()
        plan = self._ground.again(_NAME, strikes=strikes)
        try:
            run, outcomes = self._session.tried(self._ground, plan, folder)
        except (KitStopped, HistoryError, OSError) as error:
            outcome = Outcome(SCHEDULE, Verdict.KIT_ERROR, scenario=_NAME, actual=str(error))
            return Attempt(strikes, outcome, 0, 0, time.monotonic() - began)
        (outcome,) = judge.decisive(outcomes, [SCHEDULE])
        fired = sum(one.counts for one in run.fired)
        failed = outcome.verdict is Verdict.FAIL
        if not failed:
            shutil.rmtree(folder, ignore_errors=True)
        kind = str(outcome.reason) if failed else ""
        missed = len(strikes) - min(fired, len(strikes))
        return Attempt(strikes, outcome, fired, missed, run.seconds, kind)


def _words(strike: Strike) -> str:
    whole = " all" if strike.whole else ""
    nth = f"{strike.nth}. " if strike.nth > 1 else ""
    down = " that stays down" if strike.down else ""
    return f"{strike.do}{whole}{down}" + (f" at {nth}{strike.at}" if strike.at else "")


def subject(job: Job, session: Session, parallel: int | None, seed: int) -> JobSubject:
    """Return the subject of a search, after the runs without faults.

    Raises RequestError for a job that gives nothing to judge faults by.
    """
    ground = session.without_faults()
    if isinstance(ground, Outcome):
        raise RequestError(f"{job.path}: {ground.requirement} {ground.verdict}: {ground.actual}")
    return JobSubject(job, session, ground, parallel or ground.at_once, seed)
