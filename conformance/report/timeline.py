"""A run as a picture: rates and backlog over time, faults, recoveries, cuts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from markupsafe import Markup

from tickproof.conformance.report import svg
from tickproof.conformance.report.run_curves import Curves, Mark, RunCurves
from tickproof.conformance.report.svg import LEFT, ROOM, TimeAxis, label
from tickproof.conformance.text import shown

#: Spans of a curve over a whole run, and of a close look at a fault.
SPANS: Final = 120
LOOK_SPANS: Final = 60

#: What faults are is written here, and below it what else happened, above the first panel.
_FAULTS: Final = 12
_OTHERS: Final = 25
_TOP: Final = 50
_RATES: Final = 92
_GAP: Final = 22
_BACKLOG: Final = 44
_LOW: Final = _TOP + _RATES + _GAP + _BACKLOG
HEIGHT: Final = _LOW + 26
#: Length of the stroke of a cut.
_CUT: Final = 5
#: The room of a letter of a label, about. Labels that would lie on another are left out; their
#: lines stay.
_LETTER: Final = 6.3
_TEXT: Final = 48
#: The axis is cut if the highest value is this many times the one that only few spans exceed.
_SPIKE: Final = 4.0
_FEW: Final = 90.0
#: Room above that value, where it is cut.
_ABOVE: Final = 1.25


def whole(run: RunCurves, title: str) -> Markup:
    """Return the picture of a whole run."""
    return _picture(run, (0.0, run.seconds), SPANS, title)


def close_look(run: RunCurves, window: tuple[float, float], title: str) -> Markup:
    """Return the picture of a part of a run, (from, to) in seconds."""
    return _picture(run, window, LOOK_SPANS, title)


def _picture(run: RunCurves, window: tuple[float, float], spans: int, title: str) -> Markup:
    curves, axis = run.over(*window, spans), TimeAxis(*window)
    marks = [mark for mark in run.marks if window[0] <= mark.at_s <= window[1]]
    rates = _Panel(_TOP, _RATES, [curves.published, curves.fetched, curves.outputs])
    backlog = _Panel(_TOP + _RATES + _GAP, _BACKLOG, [curves.backlog])
    return svg.picture(
        HEIGHT,
        title,
        [
            *(_recovery(axis, *span) for span in run.recoveries if axis.meets(span)),
            *axis.grid(_TOP, _LOW),
            *rates.frame("records a second"),
            *backlog.frame("backlog, records"),
            *rates.lines(axis, curves, ("published", "fetched", "outputs")),
            *backlog.lines(axis, curves, ("backlog",)),
            _cuts(axis, run.cuts_s),
            *_marks(axis, marks),
        ],
    )


class _Panel:
    """Curves above one another, from 0 up to the highest value of all.

    A spike that would flatten everything else is cut off; the frame says how high it is.
    """

    def __init__(self, top: int, height: int, values: Sequence[np.ndarray]) -> None:
        self.top, self.height = top, height
        whole = np.concatenate(values)
        self.highest = float(whole.max(initial=0.0)) or 1.0
        seen = whole[whole > 0]
        usual = float(np.percentile(seen, _FEW, method="lower")) if len(seen) else self.highest
        self.most = usual * _ABOVE if self.highest > _SPIKE * usual else self.highest

    def frame(self, what: str) -> list[Markup]:
        """Return the line at 0, the highest value, and what is shown."""
        low = self.top + self.height
        if self.most < self.highest:
            what += f"; cut at {svg.amount(self.most)}, the highest is {svg.amount(self.highest)}"
        return [
            svg.line("axis", [(LEFT, low), (LEFT + ROOM, low)]),
            label(LEFT - 6, self.top + 10, svg.amount(self.most), "end"),
            label(LEFT - 6, low, "0", "end"),
            label(LEFT + 4, self.top - 5, what, "start"),
        ]

    def lines(self, axis: TimeAxis, curves: Curves, names: Sequence[str]) -> list[Markup]:
        """Return the steps of each of the named curves."""
        x = np.round(LEFT + ROOM * (curves.edges_s - axis.from_s) / (axis.to_s - axis.from_s), 1)
        return [
            svg.steps(
                name,
                x,
                np.round(self.top + self.height * (1 - self._part(getattr(curves, name))), 1),
            )
            for name in names
        ]

    def _part(self, values: np.ndarray) -> np.ndarray:
        """Return values as parts of the height, what was cut off at its top."""
        return np.minimum(values / self.most, 1.0)


def _recovery(axis: TimeAxis, from_s: float, to_s: float) -> Markup:
    said = f"recovering for {(to_s - from_s) * 1000:,.0f} ms"
    return svg.shade("recovery", axis.x(from_s), axis.x(to_s), _TOP, _LOW, said)


def _cuts(axis: TimeAxis, cuts_s: np.ndarray) -> Markup:
    """Return a small stroke for each cut, none twice at one place."""
    seen = cuts_s[(cuts_s >= axis.from_s) & (cuts_s <= axis.to_s)].tolist()
    places = dict.fromkeys(round(axis.x(at_s)) for at_s in seen)
    path = "".join(f"M{x} {_LOW}v{_CUT}" for x in places)
    return Markup('<path class="cut" d="{}"/>').format(path)


def _marks(axis: TimeAxis, marks: Sequence[Mark]) -> list[Markup]:
    """Return a line for each mark with its words as a tooltip, and those that there is room for."""
    found = []
    for name, style, y, of_kind in (
        ("mark", "label", _OTHERS, [mark for mark in marks if not mark.strong]),
        ("fault", "fault-label", _FAULTS, [mark for mark in marks if mark.strong]),
    ):
        taken: list[tuple[float, float]] = []
        for mark in of_kind:
            x, text = axis.x(mark.at_s), shown(mark.text, _TEXT)
            said = f"{mark.at_s:.3f} s: {text}"
            found.append(svg.line(name, [(x, y + 3), (x, _LOW)], said))
            wide = len(text) * _LETTER
            for anchor, left in (("start", x), ("end", x - wide)):
                right = left + wide
                if right <= svg.WIDTH and all(left > b or right < a for a, b in taken):
                    found.append(label(x, y, text, anchor, style))
                    taken.append((left, right))
                    break
    return found
