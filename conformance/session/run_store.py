"""The run folders below a folder: what each is, how large, how old, how it came out.

Nothing is trusted that is read here: a folder counts as a run if its run.json or job-run.json says
so, and no link is followed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.errors import HistoryError, RequestError
from tickproof.conformance.history import job_run, plain_files
from tickproof.conformance.history.folder import write_json
from tickproof.conformance.history.json_lines import loads
from tickproof.conformance.report.document import PAGE_NAME
from tickproof.conformance.report.json_report import FILE_NAME as REPORT
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Verdict, worst

RUN: Final = "run.json"
TAGS: Final = "tags.json"
#: A run without an end that was written to so recently may still go on.
FRESH_S: Final = 600.0
#: So deep below the folder that is asked for a run may lie.
DEPTH: Final = 8
_TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_LIMIT: Final = 16 << 20
_NAME: Final = 60


@dataclass(frozen=True)
class StoredRun:
    """A run folder. verdict: the worst of those decided from it, None where none was.

    began: when, in seconds since 1970, 0 where it does not say; ended: it has an end.
    written: when a file of it was written last. report: of its session, None without one.
    """

    folder: Path
    engine: str
    scenario: str
    seed: int
    verdict: Verdict | None
    began: float
    ended: bool
    written: float
    bytes: int
    tags: tuple[str, ...]
    report: Path | None

    @property
    def under_way(self) -> bool:
        """True if it may still be written."""
        return not self.ended and time.time() - self.written < FRESH_S


def runs(below: Path) -> list[StoredRun]:
    """Return the runs in a folder, oldest first; raises RequestError where it is none."""
    if not below.is_dir():
        raise RequestError(f"FOLDER: {below}: expected a folder")
    found = [_stored(folder) for folder in _folders(below, DEPTH)]
    return sorted(filter(None, found), key=lambda run: (run.began, str(run.folder)))


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the folders with the record of a run; what lies in a run is part of it."""
    try:
        inner = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    if any(entry.name in (RUN, job_run.FILE) for entry in inner):
        yield folder
    elif depth:
        for entry in inner:
            if entry.is_dir(follow_symlinks=False):
                yield from _folders(Path(entry.path), depth - 1)


def _stored(folder: Path) -> StoredRun | None:
    """Return a run; None where its record is none of the kit's."""
    try:
        of_job = job_run.is_one(folder)
        engine, scenario, seed, began, ended = (_of_job if of_job else _of_engine)(folder)
    except (OSError, HistoryError, KeyError, TypeError, ValueError, OverflowError):
        return None
    held = list(_held(folder))
    return StoredRun(
        folder,
        shown(str(engine), _NAME),
        shown(str(scenario), _NAME),
        seed,
        _verdict(folder),
        began,
        ended,
        max(one.st_mtime for one in held),
        sum(one.st_size for one in held),
        tags(folder),
        _report(folder),
    )


def _of_engine(folder: Path) -> tuple[str, str, int, float, bool]:
    """Return engine, scenario, seed, when it began, and whether it has an end."""
    record = loads(plain_files.read_bytes(folder, RUN, _LIMIT))
    engine, scenario = record["engine"]["name"], record["scenario"]["name"]
    began, ended = float(record.get("started", 0.0)), isinstance(record.get("ended"), dict)
    return engine, scenario, int(record["seed"]), began, ended


def _of_job(folder: Path) -> tuple[str, str, int, float, bool]:
    """Return the same of the run of a job, whose record is written at its end."""
    run = job_run.read(folder)
    return run.job_name, run.name, run.seed, run.started, True


def _held(folder: Path) -> Iterator[os.stat_result]:
    """Yield what is known of each file, of the links themselves and not of where they lead."""
    yield folder.lstat()
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _held(Path(entry.path))
        else:
            with contextlib.suppress(FileNotFoundError):
                yield entry.stat(follow_symlinks=False)


def _verdict(folder: Path) -> Verdict | None:
    rows = _read(folder, "verdict.json")
    with contextlib.suppress(TypeError, KeyError, ValueError):
        found = [Verdict(row["verdict"]) for row in rows]
        return worst(found) if found else None
    return None


def _report(folder: Path) -> Path | None:
    """Return the report of the session that a run belongs to: the page, or else the JSON."""
    for parent in list(folder.parents)[:4]:
        for name in (PAGE_NAME, REPORT):
            if (parent / name).is_file():
                return parent / name
    return None


def tags(folder: Path) -> tuple[str, ...]:
    """Return the tags of a run; none where they cannot be read."""
    found = _read(folder, TAGS)
    if not isinstance(found, list):
        return ()
    return tuple(one for one in found if isinstance(one, str) and _TAG.fullmatch(one))


def _read(folder: Path, name: str) -> Any:
    try:
        return loads(plain_files.read_bytes(folder, name, _LIMIT))
    except (OSError, HistoryError, ValueError):
        return []


def tag(folder: Path, add: Collection[str] = (), remove: Collection[str] = ()) -> tuple[str, ...]:
    """Change the tags of a run; returns what it has then. Raises RequestError, OSError."""
    for one in add:
        if not _TAG.fullmatch(one):
            raise RequestError(
                f"TAG: expected up to 40 letters, digits, '.', '_', '-'; got {shown(one, 60)}"
            )
    wanted = tuple(sorted({*tags(folder), *add} - {*remove}))
    path = folder / TAGS
    if wanted:
        write_json(path, list(wanted))
    else:
        path.unlink(missing_ok=True)
    return wanted


def holds_tagged(folder: Path) -> bool:
    """Tell whether a run below a folder has a tag."""
    return any(tags(one) for one in _folders(folder, DEPTH))


def to_prune(
    found: Sequence[StoredRun],
    *,
    older_s: float | None,
    keep_bytes: int | None,
    verdicts: Collection[Verdict | None] | None,
) -> list[StoredRun]:
    """Return which runs to remove: all that are older, and the oldest beyond a size.

    older_s: in seconds. keep_bytes: of all runs together. verdicts: only such, None: any.
    What has a tag, or may still be written, is never removed, but counts.
    """
    free = [
        run
        for run in found
        if not run.tags and not run.under_way and (verdicts is None or run.verdict in verdicts)
    ]
    chosen: list[StoredRun] = []
    if older_s is not None:
        limit = time.time() - older_s
        chosen = [run for run in free if run.written < limit]
    if keep_bytes is not None:
        left = sum(run.bytes for run in found) - sum(run.bytes for run in chosen)
        for run in free:
            if left <= keep_bytes:
                break
            if run not in chosen:
                chosen.append(run)
                left -= run.bytes
    return chosen


def remove(run: StoredRun, below: Path) -> None:
    """Remove a run folder, and that of its session where it is empty then; raises OSError."""
    if not stat.S_ISDIR(run.folder.lstat().st_mode):
        raise NotADirectoryError(f"{run.folder}: expected a folder")
    shutil.rmtree(run.folder)
    if run.folder.parent != below:
        with contextlib.suppress(OSError):  # others lie beside it
            run.folder.parent.rmdir()
