"""The folders of one engine, apart from the run folder: where it works, and what it keeps.

An engine that finds the run folder finds its own output on record there, and its input. So it
works in a private folder of the temporary folder, which is removed with it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PREFIX: Final = "tickproof-"
#: Begins the name of the folder with the workspaces of a user; `sandbox.SHARED` is the same.
_SHARED: Final = f"{PREFIX}engines-"
#: What an engine keeps in this folder of its state is none of its state.
SCRATCH: Final = "scratch"
#: Extensions of files that an engine has not finished, and of what belongs to them (Hadoop's
#: ``.name.tmp.crc``): nobody reads them after a death.
_UNFINISHED: Final = {"tmp", "temp", "part"}
#: Bytes of a folder's path to which the longest name may be added (PATH_MAX, NAME_MAX).
_LONGEST_PATH: Final = 4_096 - 257


class Workspace:
    """Folders of one engine over all its lives, and over all runs that it serves.

    cwd: its working directory, tmp: its TMPDIR, both empty at each start. states: holds the
    state_dir of the run that it serves. Raises OSError where the temporary folder takes none.
    """

    def __init__(self) -> None:
        self.root = _new_root()
        self.cwd, self.tmp, self.states = (self.root / name for name in ("cwd", "tmp", "states"))
        self._state_dir: Path | None = None
        #: Whether a disk serves the folder of states: it holds the folder itself.
        self.served = False
        for folder in self.folders:
            folder.mkdir()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that the engine may write to."""
        return self.cwd, self.tmp, self.states

    def begin_life(self) -> None:
        """Remove what an earlier life left outside of its state, or has not finished there."""
        for folder in (self.cwd, self.tmp):
            remove(folder)
            folder.mkdir(parents=True)  # an engine may have removed all of it
        if self.served:
            self._clear_states()
        else:
            self._renew_states()
        if self._state_dir is not None and not self._state_dir.is_symlink():
            remove(self._state_dir / SCRATCH)
            for parent, below, names in walked(self._state_dir):
                for name in filter(unfinished, names):
                    with contextlib.suppress(OSError):
                        os.unlink(os.path.join(parent, name))  # noqa: PTH108, PTH118 - many files
                for name in below:
                    self._remove_if_too_deep(os.path.join(parent, name))  # noqa: PTH118

    def state_dir(self, run_id: str) -> Path:
        """Return the folder for the state of one run; the state of earlier runs goes."""
        self._state_dir = self.states / run_id
        self._clear_states()
        if not self._state_dir.is_dir() or self._state_dir.is_symlink():
            remove(self._state_dir)  # an engine may have put something else there
        self._state_dir.mkdir(parents=True, exist_ok=True)
        return self._state_dir

    def kept(self) -> tuple[int, int]:
        """Return bytes and number of the files in the state_dir: none before there is one."""
        return (0, 0) if self._state_dir is None else folder_size(self._state_dir)

    def _renew_states(self) -> None:
        """Make the folder of states anew, for it has times, modes and attributes, too."""
        kept = self.root / "kept"
        remove(kept)
        kept.mkdir()
        if self._state_dir is not None:
            with contextlib.suppress(OSError):  # the engine may have removed it
                self._state_dir.rename(kept / self._state_dir.name)
        remove(self.states)
        kept.rename(self.states)

    def _remove_if_too_deep(self, folder: str) -> None:
        """Remove a folder that `walked` leaves out: no fault would meet what lies in there."""
        if _too_long(folder):
            with contextlib.suppress(OSError):
                remove(Path(folder).rename(self.states / f".{secrets.token_hex(8)}"))

    def _clear_states(self) -> None:
        """Remove all that lies beside the current state_dir."""
        with contextlib.suppress(FileNotFoundError):
            for path in self.states.iterdir():
                if path != self._state_dir:
                    remove(path)

    def remove(self) -> None:
        """Remove all of it; may be called again."""
        remove_root(self.root)


def _new_root() -> Path:
    """Make the folder of a workspace, in one that a sandbox hides: others of this user are there.

    Without such a folder (it is another's) it stands in the temporary folder itself.
    """
    place = Path(tempfile.gettempdir()).resolve() / f"{_SHARED}{os.geteuid()}"
    while True:
        try:
            place.mkdir(mode=0o711, exist_ok=True)
            facts = place.lstat()
            mine = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()
            parent = place if mine and not facts.st_mode & 0o022 else place.parent
            if parent == place:
                place.chmod(0o711)  # whatever the umask: another user may have a workspace there
            return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        except FileNotFoundError:
            continue  # the last workspace in there has just been removed
        except FileExistsError:  # a file, or a link to nothing
            return Path(tempfile.mkdtemp(prefix=PREFIX, dir=place.parent))


def remove_root(root: Path) -> None:
    """Remove the folder of a workspace, and the one around it if it was the last there."""
    remove(root)
    if root.parent.name.startswith(_SHARED):
        with contextlib.suppress(OSError):
            root.parent.rmdir()


def unfinished(name: str) -> bool:
    """Tell whether a file of a name is none of the state, as it is not finished."""
    return not _UNFINISHED.isdisjoint(name.split(".")[1:])


def walked(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk a folder that is an engine's own, as os.walk does from the top, however deep it is.

    No link is followed, at the top neither. What cannot be read is left out, and what has too long
    a path for the system. Folders that the caller removes from the second list are skipped.
    """
    waiting = [] if folder.is_symlink() else [str(folder)]
    while waiting:
        path = waiting.pop()
        if _too_long(path):
            continue
        folders, names = list[str](), list[str]()
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                (folders if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
        yield path, folders, names
        waiting += [os.path.join(path, name) for name in folders]  # noqa: PTH118


def _too_long(folder: str) -> bool:
    return len(os.fsencode(folder)) > _LONGEST_PATH


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
    """Remove a file or folder that an engine left, whatever modes it gave; follows no link.

    What lies deep is moved up first, so that neither a path nor the stack grows with the depth.
    What cannot be removed is left behind.
    """
    if not path.is_dir() or path.is_symlink():
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
        return
    moved = (path / f".{secrets.token_hex(8)}" for _ in itertools.count())
    waiting, emptied = [path], list[Path]()
    while waiting:
        emptied.append(folder := waiting.pop())
        with contextlib.suppress(OSError):
            folder.chmod(stat.S_IRWXU)
            for entry in list(folder.iterdir()):
                with contextlib.suppress(OSError):
                    if entry.is_symlink() or not entry.is_dir():
                        entry.unlink()
                        continue
                    entry.chmod(stat.S_IRWXU)  # or it could not be moved
                    waiting.append(entry.rename(next(moved)))
    for folder in reversed(emptied):
        with contextlib.suppress(OSError):
            folder.rmdir()
