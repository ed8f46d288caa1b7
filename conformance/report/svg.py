"""SVG pictures that a page holds inline, in the colours of its style sheet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from markupsafe import Markup

#: In units of the view box, which the page scales: its width, and the room left of and right of
#: what is drawn.
WIDTH: Final = 800
LEFT: Final = 76
RIGHT: Final = 12
ROOM: Final = WIDTH - LEFT - RIGHT
_TICKS: Final = 6


class TimeAxis:
    """Time from left to right, in seconds."""

    def __init__(self, from_s: float, to_s: float) -> None:
        self.from_s, self.to_s = from_s, to_s

    def x(self, at_s: float) -> float:
        """Return where a time lies, at the edge where it lies beyond."""
        part = (at_s - self.from_s) / (self.to_s - self.from_s)
        return round(LEFT + ROOM * min(max(part, 0.0), 1.0), 1)

    def meets(self, span: tuple[float, float]) -> bool:
        """Tell whether a part of a span, (from, to), is drawn."""
        return span[0] < self.to_s and span[1] > self.from_s

    def ticks(self) -> Iterable[tuple[float, str]]:
        """Return times of round numbers, with their text: seconds, or milliseconds."""
        step = nice((self.to_s - self.from_s) / _TICKS)
        digits = max(0, -math.floor(math.log10(step)))
        first = math.ceil(self.from_s / step - 1e-9)
        for number in range(first, math.floor(self.to_s / step + 1e-9) + 1):
            yield number * step, f"{number * step:.{digits}f} s"

    def grid(self, top: float, low: float) -> list[Markup]:
        """Return a line and a label for each tick, from ``top`` down to ``low``."""
        found = []
        for at_s, text in self.ticks():
            x = self.x(at_s)
            found.append(line("grid", [(x, top), (x, low)]))
            found.append(label(x, low + 20, text, "middle"))
        return found


def picture(height: float, title: str, parts: Iterable[Markup]) -> Markup:
    """Return a whole picture; ``title`` is what it shows, for those who cannot see it."""
    whole = '<svg class="timeline" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    return Markup(whole).format(WIDTH, height, title, Markup("").join(parts))


def line(name: str, points: Sequence[tuple[float, float]], tooltip: str = "") -> Markup:
    """Return a line through points; ``name``: what it is in the style sheet."""
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
    title = Markup("<title>{}</title>").format(tooltip) if tooltip else ""
    return Markup('<path class="{}" d="{}">{}</path>').format(name, path, title)


def steps(name: str, x: np.ndarray, y: np.ndarray) -> Markup:
    """Return a line of steps: x has one value more than y; neighbours of one height are one."""
    new = np.flatnonzero(np.diff(y, prepend=np.nan) != 0)
    ends = x[np.append(new[1:], len(y))]
    pieces = [f"M{x[0]:g} {y[0]:g}"]
    for height, end in zip(y[new].tolist(), ends.tolist(), strict=True):
        pieces.append(f"V{height:g}H{end:g}")
    return Markup('<path class="{}" d="{}"/>').format(name, "".join(pieces))


def shade(name: str, left: float, right: float, top: float, low: float, tooltip: str) -> Markup:
    """Return a shaded part of a picture, at least as wide as can be seen."""
    title = Markup("<title>{}</title>").format(tooltip)
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}">{}</rect>').format(
        name, left, top, max(round(right - left, 1), 1), low - top, title
    )


def label(x: float, y: float, text: str, anchor: str, name: str = "label") -> Markup:
    """Return a text; ``anchor``: which end of it lies at x: start, middle, end."""
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        name, x, y, anchor, text
    )


def nice(step: float) -> float:
    """Return the next number up of the form 1, 2 or 5 times a power of ten."""
    base = 10.0 ** math.floor(math.log10(step))
    return next(base * one for one in (1, 2, 5, 10) if base * one >= step * (1 - 1e-9))


def amount(value: float) -> str:
    """Return a number in a few characters: "950", "12.3 k", "4.5 M"."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
