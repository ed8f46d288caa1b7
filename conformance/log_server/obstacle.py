"""Obstacles between clients and a server that last for a while."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Obstacle:
    """Set in one thread and met in others.

    away: whoever connects is turned away. lag_s: how long each answer waits, in seconds. errs:
    the next offsets of a transaction are answered with an error. met: how many clients were turned
    away, answers late, or offsets answered so, since it was last set.
    """

    away: bool = False
    lag_s: float = 0.0
    errs: bool = False
    met: int = 0

    def set(self, *, away: bool = False, lag_s: float = 0.0, errs: bool = False) -> None:
        """Begin anew; without arguments the way is free."""
        self.away, self.lag_s, self.errs, self.met = away, lag_s, errs, 0

    def error(self) -> bool:
        """Tell whether offsets are answered with an error: once, and count it."""
        found, self.errs = self.errs, False
        self.met += found
        return found

    def turns_away(self) -> bool:
        """Tell whether a client that connects is turned away, and count it."""
        self.met += self.away
        return self.away

    def lag(self) -> float:
        """Return how long an answer waits, and count it if it does."""
        self.met += self.lag_s > 0
        return self.lag_s
