"""Obstacles between clients and a server that last for a while."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Obstacle:
    """Set in one thread and met in others.

    away: whoever connects is turned away. lag_s: how long each answer waits, in seconds. errs:
    the next request of this name is answered with an error, "" for none. met: how many clients
    were turned away, answers late, or requests answered so, since it was last set.
    """

    away: bool = False
    lag_s: float = 0.0
    errs: str = ""
    met: int = 0

    def set(self, *, away: bool = False, lag_s: float = 0.0, errs: str = "") -> None:
        """Begin anew; without arguments the way is free."""
        self.away, self.lag_s, self.errs, self.met = away, lag_s, errs, 0

    def error(self, request: str) -> bool:
        """Tell whether a request is answered with an error: once, and count it."""
        if not request or request != self.errs:
            return False
        self.errs = ""
        self.met += 1
        return True

    def turns_away(self) -> bool:
        """Tell whether a client that connects is turned away, and count it."""
        self.met += self.away
        return self.away

    def lag(self) -> float:
        """Return how long an answer waits, and count it if it does."""
        self.met += self.lag_s > 0
        return self.lag_s
