"""Probes: a name, what it wants, why, and the function that reads the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tickproof.conformance.hosts.host_files import HostFiles


@dataclass(frozen=True)
class Observation:
    """One reading of a probe. path: absolute, as on the host; value: one line."""

    path: str
    value: str
    ok: bool


@dataclass(frozen=True)
class Probe:
    """wanted: what is OK, {cores} stands for the measuring cores. observe raises Unobservable."""

    name: str
    level: str
    wanted: str
    why: str
    observe: Callable[[HostFiles], Observation]
