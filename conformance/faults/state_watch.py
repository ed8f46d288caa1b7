"""Sees what happens to files in the folder of an engine's state."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from inotify_simple import Event, INotify, flags

from tickproof.conformance.engines.disk import Hold
from tickproof.conformance.engines.workspace import SCRATCH, walked
from tickproof.conformance.text import shown

#: How folders come, which have to be watched, too.
_NEW: Final = flags.CREATE | flags.MOVED_TO
#: Folders watched at most: an engine may make any number of them.
_MOST_FOLDERS: Final = 4_096


class StateWatch(contextlib.ExitStack):
    """Watches a folder and all below it, without its ``scratch``, for some events of inotify.

    Raises OSError: no watch left.
    """

    def __init__(self, folder: Path, events: int) -> None:
        super().__init__()
        self._events = events
        self._inotify = self.enter_context(INotify())
        self._top = str(folder)
        self._folders: dict[int, str] = {}
        self._add(self._top)

    def wait(self, timeout_s: float) -> str:
        """Return the next file that has such an event; "" if none has in time."""
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            for path in self._named(self._inotify.read(timeout=max(1, int(left_s * 1000)))):
                return shown(os.path.relpath(path, self._top), 300)
        return ""

    def _named(self, events: list[Event]) -> Iterator[str]:
        for event in events:
            parent = self._folders.get(event.wd)
            if parent is None or (parent == self._top and event.name == SCRATCH):
                continue
            path = os.path.join(parent, event.name)  # noqa: PTH118 - as below
            if not event.mask & flags.ISDIR:
                if event.mask & self._events:
                    yield path
            elif event.mask & _NEW and (inside := self._add(path)) and self._events & _NEW:
                yield inside  # it came before the folder was watched

    def _add(self, top: str) -> str:
        """Watch a folder and those below it; return a file that is there already."""
        found = ""
        for parent, below, names in walked(Path(top)):
            if parent == self._top and SCRATCH in below:
                below.remove(SCRATCH)
            if len(self._folders) >= _MOST_FOLDERS:
                break
            # An engine may have removed it again.
            with contextlib.suppress(FileNotFoundError):
                watch = self._inotify.add_watch(
                    parent, self._events | _NEW | flags.ONLYDIR | flags.DONT_FOLLOW
                )
                self._folders[watch] = parent
            if names and not found:
                found = os.path.join(parent, names[0])  # noqa: PTH118 - many files
        return found


def await_event(watch: Callable[[], StateWatch | Hold], timeout_s: float) -> str:
    """Return the file of the state that has an event now; raises LookupError: none has.

    watch: begins to watch.
    """
    with watch() as begun:
        if name := begun.wait(timeout_s):
            return shown(name, 300)
    raise LookupError(f"nothing of the kind came to a file of the state within {timeout_s:g} s")
