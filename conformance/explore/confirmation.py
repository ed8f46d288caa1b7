"""The shrinker's oracle: whether a schedule fails, decided by several runs of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Generic

from tickproof.conformance.explore.subject import Attempt, Attempts, Schedule


class Confirmation(Generic[Schedule]):
    """Decides whether schedules fail in ``times`` of ``times`` runs, each time as ``kind``.

    others: counts of the other failures seen on the way, by kind. proof: the runs of the last
    schedule that failed each time.
    """

    def __init__(self, attempts: Attempts[Schedule], kind: str, times: int) -> None:
        self._attempts, self._kind, self._times = attempts, kind, times
        self.others: Counter[str] = Counter()
        self.proof: list[Attempt[Schedule]] = []

    def fails(self, candidates: Sequence[Schedule]) -> int | None:
        """Return the index of a candidate that fails: the one whose runs end first."""
        with closing(self._attempts.each(candidates)) as attempts:
            for first in attempts:
                if self._same(first) and self._confirmed(first, self._times - 1):
                    return candidates.index(first.schedule)
        return None

    def confirm(self, schedule: Schedule) -> int:
        """Return how many of ``times`` runs fail in the same way."""
        made = self._attempts.all([schedule] * self._times)
        return sum([self._same(one) for one in made])

    def _confirmed(self, first: Attempt[Schedule], more: int) -> bool:
        made = [first]
        while more > 0:
            together = min(more, self._attempts.parallel)
            found = self._attempts.all([first.schedule] * together)
            if not all([self._same(one) for one in found]):
                return False
            made, more = made + found, more - together
        self.proof = made
        return True

    def _same(self, made: Attempt[Schedule]) -> bool:
        if made.failed and made.kind != self._kind:
            self.others[made.kind] += 1
        return made.failed and made.kind == self._kind
