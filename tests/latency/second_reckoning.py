"""Latencies reckoned a second time: from the files of a run folder, without the kit.

Pure Python, record by record, with dictionaries; docs/architecture.md says how the files
are laid out, docs/protocol.md how records are. Slow on purpose: it is evidence, not a tool.
"""

from __future__ import annotations

import ast
import json
import struct
from collections import defaultdict, deque
from pathlib import Path
from typing import NamedTuple

ARRIVAL = struct.Struct("<qQQQIIQB")
FETCH = struct.Struct("<qHHQQ")


class Row(NamedTuple):
    """One measured record; times in ns, -1: never."""

    intended: int
    published: int
    fetched: int
    arrived: int
    tagged: bool


class Place(NamedTuple):
    tick: int
    stream: int
    partition: int
    offset: int


def reckon(folder: Path) -> list[Row]:
    """Return the measured records, by tick, stream, partition and offset."""
    run = json.loads((folder / "run.json").read_text())
    app, params = run["scenario"]["app"], run["scenario"]["params"]
    records = published_records(folder, run)
    came = outputs(folder)
    if app == "market-spread":
        arrived = market(records, came, params)
    elif app == "count":
        arrived = count(records, came, params["emit"])
    else:
        arrived = by_value(records, came, doubling=app == "double")
    ticks = [t for (t,) in struct.iter_unpack("<q", (folder / "ticks.bin").read_bytes())]
    fetched = first_fetches(folder)
    rows = []
    for place in sorted(arrived):
        time, tagged = arrived[place]
        pace = run["pace"]
        rows.append(
            Row(
                pace["t0_ns"] + place.tick * pace["tick_ns"],
                ticks[place.tick] if place.tick < len(ticks) else -1,
                fetched.get((place.stream, place.partition, place.offset), -1),
                time,
                tagged,
            )
        )
    return rows


def npy(path: Path) -> list[tuple[int, ...]]:
    """Return the rows of a .npy file of u64 in two dimensions, in C or Fortran order."""
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    (length,) = struct.unpack_from("<H", data, 8)
    header = ast.literal_eval(data[10 : 10 + length].decode())
    assert header["descr"] == "<u8"
    height, width = header["shape"]
    flat = [value for (value,) in struct.iter_unpack("<Q", data[10 + length :])]
    if header["fortran_order"]:
        return [tuple(flat[row::height]) for row in range(height)]
    return [tuple(flat[row * width : (row + 1) * width]) for row in range(height)]


def published_records(folder: Path, run: dict) -> dict[Place, bytes]:
    """Return every record of the input by the tick with which it is due, and its place."""
    plan = npy(folder / "input" / "plan.npy")
    found = {}
    for column, part in enumerate(run["input"]["partitions"]):
        payloads = framed((folder / part["file"]).read_bytes())
        tick = 0
        for offset, payload in enumerate(payloads):
            while plan[tick + 1][column] <= offset:
                tick += 1
            found[Place(tick, part["stream"], part["partition"], offset)] = payload
    return found


def framed(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return found


def outputs(folder: Path) -> list[tuple[int, bytes]]:
    """Return the outputs with their times, in order of arrival."""
    payloads = framed((folder / "output" / "s0.log").read_bytes())
    found = []
    for row in ARRIVAL.iter_unpack((folder / "output" / "s0.arrivals").read_bytes()):
        t_ns, _, _, index, number, *_ = row
        found += [(t_ns, payload) for payload in payloads[index : index + number]]
    return found


def first_fetches(folder: Path) -> dict[tuple[int, int, int], int]:
    found: dict[tuple[int, int, int], int] = {}
    path = folder / "fetches.bin"
    if path.exists():
        for t_ns, stream, partition, base, end in FETCH.iter_unpack(path.read_bytes()):
            for offset in range(base, end):
                found.setdefault((stream, partition, offset), t_ns)
    return found


def by_value(
    records: dict[Place, bytes], came: list[tuple[int, bytes]], *, doubling: bool
) -> dict[Place, tuple[int, bool]]:
    """The k-th record of a value is answered by the k-th output of that value, or of its double."""
    times: dict[bytes, deque[int]] = defaultdict(deque)
    for t_ns, payload in came:
        times[payload].append(t_ns)
    found = {}
    # Of equal doubles, the one that stands first in its partition, and in the lower one.
    for place in sorted(records, key=lambda p: (p.partition, p.offset)):
        wanted = records[place]
        if doubling:
            (x,) = struct.unpack("<q", wanted)
            wanted = struct.pack("<Q", 2 * x % 2**64)
        queue = times[wanted]
        found[place] = (queue.popleft() if queue else -1, False)
    return found


def count(
    records: dict[Place, bytes], came: list[tuple[int, bytes]], emit: str
) -> dict[Place, tuple[int, bool]]:
    inputs: dict[int, list[Place]] = defaultdict(list)
    for place in sorted(records, key=lambda p: (p.partition, p.offset)):
        inputs[struct.unpack("<Qq", records[place])[0]].append(place)
    found = {place: (-1, False) for place in records}
    for t_ns, payload in came:
        key, n, _ = struct.unpack("<QQq", payload)
        if not 1 <= n <= len(inputs.get(key, ())):
            continue
        for place in inputs[key][:n] if emit == "some" else inputs[key][n - 1 : n]:
            if found[place][0] < 0:
                found[place] = (t_ns, False)
    return found


def market(
    records: dict[Place, bytes], came: list[tuple[int, bytes]], params: dict[str, str]
) -> dict[Place, tuple[int, bool]]:
    first: dict[int, int] = {}
    for t_ns, payload in came:
        first.setdefault(struct.unpack_from("<Q", payload)[0], t_ns)
    latest: dict[tuple[int, bytes], tuple[int, int]] = {}
    found = {}
    for place in sorted(records, key=lambda p: (p.partition, p.offset)):
        payload = records[place]
        symbol = payload[4:12]
        if payload[0] == 2:
            latest[place.partition, symbol] = struct.unpack_from("<qq", payload, 28)
            continue
        (order_id,) = struct.unpack_from("<Q", payload, 12)
        (tag,) = struct.unpack_from("<Q", payload, 44)
        probe = tag >> 63 == 1
        bid, offer = latest.get((place.partition, symbol), (0, 0))
        rejected = offer - bid >= 500 or 40 * (offer - bid) >= bid + offer
        if params["emit"] == "rejects":
            measured = rejected if params["inputs"] == "merged" else probe
        else:
            measured = True
        if measured:
            found[place] = (first.get(order_id, -1), probe)
    return found
