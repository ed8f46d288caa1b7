"""Run folders made by hand: a recipe, a timetable, and what an imagined engine did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tickproof import generators
from tickproof.conformance.history.folder import History, recorded_files, write_json
from tickproof.conformance.history.input_replay import save_plan
from tickproof.conformance.history.outputs import ARRIVAL, UNNUMBERED
from tickproof.conformance.history.rows import FETCH, RELEASE
from tickproof.generators.layouts import framed

T0 = 5_000_000_000
TICK = 1_000_000


def make_run(
    folder: Path,
    recipe: dict[str, Any],
    app: str = "passthrough",
    params: dict[str, str] | None = None,
    *,
    ticks: int | None = None,
) -> History:
    """Write input, plan, run.json and ticks.bin; ``ticks``: how many were published (all)."""
    built = generators.build(recipe, folder / "input")
    save_plan(built, folder / "input")
    count = len(built.plan) - 1
    published = np.arange(count if ticks is None else ticks) * TICK + T0 + 70_000
    (folder / "ticks.bin").write_bytes(published.astype("<i8").tobytes())
    write_json(folder / "run.json", {
        "format": 1,
        "scenario": {"name": "made", "app": app, "params": params or {}},
        "claims": {}, "engine": {},
        "pace": {"t0_ns": T0, "tick_ns": TICK, "ticks": count},
        "input": {
            "recipe": built.recipe, "warnings": {}, "symbols": {},
            "partitions": [
                {"stream": p.stream, "partition": p.partition, "file": f"input/{p.path.name}",
                 "record_size": p.record_size, "records": p.records, "sha256": p.sha256}
                for p in built.partitions
            ],
        },
    })  # fmt: skip
    (folder / "output").mkdir()
    record(folder, np.empty(0, "V8"), [])
    return History(folder)


def record(
    folder: Path, payloads: np.ndarray, t_ns: Sequence[int], batches: Sequence[int] | None = None
) -> None:
    """Write outputs; each batch (of one record) arrives at its ``t_ns``."""
    sizes = np.ones(len(payloads), int) if batches is None else np.array(batches, int)
    framed_records = np.zeros(len(payloads), framed(payloads.dtype))
    framed_records["size"], framed_records["payload"] = payloads.itemsize, payloads
    (folder / "output" / "s0.log").write_bytes(framed_records.tobytes())
    rows = np.zeros(len(sizes), ARRIVAL)
    rows["t_ns"], rows["count"], rows["first_seq"] = t_ns, sizes, UNNUMBERED
    rows["index"] = np.cumsum(sizes) - sizes
    (folder / "output" / "s0.arrivals").write_bytes(rows.tobytes())


def record_fetches(folder: Path, rows: Sequence[tuple[int, int, int, int, int]]) -> None:
    """Write fetches.bin: rows of t_ns, stream, partition, base, end."""
    (folder / "fetches.bin").write_bytes(np.array(rows, FETCH).tobytes())


def record_releases(folder: Path, rows: Sequence[tuple[int, int, int, int]]) -> None:
    """Write releases.bin: rows of t_ns, stream, partition, offset."""
    (folder / "releases.bin").write_bytes(np.array(rows, RELEASE).tobytes())


def is_whole(history: History) -> bool:
    """Say whether the folder opens again as a run that was recorded whole."""
    run = history.run | {"files": recorded_files(history.folder)}
    write_json(history.folder / "run.json", run)
    return History(history.folder).run == run
