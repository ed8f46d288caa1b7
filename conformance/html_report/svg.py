"""Curves as SVG that a page holds inline: colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from markupsafe import Markup, escape

from tickproof.conformance.html_report.run_curves import Curves, Mark, RunCurves
from tickproof.conformance.text import shown

#: Spans of a curve over a whole run, and of a close look at a fault.
SPANS: Final = 120
LOOK_SPANS: Final = 60

#: Everything in units of the view box; the page scales it.
_WIDTH: Final = 800
_LEFT: Final = 76
_RIGHT: Final = 12
#: What faults are is written here, above the label of the first panel.
_FAULTS: Final = 12
_TOP: Final = 36
_RATES: Final = 92
_GAP: Final = 22
_BACKLOG: Final = 44
_BOTTOM: Final = 26
#: Length of the stroke of a cut.
_CUT: Final = 5
_ROOM: Final = _WIDTH - _LEFT - _RIGHT
_HEIGHT: Final = _TOP + _RATES + _GAP + _BACKLOG + _BOTTOM
#: Labels of marks that lie closer than this are left out; their lines stay.
_LABEL_ROOM: Final = 110
_TEXT: Final = 48
_TICKS: Final = 6


def timeline(run: RunCurves, title: str) -> Markup:
    """Return the picture of a whole run."""
    return _picture(run, (0.0, run.seconds), SPANS, title)


def close_look(run: RunCurves, window: tuple[float, float], title: str) -> Markup:
    """Return the picture of a part of a run, (from, to) in seconds."""
    return _picture(run, window, LOOK_SPANS, title)


def _picture(run: RunCurves, window: tuple[float, float], spans: int, title: str) -> Markup:
    curves, axis = run.over(*window, spans), _Axis(*window)
    marks = [mark for mark in run.marks if window[0] <= mark.at_s <= window[1]]
    rates = _Panel(_TOP, _RATES, [curves.published, curves.fetched, curves.outputs])
    backlog = _Panel(_TOP + _RATES + _GAP, _BACKLOG, [curves.backlog])
    parts = [
        *(_shade(axis, *span) for span in run.recoveries if axis.meets(span)),
        *_grid(axis),
        *rates.frame("records a second"),
        *backlog.frame("backlog, records"),
        *rates.lines(axis, curves, ("published", "fetched", "outputs")),
        *backlog.lines(axis, curves, ("backlog",)),
        _cuts(axis, run.cuts_s),
        *_marks(axis, marks),
    ]
    return Markup(
        '<svg class="timeline" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(_WIDTH, _HEIGHT, title, Markup("").join(parts))


class _Axis:
    """Time from left to right."""

    def __init__(self, from_s: float, to_s: float) -> None:
        self.from_s, self.to_s = from_s, to_s

    def x(self, at_s: float) -> float:
        part = (at_s - self.from_s) / (self.to_s - self.from_s)
        return round(_LEFT + _ROOM * min(max(part, 0.0), 1.0), 1)

    def meets(self, span: tuple[float, float]) -> bool:
        return span[0] < self.to_s and span[1] > self.from_s

    def ticks(self) -> Iterable[tuple[float, str]]:
        """Return times of round numbers, with their text: seconds, or milliseconds."""
        step = nice((self.to_s - self.from_s) / _TICKS)
        digits = max(0, -math.floor(math.log10(step)))
        first = math.ceil(self.from_s / step - 1e-9)
        for number in range(first, math.floor(self.to_s / step + 1e-9) + 1):
            yield number * step, f"{number * step:.{digits}f} s"


class _Panel:
    """Curves above one another, from 0 up to the highest value of all."""

    def __init__(self, top: int, height: int, values: Sequence[np.ndarray]) -> None:
        self.top, self.height = top, height
        self.most = max(float(one.max(initial=0.0)) for one in values) or 1.0

    def frame(self, label: str) -> list[Markup]:
        """Return the line at 0, the highest value, and what is shown."""
        low = self.top + self.height
        return [
            Markup('<path class="axis" d="M{} {}h{}"/>').format(_LEFT, low, _ROOM),
            _label(_LEFT - 6, self.top + 10, amount(self.most), "end"),
            _label(_LEFT - 6, low, "0", "end"),
            _label(_LEFT + 4, self.top - 5, label, "start"),
        ]

    def lines(self, axis: _Axis, curves: Curves, names: Sequence[str]) -> list[Markup]:
        """Return one path of steps for each of the named curves."""
        x = np.round(_LEFT + _ROOM * (curves.edges_s - axis.from_s) / (axis.to_s - axis.from_s), 1)
        found = []
        for name in names:
            part = getattr(curves, name) / self.most
            y = np.round(self.top + self.height * (1 - part), 1)
            found.append(Markup('<path class="{}" d="{}"/>').format(name, _steps(x, y)))
        return found


def _steps(x: np.ndarray, y: np.ndarray) -> str:
    """Return a path of steps; spans of one height are one step."""
    new = np.flatnonzero(np.diff(y, prepend=np.nan) != 0)
    ends = x[np.append(new[1:], len(y))]
    pieces = [f"M{x[0]:g} {y[0]:g}"]
    for height, end in zip(y[new].tolist(), ends.tolist(), strict=True):
        pieces.append(f"V{height:g}H{end:g}")
    return "".join(pieces)


def _shade(axis: _Axis, from_s: float, to_s: float) -> Markup:
    left, right = axis.x(from_s), axis.x(to_s)
    title = Markup("<title>{}</title>").format(f"recovering for {(to_s - from_s) * 1000:,.0f} ms")
    return Markup('<rect class="recovery" x="{}" y="{}" width="{}" height="{}">{}</rect>').format(
        left, _TOP, max(round(right - left, 1), 1), _HEIGHT - _TOP - _BOTTOM, title
    )


def _grid(axis: _Axis) -> list[Markup]:
    found = []
    for at_s, text in axis.ticks():
        x = axis.x(at_s)
        line = Markup('<path class="grid" d="M{} {}V{}"/>').format(x, _TOP, _HEIGHT - _BOTTOM)
        found += [line, _label(x, _HEIGHT - 6, text, "middle")]
    return found


def _cuts(axis: _Axis, cuts_s: np.ndarray) -> Markup:
    """Return a small stroke for each cut, none twice at one place."""
    seen = cuts_s[(cuts_s >= axis.from_s) & (cuts_s <= axis.to_s)].tolist()
    places = dict.fromkeys(round(axis.x(at_s)) for at_s in seen)
    low = _HEIGHT - _BOTTOM
    return Markup('<path class="cut" d="{}"/>').format(
        "".join(f"M{x} {low}v{_CUT}" for x in places)
    )


def _marks(axis: _Axis, marks: Sequence[Mark]) -> list[Markup]:
    """Return a line for each mark with its words as a tooltip; faults are labelled, too."""
    found, labelled = [], -math.inf
    for mark in marks:
        x, text = axis.x(mark.at_s), shown(mark.text, _TEXT)
        found.append(
            Markup('<path class="{}" d="M{} {}V{}"><title>{}</title></path>').format(
                "fault" if mark.strong else "mark", x, _FAULTS + 3, _HEIGHT - _BOTTOM,
                f"{mark.at_s:.3f} s: {text}",
            )
        )  # fmt: skip
        if mark.strong and x >= labelled + _LABEL_ROOM:
            anchor = "end" if x > _WIDTH - 2 * _LABEL_ROOM else "start"
            found.append(_label(x, _FAULTS, text, anchor, "fault-label"))
            labelled = x
    return found


def _label(x: float, y: float, text: str, anchor: str, name: str = "label") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        name, x, y, anchor, escape(text)
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
