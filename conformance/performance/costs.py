"""Costs of a run: processor time, memory, state on disk. Pure functions of its samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tickproof.conformance.history.folder import History
from tickproof.conformance.performance.throughput import Window, progress

#: Parts of the input after which the size of the state is taken; its size at the end is too.
STATE_AT: Final = (0.2, 0.5)


@dataclass(frozen=True)
class Costs:
    """Costs of one steady run.

    cpu_s: of all the engine's processes from start to end. cores: processors that it kept
    busy within the window. us_a_record: microseconds of processor time per record there.
    kit_cores, other_cores: what the kit and everything else on the machine kept busy there.
    peak_memory: bytes, the largest sample. state: bytes under state_dir at each of STATE_AT.
    Where the window holds fewer than two samples, cores are None.
    """

    cpu_s: float
    cores: float | None
    us_a_record: float | None
    kit_cores: float | None
    other_cores: float | None
    peak_memory: int | None
    state: tuple[int | None, ...]


def costs(history: History, samples: np.ndarray, cpu_s: float, within: Window | None) -> Costs:
    """Sum up SAMPLE rows; ``cpu_s`` is the exact processor time of the whole run."""
    cores = kit_cores = other_cores = us_a_record = None
    inside = np.zeros(0, samples.dtype)
    if within is not None:
        inside = samples[
            (samples["t_ns"] >= within.opens_ns) & (samples["t_ns"] <= within.closes_ns)
        ]
    if within is not None and len(inside) >= 2:
        cores = _slope(inside, "cpu_s")
        kit_cores = _slope(inside, "kit_cpu_s")
        other_cores = max(0.0, _slope(inside, "busy_s") - cores - kit_cores)
        us_a_record = cores / within.rate * 1e6
    peak = int(samples["memory"].max()) if len(samples) else None
    state = _state(history, samples)
    return Costs(cpu_s, cores, us_a_record, kit_cores, other_cores, peak, state)


def _slope(samples: np.ndarray, name: str) -> float:
    """Return how much a column grows per second, from the first sample to the last."""
    seconds = (samples["t_ns"][-1] - samples["t_ns"][0]) / 1e9
    return float(samples[name][-1] - samples[name][0]) / seconds


def _state(history: History, samples: np.ndarray) -> tuple[int | None, ...]:
    """Return the state's size in the first sample after each part of the input was done."""
    found: list[int | None] = []
    done = progress(history)
    for part in STATE_AT:
        t_ns = done.reached(part * history.input_records)
        at = len(samples) if t_ns is None else int(np.searchsorted(samples["t_ns"], t_ns))
        found.append(int(samples["state"][at]) if at < len(samples) else None)
    return tuple(found)
