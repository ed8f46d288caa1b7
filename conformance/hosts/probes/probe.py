"""What a probe is: a name, what it wants, why, and the function that looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tickproof.conformance.hosts.host_files import Look


@dataclass(frozen=True)
class Seen:
    """What a probe saw. path: absolute, as on the host; value: one line."""

    path: str
    value: str
    ok: bool


@dataclass(frozen=True)
class Probe:
    """wanted: what is OK, {cores} stands for the measuring cores. look raises Unseen."""

    name: str
    level: str
    wanted: str
    why: str
    look: Callable[[Look], Seen]
