"""What a search looks for faults in: an engine, or a user's own job, as the search sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

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


class Attempts(Protocol[Schedule]):
    """What plays schedules, ``parallel`` at a time."""

    parallel: int

    def each(self, schedules: Iterable[Schedule]) -> Generator[Attempt[Schedule], None, None]:
        """Yield attempts as they end; a schedule is taken when there is room for its run.

        What has not begun when the iterator is closed is not played.
        """
        ...

    def all(self, schedules: Sequence[Schedule]) -> list[Attempt[Schedule]]:
        """Return one attempt for each schedule, in their order."""
        ...


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
