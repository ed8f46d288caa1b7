"""Limits of a run that no promise of the engine depends on."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Final

from tickproof.conformance.engines.spec import EngineSpec

#: No engine is given up that does more records a second than this.
SLOWEST: Final = 20_000


def patient(spec: EngineSpec, messages: int) -> EngineSpec:
    """Return the engine with a drain limit that fits a long input: no limit is judged here."""
    timeouts = spec.timeouts
    longer = copy.copy(spec)
    longer.timeouts = replace(timeouts, drain_s=timeouts.drain_s + messages / SLOWEST)
    return longer
