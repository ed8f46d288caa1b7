"""What serves a run: a log server and what publishes, closed loop or open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tickproof.conformance.faults.controller import FaultController
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.open_loop import OpenLoop
from tickproof.conformance.log_server.publisher import Publisher
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.server import LogServer
from tickproof.conformance.log_server.sink import Sink
from tickproof.conformance.scenario import Scenario


def open_servers(
    scenario: Scenario, plan: np.ndarray, log: InputLog, recorder: Recorder, sink: Sink,
    faults: FaultController, *, folder: Path, event: Callable[..., None],
    tell: Callable[..., Any], port: int,
) -> tuple[LogServer, Publisher | OpenLoop]:  # fmt: skip
    """Open the log server of a run, and return it with what publishes, not yet started.

    ``plan``: the publication plan of the input. ``tell`` hears of an open loop's schedule.
    Raises OSError where the port is taken, or what publishes may not run as its pace asks.
    """
    publisher: Publisher | OpenLoop
    if scenario.pace is None:
        publisher = Publisher(log, plan, scenario.rate, faults.limit, scenario.hold)
    else:
        publisher = OpenLoop(log, plan, scenario.pace, faults.limit, folder, tell)
        faults.holds_connections = False
    server = LogServer(log, recorder, sink, event, port, faults.observe, publisher)
    faults.opened = lambda: server.connections
    faults.links = server.links
    return server, publisher
