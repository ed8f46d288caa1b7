"""The steps of the ladder, what each adds and to which, and how often they are played."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tickproof.conformance.scenario import Step


@dataclass(frozen=True)
class Rung:
    """One step. adds: what it does more than the step ``before``; None: it is the lowest."""

    step: Step
    before: Step | None
    adds: str


LADDER: Final = (
    Rung("passthrough", None, "each record goes out as it came"),
    Rung("decode", "passthrough", "taken apart into key and value, and put together again"),
    Rung("compute", "decode", "one computation"),
    Rung("three-coalesced", "compute", "two computations more, in one step"),
    Rung("three-apart", "three-coalesced", "the three in steps of their own"),
    Rung("state", "compute", "a counter that all records of a partition share"),
    Rung("state-by-key", "state", "count and total of each key instead"),
    Rung("checkpoint", "state-by-key", "cuts go to disk before input is released"),
    Rung("exactly-once", "checkpoint", "output is numbered, or staged and committed"),
    Rung("audit", "exactly-once", "each record goes out once more beside its point"),
)


@dataclass(frozen=True)
class Plan:
    """messages: records of each run. rounds: runs of each step; four are the fewest for ratios."""

    messages: int = 8_000_000
    workers: int = 2
    rounds: int = 5
    seed: int = 1
