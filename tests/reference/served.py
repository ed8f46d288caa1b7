"""A real log server for the reference: partition files in, a recorded stream out."""

from __future__ import annotations

import re
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tickproof.conformance.history.outputs import ARRIVAL
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.server import LogServer
from tickproof.conformance.log_server.sink import Sink, SinkBehaviour
from tickproof.reference.api.layouts import new
from tickproof.reference.apps import count
from tickproof.reference.apps.double import NUMBER
from tickproof.reference.connectors.wire import Chunk, Log, LogError

DEADLINE_S = 60
#: In each of the partitions of `serving_numbers`.
RECORDS = 40


def numbers(count: int, first: int = 0) -> np.ndarray:
    """Return records of app double, counted up from ``first``."""
    records = new(count, NUMBER)
    records["x"] = np.arange(first, first + count)
    return records


def chunk(*values: int) -> Chunk:
    """Return records of app double as they are staged."""
    records = new(len(values), NUMBER)
    records["x"] = values
    return Chunk(0, len(values), records.tobytes())


@contextmanager
def refused(text: str):
    """Expect a LogError whose text begins so."""
    with pytest.raises(LogError, match="^" + re.escape(text)):
        yield


def partition(folder: Path, stream: int, number: int, records: np.ndarray) -> SimpleNamespace:
    """Write framed records as a partition file, and describe it as the log wants it."""
    folder.mkdir(exist_ok=True)
    path = folder / f"s{stream}p{number}.log"
    path.write_bytes(records.tobytes())
    size = records.dtype.itemsize - 4
    return SimpleNamespace(
        stream=stream, partition=number, path=path, record_size=size, records=len(records)
    )


class Served:
    """Input partitions, all published, and output streams from 0 on; a context manager.

    output_sizes: the payload bytes of a record, of each output stream.
    """

    def __init__(self, folder: Path, partitions, *output_sizes: int, observer=None) -> None:
        self.folder, self.inputs = folder / "run", tuple(partitions)
        self.folder.mkdir()
        self.events: list[tuple[str, dict]] = []
        self.log = InputLog(self.inputs, self.folder, self._note)
        self.recorder = Recorder(self.folder / "output", dict(enumerate(output_sizes)), self._note)
        self.server = LogServer(
            self.log,
            self.recorder,
            Sink(SinkBehaviour(), self._note),
            self._note,
            observer=observer,
        )
        self._clients: list[Log] = []
        self._stopped = False

    def _note(self, event, *_, **fields) -> None:
        self.events.append((event, fields))

    @property
    def options(self) -> dict[str, str]:
        """Return host, port and token, as a source or a sink wants them."""
        return {
            "host": "127.0.0.1",
            "port": str(self.server.port),
            "token": self.server.token.hex(),
        }

    @property
    def counts(self) -> dict[int, int]:
        """Return how many partitions each stream has."""
        streams = [part.stream for part in self.inputs]
        return {stream: streams.count(stream) for stream in streams}

    @property
    def files(self) -> dict[int, list[Path]]:
        """Return the partition files by stream."""
        return {s: [p.path for p in self.inputs if p.stream == s] for s in self.counts}

    @property
    def ends(self) -> dict[str, int]:
        """Return the end offsets of what is published, named as the source names them."""
        return {f"{p.stream}/{p.partition}": p.published for p in self.log.states()}

    @property
    def released(self) -> dict[str, int]:
        """Return what was released, named as the source names it."""
        return {f"{p.stream}/{p.partition}": p.released for p in self.log.states()}

    def publish(self, share: float = 1.0) -> None:
        """Publish this share of every partition."""
        self.log.publish([int(part.records * share) for part in self.inputs])

    def connect(self) -> Log:
        """Return a client; it is closed in the end."""
        client = Log(**{**self.options, "port": self.server.port})
        self._clients.append(client)
        return client

    def outputs(self, layout, stream: int = 0) -> np.ndarray:
        """Return what is recorded so far; what is staged may lie behind it."""
        folder = self.folder / "output"
        recorded = np.fromfile(folder / f"s{stream}.arrivals", ARRIVAL)["count"].sum()
        return np.fromfile(folder / f"s{stream}.log", layout)[:recorded]

    def arrivals(self) -> np.ndarray:
        """Return the rows of the arrival table; only after the end."""
        return np.fromfile(self.folder / "output" / "s0.arrivals", ARRIVAL)

    def lose_a_commit(self) -> list[str]:
        """Cut the connection of a COMMIT, once output is there; the list returned then holds it."""
        lost: list[str] = []

        def lose_one(moment: str, _connection: int) -> Future[bool] | None:
            if moment == "commit-received" and not lost and self.recorder.records:
                lost.append(moment)
                frame: Future[bool] = Future()
                frame.set_result(True)
                return frame
            return None

        self.server.observer = lose_one
        return lost

    def stop(self) -> None:
        """End the log server; its connections end with it."""
        if not self._stopped:
            self._stopped = True
            self.server.close()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_) -> None:
        for client in self._clients:
            client.close()
        self.stop()
        self.recorder.close()


@contextmanager
def serving_numbers(folder: Path):
    """Serve two partitions of 40 numbers each, the second from 1000 on; all published."""
    parts = [partition(folder / "in", 0, p, numbers(RECORDS, 1000 * p)) for p in range(2)]
    with Served(folder, parts, NUMBER.itemsize - 4) as made:
        made.publish()
        yield made


def serving_values(folder: Path, records: int, keys: int, scale: int = 1) -> Served:
    """Serve two partitions of input of count, ``keys`` keys in each, to one output stream."""
    parts = []
    for number in range(2):
        made = new(records, count.VALUE)
        made["key"] = np.arange(records) % keys * 2 + number
        made["value"] = np.arange(records) * scale
        parts.append(partition(folder / "in", 0, number, made))
    return Served(folder, parts, count.POINT.itemsize - 4)
