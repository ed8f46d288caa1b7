"""Limits of a run that no claim of the engine depends on."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Final

from tickproof.conformance.engines.spec import EngineSpec

#: An engine that does more records a second than this is never given up.
SLOWEST: Final = 20_000


def patient(spec: EngineSpec, messages: int) -> EngineSpec:
    """Return the engine with a drain limit that fits a long input."""
    timeouts = spec.timeouts
    longer = copy.copy(spec)
    longer.timeouts = replace(timeouts, drain_s=timeouts.drain_s + messages / SLOWEST)
    return longer
