"""Changes to a copy of a run folder: each makes one defect, or takes one evidence away."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tickproof.conformance.history import seal
from tickproof.conformance.history.json_lines import read_json_lines
from tickproof.conformance.history.outputs import ARRIVAL, UNNUMBERED
from tickproof.conformance.history.rows import FETCH

Tamper = Callable[[Path], None]


def fresh(path: Path) -> Path:
    """Return a path for writing: a copy shares its files with the run until then."""
    path.unlink(missing_ok=True)
    return path


# -- run.json and events.jsonl ---------------------------------------------------------


def unsealed(folder: Path) -> None:
    """Take the seal away, so that other changes can be judged."""
    fresh(folder / seal.FILE_NAME)


def sealed(folder: Path) -> None:
    """Make all digests anew, as somebody would who wants no change to be noticed."""
    seal.write(folder, {})


def run_json(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change run.json in place."""
    path = folder / "run.json"
    data = json.loads(path.read_text("utf-8"))
    change(data)
    fresh(path).write_text(json.dumps(data), "utf-8")


def events(folder: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Replace the events by what ``change`` makes of them."""
    path = folder / "events.jsonl"
    rows = change(read_json_lines(path))
    fresh(path).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def in_run(**fields: Any) -> Tamper:
    """Set keys of run.json; None removes the key."""

    def change(data: dict[str, Any]) -> None:
        data |= fields
        for name in [name for name, value in fields.items() if value is None]:
            del data[name]

    return partial(run_json, change=change)


def engine_failure(folder: Path) -> None:
    """End the run by a failure of the engine."""
    ended = {"how": "engine-failure", "code": "TIMEOUT", "message": "no answer", "stderr": []}
    in_run(ended=ended)(folder)


def without(*kinds: str) -> Tamper:
    """Remove the events of some kinds."""
    return partial(events, change=lambda rows: [r for r in rows if r["event"] not in kinds])


def broken_off(folder: Path) -> None:
    """End the run by a failure of the engine before drain, and before any output."""
    for tamper in (drop_all, without("drained"), engine_failure):
        tamper(folder)


def without_last(kind: str) -> Tamper:
    """Remove the last event of a kind."""

    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        last = max(i for i, row in enumerate(rows) if row["event"] == kind)
        return rows[:last] + rows[last + 1 :]

    return partial(events, change=change)


def added(event: str, **fields: Any) -> Tamper:
    """Add an event at the end."""

    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [*rows, {"t_ns": rows[-1]["t_ns"], "event": event, **fields}]

    return partial(events, change=change)


def refused(code: int, op: str = "FETCH", text: str = "refused") -> Tamper:
    """Add a refusal by the kit."""
    return added("refused", code=code, text=text, op=op, connection=1)


def edited(kind: str, **fields: Any) -> Tamper:
    """Set fields of every event of a kind."""

    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        assert any(row["event"] == kind for row in rows)
        return [row | (fields if row["event"] == kind else {}) for row in rows]

    return partial(events, change=change)


def unread(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let drain be answered with one record of a partition not fetched."""
    (drained,) = (row for row in rows if row["event"] == "drained")
    *others, (*at, fetched, released) = drained["partitions"]
    drained["partitions"] = [*others, [*at, fetched - 1, released]]
    return rows


def fault_offsets(offsets: Callable[[list[int]], tuple[int, int, int]]) -> Tamper:
    """Set (published, fetched, released) of every partition in the fault events."""

    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        assert any(row["event"] == "fault" for row in rows)
        for row in rows:
            if row["event"] == "fault":
                row["partitions"] = [[*p[:3], *offsets(p)] for p in row["partitions"]]
                # Where each record gives one output: it had come for all that was released.
                row["outputs"] = sum(p[5] for p in row["partitions"])
        return rows

    return partial(events, change=change)


def workers_as(role: str) -> Tamper:
    """Let topology call the workers something else, and other processes, unseen, workers."""

    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for row in (row for row in rows if row["event"] == "topology"):
            row["processes"] = [
                one | ({"role": role} if one["role"] == "worker" else {})
                for one in row["processes"]
            ] + [{"pid": 2**22 - 1, "role": "worker", "name": "sleeper"}]
        return rows

    return partial(events, change=change)


def _without_workers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in (row for row in rows if row["event"] == "topology"):
        row["processes"] = [one for one in row["processes"] if one["role"] != "worker"]
    return rows


def _unseen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    assert any(row["event"] == "activity" for row in rows)
    for row in (row for row in rows if row["event"] == "activity"):
        row["used"] = [[number, pids, 0, 0] for number, pids, *_ in row["used"]]
        row["running"] = [[pid, parent, 1_000, name] for pid, parent, _, name in row["running"]]
    return rows


def _idle(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in (row for row in rows if row["event"] == "fault"):
        row["connection"] = 0
    return _unseen(rows)


#: Topology says nothing of those who spoke to the log.
unnamed = partial(events, change=_without_workers)
#: No process was seen to do anything, but a fault came on a connection of one.
all_unseen = partial(events, change=_unseen)
#: No process was seen to do anything.
all_idle = partial(events, change=_idle)


def all_at_once(folder: Path) -> None:
    """Let all output arrive right after the first fault."""
    found = read_json_lines(folder / "events.jsonl")
    log, arrivals = read_output(folder)
    arrivals["t_ns"] = next(row["t_ns"] for row in found if row["event"] == "fault") + 1
    write_output(folder, log, arrivals)


no_fault = without("fault")
nothing_in_flight = fault_offsets(lambda p: (p[3], p[4], p[4]))
none_released = fault_offsets(lambda p: (p[3], p[4], 0))
#: One record in flight in each partition, and none published behind it.
no_backlog = fault_offsets(lambda p: (p[4], p[4], max(p[4] - 1, 0)))
one_left = fault_offsets(lambda p: (p[3], p[2] - 1, p[5]))


# -- the recorded output ------------------------------------------------------------------


def read_output(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the framed records as bytes of shape (records, 4 + size), and the arrivals."""
    data = json.loads((folder / "run.json").read_text("utf-8"))
    app, row = data["scenario"]["app"], data["input"]["partitions"][0]
    sizes = {"double": 8, "count": 24, "market-spread": 48}
    size = sizes.get(app, row["record_size"])
    log = np.fromfile(folder / "output" / "s0.log", np.uint8).reshape(-1, 4 + size)
    return log, np.fromfile(folder / "output" / "s0.arrivals", ARRIVAL)


def write_output(folder: Path, log: np.ndarray, arrivals: np.ndarray) -> None:
    """Write what read_output gave."""
    assert len(log) == arrivals["count"].sum()
    log.tofile(fresh(folder / "output" / "s0.log"))
    arrivals.tofile(fresh(folder / "output" / "s0.arrivals"))


def records(log: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the payloads of framed records as a writable view."""
    return log.reshape(-1).view([("size", "<u4"), ("payload", dtype)])["payload"]


def drop_last(folder: Path) -> None:
    """Lose the last record."""
    log, arrivals = read_output(folder)
    arrivals["count"][-1] -= 1
    write_output(folder, log[:-1].copy(), arrivals[arrivals["count"] > 0])


def drop_writer(folder: Path) -> None:
    """Lose all output of the writer that sent the last record."""
    log, arrivals = read_output(folder)
    kept = arrivals["writer"] != arrivals["writer"][-1]
    rows = np.repeat(kept, arrivals["count"])
    arrivals = arrivals[kept]
    arrivals["index"] = np.cumsum(arrivals["count"]) - arrivals["count"]
    write_output(folder, log[rows], arrivals)


def drop_all(folder: Path) -> None:
    """Lose all output."""
    log, arrivals = read_output(folder)
    write_output(folder, log[:0], arrivals[:0])


def _again(folder: Path, xor: int) -> None:
    log, arrivals = read_output(folder)
    row = arrivals[-1:].copy()
    if row["first_seq"][0] != UNNUMBERED:
        row["first_seq"] += np.uint64(row["count"][0] - 1)
    row["index"], row["count"] = len(log), 1
    more = log[-1:].copy()
    more[0, -1] ^= xor
    write_output(folder, np.concatenate([log, more]), np.concatenate([arrivals, row]))


def again(folder: Path) -> None:
    """Deliver the last record twice, under the same number."""
    _again(folder, 0)


def changed_again(folder: Path) -> None:
    """Deliver another record under the last number."""
    _again(folder, 1)


def alter(at: int = -1, where: int = -1) -> Tamper:
    """Flip the lowest bit of one byte of one record."""

    def change(folder: Path) -> None:
        log, arrivals = read_output(folder)
        log[at, where] ^= 1
        write_output(folder, log, arrivals)

    return change


def invent(folder: Path) -> None:
    """Append a record that nobody sent, where there may be none at all."""
    log, arrivals = read_output(folder)
    record = np.zeros((1, log.shape[1]), np.uint8)
    record[0, :4] = np.array([log.shape[1] - 4], "<u4").view(np.uint8)
    row = np.zeros(1, ARRIVAL)
    row["index"], row["count"], row["first_seq"] = len(log), 1, UNNUMBERED
    write_output(folder, np.concatenate([log, record]), np.concatenate([arrivals, row]))


def gap(folder: Path) -> None:
    """Leave a number out before the last arrival."""
    log, arrivals = read_output(folder)
    assert arrivals["first_seq"][-1] != UNNUMBERED
    arrivals["first_seq"][-1] += 1
    write_output(folder, log, arrivals)


def late(folder: Path) -> None:
    """Let the last output arrive after drain was answered."""
    drained = [r for r in read_json_lines(folder / "events.jsonl") if r["event"] == "drained"]
    log, arrivals = read_output(folder)
    arrivals["t_ns"][-1] = drained[-1]["t_ns"] + 1
    write_output(folder, log, arrivals)


def ahead(folder: Path) -> None:
    """Let all output of the first arrival come before anything was fetched."""
    log, arrivals = read_output(folder)
    arrivals["t_ns"][0] = np.fromfile(folder / "fetches.bin", FETCH)["t_ns"].min() - 1
    write_output(folder, log, arrivals)


def swap_points(folder: Path) -> None:
    """Exchange the places of two points of one key."""
    log, arrivals = read_output(folder)
    order = np.argsort(log[:, 4:12].copy().view("<u8")[:, 0], kind="stable")
    keys = log[order, 4:12].copy().view("<u8")[:, 0]
    pair = order[np.flatnonzero(keys[1:] == keys[:-1])[0] + np.arange(2)]
    log[pair] = log[pair[::-1]]
    write_output(folder, log, arrivals)


def odd_size(folder: Path) -> None:
    """Note output of another size than the app's."""
    added("odd-output", expected=24, count=1, record_size=3, writer=0)(folder)


# -- the input and what was fetched -----------------------------------------------------------


def empty_input(folder: Path) -> None:
    """Let the run have had no input, and no output."""
    drop_all(folder)

    def change(data: dict[str, Any]) -> None:
        for row in data["input"]["partitions"]:
            row["records"] = 0

    run_json(folder, change)


def fetched_again(kind: str) -> Tamper:
    """Fetch every partition from 0 again, right after an event."""

    def change(folder: Path) -> None:
        found = read_json_lines(folder / "events.jsonl")
        event = next(row for row in found if row["event"] == kind)
        more = [(event["t_ns"] + 1, p[0], p[1], 0, p[4]) for p in event["partitions"]]
        path = folder / "fetches.bin"
        rows = np.concatenate([np.fromfile(path, FETCH), np.array(more, FETCH)])
        rows.tofile(fresh(path))

    return change


def no_cut(folder: Path) -> None:
    """Nothing was released before the fault, and everything was fetched again after it."""
    none_released(folder)
    fetched_again("fault")(folder)
