"""The folders of one engine, apart from the run folder: where it works, and what it keeps.

An engine that finds the run folder finds its own output on record there, and its input. So it
works in a private folder of the temporary folder, which is removed with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

PREFIX: Final = "tickproof-"


class Workspace:
    """Folders of one engine over all its lives, and over all runs that it serves.

    cwd: its working directory, tmp: its TMPDIR, both empty at each start. states: holds the
    state_dir of the run that it serves. Raises OSError where the temporary folder takes none.
    """

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        self.cwd, self.tmp, self.states = (self.root / name for name in ("cwd", "tmp", "states"))
        self._state_dir: Path | None = None
        for folder in self.folders:
            folder.mkdir()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that the engine may write to."""
        return self.cwd, self.tmp, self.states

    def begin_life(self) -> None:
        """Empty what an earlier life left outside of its state."""
        for folder in (self.cwd, self.tmp):
            remove(folder)
            folder.mkdir(parents=True)  # an engine may have removed all of it
        self.states.mkdir(exist_ok=True)
        self._clear_states()

    def state_dir(self, run_id: str) -> Path:
        """Return the folder for the state of one run; the state of earlier runs goes."""
        self._state_dir = self.states / run_id
        self._clear_states()
        if self._state_dir.is_symlink():
            self._state_dir.unlink()  # an engine may have put it there
        self._state_dir.mkdir(parents=True, exist_ok=True)
        return self._state_dir

    def _clear_states(self) -> None:
        """Remove all that lies beside the current state_dir."""
        with contextlib.suppress(FileNotFoundError):
            for path in self.states.iterdir():
                if path != self._state_dir:
                    remove(path)

    def remove(self) -> None:
        """Remove all of it; may be called again."""
        remove(self.root)


def walked(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk a folder that is an engine's own; no link is followed, at the top neither."""
    return iter(()) if folder.is_symlink() else os.walk(folder)


def folder_size(folder: Path) -> tuple[int, int]:
    """Return bytes and number of the files below a folder that may change meanwhile."""
    size = files = 0
    for path, _, names in walked(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size += os.lstat(os.path.join(path, name)).st_size  # noqa: PTH118
                files += 1
    return size, files


def remove(path: Path) -> None:
    """Remove a file or folder that an engine left, whatever modes it gave; follows no link."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    shutil.rmtree(path, onerror=_open_up)


def _open_up(function: Callable[..., Any], path: str, _error: Any) -> None:
    """Try again with a folder that may be written and searched; what stays is left behind."""
    with contextlib.suppress(OSError):
        for folder in (os.path.dirname(path), path):  # noqa: PTH120
            if stat.S_ISDIR(os.lstat(folder).st_mode):
                os.chmod(folder, stat.S_IRWXU)  # noqa: PTH101
        if function in (os.unlink, os.rmdir):
            function(path)
        else:
            shutil.rmtree(path, ignore_errors=True)
