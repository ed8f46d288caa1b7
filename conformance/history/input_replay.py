"""The input of a recorded run, once more: the same bytes, or a clear word why not."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import plain_files
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.remade_input import remade
from tickproof.conformance.history.run_record import RunRecord
from tickproof.generators.partitions import BuiltInput, PartitionFile

#: Beside the partitions: BuiltInput.plan, which cannot be told from the partitions.
PLAN: Final = "plan.npy"
_CHUNK: Final = 1 << 20

InputMaker = Callable[[Path], BuiltInput]


def save_plan(built: BuiltInput, folder: Path) -> None:
    """Write the publication plan beside the partitions in ``folder``; raises OSError."""
    np.save(folder / PLAN, built.plan, allow_pickle=False)


def input_facts(built: BuiltInput) -> dict[str, Any]:
    """Return what run.json says of an input that lies in the run's folder ``input``."""
    return {
        "recipe": built.recipe,
        "warnings": built.warnings,
        "symbols": built.symbols,
        "partitions": [
            {
                "stream": p.stream,
                "partition": p.partition,
                "file": f"input/{p.path.name}",
                "record_size": p.record_size,
                "records": p.records,
                "sha256": p.sha256,
            }
            for p in built.partitions
        ],
    }


def recorded_plan(history: History) -> np.ndarray:
    """Return the publication plan of a run: uint64 (ticks + 1, partitions).

    An input that was tidied away is made again in its place. Raises HistoryError.
    """
    folder = history.folder / "input"
    rows = history.partitions
    if not (folder / PLAN).is_file():
        tidied = not any((history.folder / row.file).exists() for row in rows)
        try:
            save_plan(_made(history.record, folder), folder)
        except HistoryError:
            if tidied:
                shutil.rmtree(folder, ignore_errors=True)  # not to be taken for the run's own
            raise
    return _plan(history.folder, [row.records for row in rows])


def same_input(run_folder: Path, run: RunRecord) -> InputMaker:
    """Return what writes the input of a run into a folder of another one.

    ``run`` is the record of the run. Kept files are copied; otherwise the input is made again
    from its recipe. The maker raises HistoryError where the bytes are not those of the run.
    """

    def make(folder: Path) -> BuiltInput:
        rows = run.input.partitions
        kept = (f"input/{PLAN}", *(row.file for row in rows))
        if all((run_folder / name).is_file() for name in kept):
            return _copied(run, run_folder, folder)
        return _made(run, folder)

    return make


def _made(run: RunRecord, folder: Path) -> BuiltInput:
    try:
        built = remade(run.input, folder)
    except (ValueError, OSError) as error:
        raise HistoryError(f"the input cannot be made again: {error}") from error
    _expect_same(run, {(p.stream, p.partition): p.sha256 for p in built.partitions})
    return built


def _copied(run: RunRecord, run_folder: Path, folder: Path) -> BuiltInput:
    folder.mkdir(parents=True)
    parts = []
    for row in run.input.partitions:
        target = folder / Path(row.file).name
        with plain_files.opened(run_folder, row.file) as kept, target.open("xb") as copy:
            shutil.copyfileobj(kept, copy, _CHUNK)
        with target.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        parts.append(
            PartitionFile(row.stream, row.partition, target, row.record_size, row.records, digest)
        )
    _expect_same(run, {(p.stream, p.partition): p.sha256 for p in parts})
    return BuiltInput(
        tuple(parts),
        _plan(run_folder, [p.records for p in parts]),
        run.input.recipe,
        run.input.warnings,
        run.input.symbols,
    )


def _expect_same(run: RunRecord, digests: Mapping[tuple[int, int], str]) -> None:
    """Expect each partition to have the hash that run.json names."""
    for row in run.input.partitions:
        if digests.get((row.stream, row.partition)) != row.sha256:
            raise HistoryError(
                f"{row.file}: made again, it has other bytes than in the run, which was "
                f"recorded by tickproof {run.kit}"
            )


def _plan(run_folder: Path, records: list[int]) -> np.ndarray:
    """Return a kept publication plan: cumulative from nothing to all records."""
    name = f"input/{PLAN}"
    expected = f"{run_folder / name}: expected a publication plan for {len(records)} partitions"
    try:
        with plain_files.opened(run_folder, name) as file:
            plan = np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise HistoryError(f"{expected}: {error}") from error
    fits = plan.dtype == np.uint64 and plan.ndim == 2 and plan.shape[1:] == (len(records),)
    if not fits or len(plan) == 0 or plan[0].any() or plan[-1].tolist() != records:
        raise HistoryError(f"{expected}, from 0 to {records}")
    if (plan[1:] < plan[:-1]).any():
        raise HistoryError(f"{expected} that never goes back")
    return plan
