"""A fault controller over a log whose offsets the test sets, and schedules to play on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

from hypothesis import strategies as st

from tickproof.conformance.fault_steps import KillEngineStep, KillStep, PauseStep
from tickproof.conformance.faults.controller import FaultController

TOTAL = 100_000
DEADLINE_S, FIRST_CUT_S = 20, 6.0
MOMENTS = ("fetched", "accepted", "committing", "recovery", "checkpoint", "drained")


class Bench:
    """A controller over a log whose offsets the test sets; it is the run around it, too."""

    def __init__(self, steps, rate=None, deed=None, one_each=False, holds_connections=True):
        self.log = SimpleNamespace(
            total=TOTAL, fetched=0, published=0, released=0, states=lambda: [], cuts=lambda: [0]
        )
        self.events, self.done = [], []
        self.connections, self.links, self.scaling, self.draining = 0, None, False, False
        #: Whether what faults are done to is on its way back.
        self.on_its_way = False
        self.strikes = deed or self.deed
        self.controller = FaultController(
            steps,
            self.log,
            SimpleNamespace(records=0),
            rate,
            self,
            self.note,
            FIRST_CUT_S,
            one_each=one_each,
            holds_connections=holds_connections,
        )

    def returning(self, _fault):
        return self.on_its_way

    def aim(self, fault):
        return self.strikes(fault.step)

    def watch_state(self, fault, events):
        raise LookupError("there is no state")

    def observe(self, moment, connection):
        """Hear of a moment as the log server does: hold the connection as long as asked."""
        carried_out = self.controller.observe(moment, connection)
        return carried_out is not None and carried_out.result(DEADLINE_S)

    def deed(self, step):
        self.done.append(step)
        return lambda: {"pids": [1]}

    def note(self, event, **fields):
        self.events.append((event, fields))

    def named(self, event):
        return [fields for name, fields in self.events if name == event]


steps = st.builds(
    replace,
    st.sampled_from(
        (
            KillStep("fetched", target="worker"),
            KillEngineStep("fetched"),
            PauseStep("fetched", target="worker", seconds=0.0),
            PauseStep("fetched", target="engine", seconds=0.0),
        )
    ),
    at=st.sampled_from(MOMENTS),
    fraction=st.floats(0, 1),
    burst=st.integers(0, 20_000),
)
schedules = st.lists(steps, max_size=4)


def until(condition: Callable[[], bool]) -> None:
    tick, deadline = threading.Event(), time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        tick.wait(0.001)
