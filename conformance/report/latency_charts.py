"""Latency as pictures: by percentile against limits and floor, and over the time of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup

from tickproof.conformance.latency.figures import shown_us
from tickproof.conformance.report import svg
from tickproof.conformance.report.svg import LEFT, ROOM, TimeAxis, label

_TOP: Final = 20
_LOW: Final = 220
_HEIGHT: Final = _LOW + 26


@dataclass(frozen=True)
class Percentiles:
    """Percentiles to draw: name -> microseconds. kind: its name in the style sheet."""

    kind: str
    said: str
    values_us: Mapping[str, float]


@dataclass(frozen=True)
class Seconds:
    """Latency over a run. starts_s: of each span; lines_us: name -> a value for each span.

    NaN where a span has no answer. noisy, warm_up: (from, to) in seconds; kill_s: None without.
    """

    starts_s: np.ndarray
    lines_us: Mapping[str, np.ndarray]
    seconds: float
    noisy: Sequence[tuple[float, float]]
    warm_up_s: float
    kill_s: float | None


def by_percentile(
    lines: Sequence[Percentiles],
    limits_us: Mapping[str, float],
    places: Mapping[str, float],
    title: str,
) -> Markup:
    """Return lines over percentiles on logarithmic axes, and each limit as a stroke.

    places: name -> the part of the samples at or below it; what is not in it is drawn last.
    """
    names = [name for name in (*places, "max") if any(name in one.values_us for one in lines)]
    x = _spread(names, places)
    values = [one for row in lines for one in row.values_us.values()] + [*limits_us.values()]
    scale = _LogScale(values)
    parts = scale.grid()
    for name in names:
        parts.append(svg.line("grid", [(x[name], _TOP), (x[name], _LOW)]))
        parts.append(label(x[name], _LOW + 20, name, "middle"))
    for row in lines:
        points = [
            (x[name], scale.y(us))
            for name, us in row.values_us.items()
            if name in x and math.isfinite(us)
        ]
        if points:
            parts.append(svg.line(row.kind, sorted(points), row.said))
    for name, us in limits_us.items():
        if name in x:
            y = scale.y(us)
            said = f"limit of {name}: {shown_us(us)}"
            parts.append(svg.line("limit", [(x[name] - 26, y), (x[name] + 26, y)], said))
    return svg.picture(_HEIGHT, title, parts)


def over_time(run: Seconds, title: str) -> Markup:
    """Return latency over the seconds of a run; noisy seconds and the warm-up are shaded."""
    axis = TimeAxis(0.0, run.seconds)
    scale = _LogScale([one for row in run.lines_us.values() for one in row[~np.isnan(row)]])
    parts = [
        svg.shade("noisy", axis.x(low), axis.x(high), _TOP, _LOW, "noisy")
        for low, high in run.noisy
    ]
    parts.append(svg.shade("warm-up", LEFT, axis.x(run.warm_up_s), _TOP, _LOW, "warm-up"))
    parts += scale.grid()
    parts += axis.grid(_TOP, _LOW)
    for name, values in run.lines_us.items():
        points = [
            (axis.x(at_s), scale.y(us))
            for at_s, us in zip(run.starts_s.tolist(), values.tolist(), strict=True)
            if not math.isnan(us)
        ]
        if points:
            parts.append(svg.line(name, points, name))
    if run.kill_s is not None:
        at = axis.x(run.kill_s)
        parts.append(svg.line("fault", [(at, _TOP), (at, _LOW)], f"kill at {run.kill_s:.3f} s"))
    return svg.picture(_HEIGHT, title, parts)


class _LogScale:
    """Microseconds from bottom to top, whole powers of ten at both ends."""

    def __init__(self, values: Iterable[float]) -> None:
        found = [one for one in values if math.isfinite(one) and one > 0] or [1.0]
        self.low = math.floor(math.log10(min(found)))
        self.high = max(math.ceil(math.log10(max(found))), self.low + 1)

    def y(self, us: float) -> float:
        part = (math.log10(max(us, 1e-3)) - self.low) / (self.high - self.low)
        return round(_LOW - (_LOW - _TOP) * min(max(part, 0.0), 1.0), 1)

    def grid(self) -> list[Markup]:
        parts = []
        for power in range(self.low, self.high + 1):
            y = self.y(10.0**power)
            parts.append(svg.line("axis", [(LEFT, y), (LEFT + ROOM, y)]))
            parts.append(label(LEFT - 6, y + 4, shown_us(10.0**power), "end"))
        return parts


def _spread(names: Sequence[str], places: Mapping[str, float]) -> dict[str, float]:
    """Return where each percentile lies: by how rare what is beyond it is."""
    depth = [-math.log10(1 - places[name]) for name in names if name in places]
    depth += [max(depth, default=0.0) + 1] * ("max" in names)
    room = ROOM - 60
    low, high = min(depth, default=0.0), max(depth, default=1.0)
    wide = (high - low) or 1.0
    return {
        name: round(LEFT + 30 + room * (one - low) / wide, 1)
        for name, one in zip(names, depth, strict=True)
    }
