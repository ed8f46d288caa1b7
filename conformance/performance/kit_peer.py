"""The other end of `tickproof bench kit`: a process that reads, or writes, or answers.

Run as ``python -m tickproof.conformance.performance.kit_peer ROLE HOST PORT TOKEN ...``; it prints
one JSON object with what it did and in how many seconds. It speaks to the log server as the
null engine does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from tickproof.conformance.checkers.expected import merged_verdicts
from tickproof.fixtures.floor.client import Reader, Writer, connect
from tickproof.generators.layouts import MESSAGE, VERDICT, framed, in_frames

_APPEND_RECORDS: Final = 20_000
#: APPEND frames under way before the first answer is awaited.
_WINDOW: Final = 4


def read(reader: Reader) -> int:
    """Fetch partition 0 of stream 0 to its END and throw it away; return the records read."""
    while not reader.ended:
        reader.ask()
        reader.receive()
    return reader.offset


def write(writer: Writer, outputs: Iterator[np.ndarray]) -> int:
    """Send framed outputs, an APPEND for each array, and await all answers; return their number."""
    sent = 0
    for records in outputs:
        writer.add(records.view(np.uint8).data, len(records))
        writer.flush()
        sent += len(records)
        while writer.open >= _WINDOW:
            writer.receive()
    while writer.open:
        writer.receive()
    return sent


def zeros(count: int) -> Iterator[np.ndarray]:
    """Yield that many outputs of 48 bytes, in large pieces."""
    records = in_frames(np.zeros(_APPEND_RECORDS, VERDICT))
    for start in range(0, count, _APPEND_RECORDS):
        yield records[: count - start]


def verdicts(path: Path) -> Iterator[np.ndarray]:
    """Yield the right answer to every order of a merged market."""
    messages = np.memmap(path, framed(MESSAGE), "r")["payload"]
    for _, rows in merged_verdicts([messages]):
        yield in_frames(rows.view(VERDICT))


def main(role: str, host: str, port: str, token: str, what: str = "") -> None:
    """Play one role and print what was done."""
    server = host, int(port), bytes.fromhex(token)
    reader, writer = Reader(connect(*server)), Writer(connect(*server), next_seq=0)
    started = time.perf_counter()
    if role == "read":
        done = read(reader)
    elif role == "write":
        done = write(writer, zeros(int(what)))
    else:
        done = read(reader)
        write(writer, verdicts(Path(what)))
    print(json.dumps({"records": done, "seconds": time.perf_counter() - started}))


if __name__ == "__main__":
    main(*sys.argv[1:])
