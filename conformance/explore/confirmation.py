"""Whether schedules fail, by several runs of each: the oracle of the shrinker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from tickproof.conformance.explore.attempts import Attempt, Attempts
from tickproof.conformance.scenario import Scenario


class Confirming:
    """Says of schedules whether they fail ``times`` of ``times`` runs, in the way of ``kind``.

    others: what other failures were seen on the way, by kind. proof: the runs of the last
    schedule that failed each time.
    """

    def __init__(self, attempts: Attempts, kind: str, times: int) -> None:
        self._attempts, self._kind, self._times = attempts, kind, times
        self.others: Counter[str] = Counter()
        self.proof: list[Attempt] = []

    def fails(self, candidates: Sequence[Scenario]) -> int | None:
        """Return the index of the first candidate, in the order of their ends, that fails."""
        waiting = list(enumerate(candidates))[::-1]
        running: dict[Future[Attempt], int] = {}
        while waiting or running:
            while waiting and len(running) < self._attempts.parallel:
                index, scenario = waiting.pop()
                running[self._attempts.start(scenario)] = index
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                index = running.pop(future)
                first = self._attempts.heard_of(future)
                if self._same(first) and self._confirmed(first, self._times - 1):
                    self._let_end(running)
                    return index
        return None

    def confirm(self, scenario: Scenario) -> int:
        """Return how many of ``times`` runs fail in the same way."""
        made = self._attempts.all([scenario] * self._times)
        return sum([self._same(one) for one in made])

    def _confirmed(self, first: Attempt, more: int) -> bool:
        made = [first]
        while more > 0:
            together = min(more, self._attempts.parallel)
            found = self._attempts.all([first.scenario] * together)
            if not all([self._same(one) for one in found]):
                return False
            made, more = made + found, more - together
        self.proof = made
        return True

    def _same(self, made: Attempt) -> bool:
        if made.failed and made.kind != self._kind:
            self.others[made.kind] += 1
        return made.failed and made.kind == self._kind

    def _let_end(self, running: dict[Future[Attempt], int]) -> None:
        """Forget the runs that are no longer needed; those under way come to their end."""
        for future in running:
            future.cancel()
