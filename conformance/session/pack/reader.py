"""Opening a run: its folder, or a pack of it, unpacked for as long as it is open."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import job_run, plain_files, run_record, seal
from tickproof.conformance.history.json_lines import loads
from tickproof.conformance.history.remade_input import belied
from tickproof.conformance.session.pack.archive import MAX_BYTES, PackError, unpack


@contextmanager
def opened_run(path: Path) -> Iterator[Path]:
    """Give the folder of a run: ``path`` itself, or where the pack ``path`` was unpacked.

    An unpacked folder is removed afterwards. Raises PackError (a HistoryError) for a file that
    is not a pack, is damaged, or has a run.json or job-run.json that no run of the kit could have
    written.
    """
    if path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="tickproof-") as temporary:
        folder = Path(temporary).resolve()
        members = unpack(path, folder)
        _check_run(path, folder, members)
        # The manifest of an earlier version had the digests; runs of jobs have none.
        if not {seal.FILE_NAME, job_run.FILE} & set(members):
            seal.write(folder, {})
        with naming(path, folder):
            yield folder


@contextmanager
def naming(path: Path | str, copy: Path) -> Iterator[None]:
    """Name ``path``, or a URI, in what is raised about a copy of it that nobody has seen."""
    try:
        yield
    except HistoryError as error:
        raise HistoryError(str(error).replace(str(copy), str(path))) from error


def _check_run(path: Path, folder: Path, members: Collection[str]) -> None:
    """Refuse a run.json that names files outside its folder or would generate too much input."""
    if job_run.FILE in members:
        job_run.read(folder)
        return
    if "run.json" not in members:
        raise PackError(f"{path}: no run.json; expected the pack of a run")
    try:
        run = run_record.read(path, loads(plain_files.read_document(folder, "run.json")))
        rows, wrong = run.input.partitions, belied(run.input)
        files = [row.file for row in rows]
        size = sum(row.records * (4 + row.record_size) for row in rows)
        kind = run.input.recipe["kind"]
    except HistoryError as error:
        raise PackError(f"{error}; expected the record of a run") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise PackError(f"{path}: run.json: expected the record of a run: {error!r}") from error
    if size > MAX_BYTES or wrong:
        raise PackError(
            f"{path}: run.json: input: the recipe makes more than its partitions hold, or too much"
        )
    if kind in ("market-csv", "keyed-csv") and not set(files) <= set(members):
        raise PackError(f"{path}: the input of a recorded market is not in the pack")
