"""App double: twice each number."""

from __future__ import annotations

import numpy as np

from tickproof.conformance.apps.app import App, Messages
from tickproof.conformance.apps.passthrough import Passthrough
from tickproof.conformance.checkers.expected import doubled
from tickproof.generators.layouts import NUMBER


class Double(Passthrough):
    """Twice each number; doubles wrap at 64 bits."""

    name = "double"
    about = "double gives for each number twice that number."
    kind = "numbers"
    any_size = False
    members = {"x": ("int64", "x")}
    fill = App.fill

    def input_layouts(self, size: int) -> tuple[np.dtype, ...]:
        """Return the layout of numbers."""
        return (NUMBER,)

    def output_layout(self, size: int) -> np.dtype:
        """Return the layout of numbers."""
        return NUMBER

    def answer(self, records: np.ndarray) -> np.ndarray:
        """Return the doubles of numbers."""
        return doubled(records)

    def messages(self, payloads: np.ndarray) -> Messages:
        """Return numbers as JSON."""
        values = [b'{"x":%d}' % x for x in payloads["x"].tolist()]
        return Messages([None] * len(values), values)
