"""Reads the log of the newest session below a folder, as it grows."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tickproof.conformance.history.json_lines import Tail, loads
from tickproof.conformance.report.session_log import FILE_NAME


class Follower:
    """Gives the events of a session that were written since the last look.

    folder: of an engine, or that above some. What is no line of JSON is passed over.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._path: Path | None = None
        self._tail: Tail | None = None

    @property
    def session(self) -> Path | None:
        """The folder of the engine whose session is followed, None before there is one."""
        return self._path.parent if self._path is not None else None

    def new(self) -> Iterator[tuple[bool, list[dict[str, Any]]]]:
        """Yield (whether another session began, its events), until there is no more."""
        began = self._look()
        for lines in self._tail or ():
            yield began, [row for line in lines if (row := _row(line)) is not None]
            began = False
        if began:
            yield True, []

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def _look(self) -> bool:
        """Open the newest log, if it is not the one that is open; tell whether it was not."""
        found = [self._folder / FILE_NAME, *sorted(self._folder.glob(f"*/{FILE_NAME}"))]
        newest: Path | None = None
        its: os.stat_result | None = None
        for path in found:
            try:
                facts = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(facts.st_mode) and (its is None or facts.st_mtime >= its.st_mtime):
                newest, its = path, facts
        if newest is None or its is None or self._is_open(its):
            return False
        try:
            descriptor = os.open(newest, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        self.close()
        self._file, self._path = os.fdopen(descriptor, "rb"), newest
        self._tail = Tail(self._file)
        return True

    def _is_open(self, facts: os.stat_result) -> bool:
        if self._file is None:
            return False
        mine = os.fstat(self._file.fileno())
        return (mine.st_dev, mine.st_ino) == (facts.st_dev, facts.st_ino)


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("event"), str) else None
