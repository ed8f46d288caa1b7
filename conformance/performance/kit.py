"""`tickproof bench kit`: how fast the kit is on this machine, and how much memory it takes.

Every figure is measured on a whole path: the peers are processes of their own (`kit_peer`),
and the memory figure is the peak of a fresh process that serves, records and checks a run.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tickproof.conformance.checkers.merged import check_merged
from tickproof.conformance.history.outputs import ARRIVAL, OutputLog
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.server import LogServer
from tickproof.conformance.log_server.sink import Sink, SinkBehaviour
from tickproof.conformance.performance.document import this_machine
from tickproof.generators.files import write_market
from tickproof.generators.layouts import MESSAGE, VERDICT, framed
from tickproof.generators.market import MarketParams
from tickproof.generators.partitions import BuiltInput
from tickproof.generators.recipes import build

MESSAGES: Final = 10_000_000
OUTPUTS: Final = 4_000_000
#: The median of so many rounds is shown: the cores may be shared.
ROUNDS: Final = 3
_PEER_DEADLINE_S: Final = 300
_MEMORY_DEADLINE_S: Final = 900
_MIB: Final = 1 << 20


@dataclass(frozen=True)
class Figure:
    """One measured figure and the target it is held against."""

    name: str
    value: float
    unit: str
    target: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        """Tell whether the target is met."""
        return self.value <= self.target if self.at_most else self.value >= self.target


def measure(messages: int = MESSAGES, outputs: int = OUTPUTS) -> Iterator[Figure]:
    """Yield the figures of the kit, one after another; takes about a minute."""
    with tempfile.TemporaryDirectory(prefix="tickproof-bench-") as name:
        folder = Path(name)
        params = MarketParams(messages=messages)
        rate = _median(lambda: messages / _timed(lambda: write_market(params, folder / "market")))
        (folder / "market").unlink()
        yield Figure("generators, merged market", rate, "messages/s", 5e6)
        built = _input(messages, folder)
        rate = _median(lambda: _peer_rate(built, folder, "read"))
        yield Figure("log server to one process", rate, "records/s", 10e6)
        rate = _median(lambda: _peer_rate(built, folder, "write", str(outputs)))
        yield Figure("recorder, 48-byte outputs", rate, "outputs/s", 2e6)
        run = _in_fresh_process(messages)
        yield Figure("Market Spread checker", run["events"] / run["seconds"], "events/s", 5e6)
        peak = run["peak_bytes"] / _MIB
        yield Figure(f"memory, run of {messages:,}", peak, "MiB", 300e6 / _MIB, at_most=True)


def report(console: Console, as_json: bool) -> None:
    """Measure, and print a table or one JSON object."""
    if as_json:
        figures = [asdict(figure) | {"met": figure.met} for figure in measure()]
        print(json.dumps({"machine": this_machine().model_dump(), "figures": figures}, indent=2))
        return
    machine = this_machine()
    console.print(Text(f"{machine.cpu}, {machine.cpus} cores, Python {machine.python}"))
    table = Table(box=None, pad_edge=False)
    table.add_column("figure", no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("target", justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    with console.status("measuring") as status:
        for figure in measure():
            sign = "at most" if figure.at_most else "at least"
            style = "green" if figure.met else "bold red"
            value = Text(f"{figure.value:,.0f}", style=style)
            table.add_row(figure.name, value, f"{sign} {figure.target:,.0f}", figure.unit)
            status.update(f"measured: {figure.name}")
    console.print(table)


def _median(rate: Callable[[], float]) -> float:
    return statistics.median(rate() for _ in range(ROUNDS))


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _input(messages: int, folder: Path) -> BuiltInput:
    recipe = {"kind": "market", "seed": 1, "records": messages, "partitions": 1}
    return build(recipe | {"inputs": "merged"}, folder)


@contextmanager
def _serving(built: BuiltInput, folder: Path) -> Iterator[LogServer]:
    """Serve a whole input, all of it published; outputs go to folder/output."""

    def ignore(*_: object, **__: object) -> None:
        """Nobody listens to events here."""

    log = InputLog(built.partitions, folder, ignore)
    recorder = Recorder(folder / "output", {0: VERDICT.itemsize}, ignore)
    with LogServer(log, recorder, Sink(SinkBehaviour(), ignore), ignore) as server:
        log.publish([partition.records for partition in built.partitions])
        log.end()
        yield server
    recorder.close()


def _peer(server: LogServer, role: str, *more: str) -> dict[str, float]:
    """Run a peer process to its end; returns what it printed."""
    command = [
        sys.executable,
        "-m",
        "tickproof.conformance.performance.kit_peer",
        role,
        "127.0.0.1",
    ]
    done = subprocess.run(
        [*command, str(server.port), server.token.hex(), *more],
        stdout=subprocess.PIPE,
        timeout=_PEER_DEADLINE_S,
        check=True,
    )
    return json.loads(done.stdout)


def _peer_rate(built: BuiltInput, folder: Path, role: str, *more: str) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as run, _serving(built, Path(run)) as server:
        did = _peer(server, role, *more)
    return did["records"] / did["seconds"]


def _in_fresh_process(messages: int) -> dict[str, float]:
    """Serve, record and check a run in a process of its own; returns its figures."""
    done = subprocess.run(
        [sys.executable, "-m", "tickproof.conformance.performance.kit", str(messages)],
        stdout=subprocess.PIPE,
        timeout=_MEMORY_DEADLINE_S,
        check=True,
    )
    return json.loads(done.stdout)


def whole_run(messages: int) -> dict[str, float]:
    """Make, serve, record and check a market run; events, checker seconds, peak bytes.

    Raises RuntimeError when the checker finds fault with outputs that are right.
    """
    with tempfile.TemporaryDirectory(prefix="tickproof-bench-") as name:
        folder = Path(name)
        built = _input(messages, folder)
        with _serving(built, folder) as server:
            _peer(server, "market", str(built.partitions[0].path))
        payloads = np.memmap(folder / "output" / "s0.log", framed(VERDICT), "r")["payload"]
        outputs = OutputLog(payloads, np.fromfile(folder / "output" / "s0.arrivals", ARRIVAL))
        inputs = [np.memmap(p.path, framed(MESSAGE), "r")["payload"] for p in built.partitions]
        started = time.perf_counter()
        findings = check_merged(inputs, outputs, "verdicts")
        seconds = time.perf_counter() - started
    if findings or not findings.checked:
        raise RuntimeError(f"the checker should find nothing: {findings.first()}")
    return {"events": messages, "seconds": seconds, "peak_bytes": peak_bytes()}


def peak_bytes() -> int:
    """Return this process's own peak of resident memory, not its parent's before exec."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


if __name__ == "__main__":
    print(json.dumps(whole_run(int(sys.argv[1]))))
