"""What a search looks for faults in: an engine, or a user's own job, as the search sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

from tickproof.conformance.engines.process_pool import Pool
from tickproof.conformance.faults.schedule_file import Failure
from tickproof.conformance.report.json_report import FaultSpace
from tickproof.conformance.suites.requirement import Requirement
from tickproof.conformance.verdicts import Outcome, Verdict

#: A schedule of faults, in whatever form a subject has it.
Schedule = TypeVar("Schedule")


@dataclass(frozen=True)
class Attempt(Generic[Schedule]):
    """One run and its outcome. fired, missed: faults. seconds: of the run.

    kind: what failures of one defect have in common; "" where it did not fail. The run
    folder is kept only where it failed.
    """

    schedule: Schedule
    outcome: Outcome
    fired: int
    missed: int
    seconds: float
    kind: str = ""

    @property
    def failed(self) -> bool:
        """True if there is a counterexample."""
        return self.outcome.verdict is Verdict.FAIL


class Attempts(Generic[Schedule]):
    """Plays schedules in a pool, each into a folder of its own below ``folder``.

    task: what the pool does for a schedule and its folder. stop: ends the runs that go on, after
    an interrupt that reaches only this process.
    """

    def __init__(
        self,
        pool: Pool[Any, Attempt[Schedule]],
        task: Callable[[Schedule, Path], Any],
        folder: Path,
        on_attempt: Callable[[Attempt[Schedule]], None],
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.parallel = pool.workers
        self._pool, self._task, self._on_attempt, self._stop = pool, task, on_attempt, stop
        self._folders = (folder / f"{number:05}" for number in count(1))

    def each(self, schedules: Iterable[Schedule]) -> Generator[Attempt[Schedule], None, None]:
        """Yield attempts as they end; a schedule is taken when there is room for its run.

        What has not begun when the iterator is closed is not played.
        """
        with self._interruptible():
            for made in self._pool.results(map(self._asked, schedules)):
                self._on_attempt(made)
                yield made

    def all(self, schedules: Sequence[Schedule]) -> list[Attempt[Schedule]]:
        """Return one attempt for each schedule, in their order."""
        found = []
        with self._interruptible():
            for future in [self._pool.start(self._asked(one)) for one in schedules]:
                found.append(future.result())
                self._on_attempt(found[-1])
        return found

    def _asked(self, schedule: Schedule) -> Any:
        return self._task(schedule, next(self._folders))

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            self._stop()
            raise


class Subject(ABC, Generic[Schedule]):
    """Schedules of one engine or job: how they are drawn, played, made smaller and written.

    name: as reports have it. requirement: what a schedule decides.
    """

    name: str
    requirement: Requirement

    @abstractmethod
    def drawn(self) -> Iterator[Schedule]:
        """Yield schedules without an end."""

    @abstractmethod
    def attempts(
        self, folder: Path, on_attempt: Callable[[Attempt[Schedule]], None]
    ) -> AbstractContextManager[Attempts[Schedule]]:
        """Return what plays schedules, each into a folder below ``folder``."""

    @abstractmethod
    def smaller(self) -> Sequence[Callable[[Schedule], Sequence[Schedule]]]:
        """Return what makes smaller schedules of one, the most promising first."""

    @abstractmethod
    def described(self, schedule: Schedule) -> str:
        """Say what a schedule is, in a line."""

    @abstractmethod
    def size(self, schedule: Schedule) -> str:
        """Say how large a schedule is."""

    @abstractmethod
    def faults(self, schedule: Schedule) -> list[str]:
        """Return what its faults do, a word each."""

    @abstractmethod
    def to_toml(self, schedule: Schedule, failure: Failure | None = None) -> str:
        """Return a schedule as a file."""

    @abstractmethod
    def again(self, saved: Path) -> str:
        """Return the command that plays a saved schedule."""

    def told(self, outcome: Outcome) -> Outcome:
        """Return the outcome of a failed run with its story."""
        return outcome

    def coverage(self, points: Sequence[dict[str, str]]) -> FaultSpace | None:
        """Return what points covered of the fault space, None where there is none."""
        return None
