"""App ladder: one small feature more with each step; only its costs are measured."""

from __future__ import annotations

from typing import Final, get_args

import numpy as np

from tickproof.conformance.apps.app import App, Leeway
from tickproof.conformance.checkers import ladder
from tickproof.conformance.checkers.findings import Findings
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.outputs import OutputLog
from tickproof.conformance.scenario import Step
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT

#: Steps whose output is a point, as of count.
_POINTS: Final = frozenset(("state", "state-by-key", "checkpoint", "exactly-once", "audit"))


class Ladder(App):
    """One step of the ladder."""

    name = "ladder"
    about = "ladder does a little more with each of its steps, from a copy to an audit."
    choices = {"step": get_args(Step)}
    kind = "keyed"

    def input_layouts(self, size: int) -> tuple[np.dtype, ...]:
        """Return the layout of records with a key."""
        return (COUNT_IN,)

    def output_layout(self, size: int) -> np.dtype:
        """Return the layout of a point, or of a record as it came in."""
        return COUNT_OUT if self.params["step"] in _POINTS else COUNT_IN

    def check(self, history: History, log: OutputLog, leeway: Leeway) -> Findings:
        """Compare outputs and what the step gives as multisets."""
        return ladder.check_ladder(self.params["step"], history.inputs(COUNT_IN), log)

    def due(self, history: History) -> int:
        """Return one output for each record."""
        return history.input_records
