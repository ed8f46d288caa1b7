"""Faults of the folder that holds an engine's state: it is full, or its newest file is damaged."""

from __future__ import annotations

import functools
import os
import random
import re
import resource
import signal
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

from inotify_simple import INotify, flags

from tickproof.conformance.engines.process_table import Proc, read, send, stop_all
from tickproof.conformance.engines.process_tree import SETTLE_S
from tickproof.conformance.engines.workspace import SCRATCH, unfinished, walked
from tickproof.conformance.fault_steps import DAMAGE, Damaged
from tickproof.conformance.text import shown

#: So often it is looked for processes that were forked in the middle of the last look.
_PASSES: Final = 50
_SHOWN: Final = 5
#: What engines say of a write that this fault refused, or of any disk that is full.
_WORDS: Final = re.compile(
    r"file too large|file size limit|no space left|disk quota|\b(EFBIG|ENOSPC|EDQUOT|SIGXFSZ)\b",
    re.IGNORECASE,
)
#: Bytes that "tail" takes, and that "garbage" writes at a time.
_TAIL: Final = 16
_PIECE: Final = 1 << 20
_HEAD: Final = 512
#: Bytes that "garbage" writes at most: a sparse file may have any size, and the disk has not.
_MOST_GARBAGE: Final = 64 << 20
#: Bytes of a link that only names a file: no limit of the size of files holds for links.
_LONGEST_LINK: Final = 1_024
#: So long before the newest file the others of its cut may have been written.
NEW_S: Final = 1.0


class Fill:
    """A disk that is full: no process of the engine can write a byte into a regular file.

    It is the limit of the file size (RLIMIT_FSIZE), set to 0 in every process while all of them
    stand still: the hard one too, so that no process raises it again, if the kit may do so at the
    end. It touches no other program, and goes with the processes. ``living`` gives the engine's
    processes, ``stderr`` is the file of its standard error.
    """

    def __init__(self, living: Callable[[], list[Proc]], folder: Path, stderr: Path) -> None:
        self._living, self._folder, self._stderr = living, folder, stderr
        self._before: dict[tuple[int, int], tuple[int, int]] = {}
        self._said = _size(stderr)
        #: Sizes of the files of the state, by inode, as the fault began.
        self._sizes: dict[int, int] = {}

    def begin(self) -> list[int]:
        """Let nothing more be written; return the pids. Raises LookupError: none can be held."""
        paused = {proc.pid for proc in self._living() if proc.state in "Tt"}
        try:
            stop_all(self._living, SETTLE_S)
            self._hold_all()
            self._said = _size(self._stderr)
            self._sizes = {facts.st_ino: facts.st_size for _, facts in _filled_files(self._folder)}
        finally:
            for proc in self._living():
                if proc.pid not in paused:
                    send(proc, signal.SIGCONT)
        if not self._before:
            raise LookupError("no process of the engine could be kept from writing")
        return [pid for pid, _ in self._before]

    def _hold_all(self) -> None:
        hard = 0 if _may_raise() else None
        for _ in range(_PASSES):
            new = [proc for proc in self._living() if (proc.pid, proc.started) not in self._before]
            befores = [(proc, _limit(proc, 0, hard)) for proc in new]
            held = {(p.pid, p.started): before for p, before in befores if before is not None}
            if not held:
                break
            self._before |= held

    def end(self) -> dict[str, Any]:
        """Let everything be written again; return what shows whether writes had failed.

        empty: files without content that came meanwhile. words: a line of standard error. lifted:
        processes whose limit was raised. grown: files that grew all the same, or came with content.
        """
        empty, grown = [], []
        for name, facts in _filled_files(self._folder):
            before = self._sizes.get(facts.st_ino)
            if not facts.st_size and before != 0:
                empty.append(name)
            elif facts.st_size > (before or 0):
                grown.append(name)
        lifted = [proc.pid for proc in self._living() if _soft(proc) not in (0, None)]
        usual = next(iter(self._before.values()))
        for _ in range(_PASSES):
            # A process that was forked meanwhile has inherited the limit.
            held = [proc for proc in self._living() if _soft(proc) == 0]
            if not held:
                break
            for proc in held:
                _limit(proc, *self._before.get((proc.pid, proc.started), usual))
        return {
            "empty": [shown(name, 200) for name in sorted(empty)[:_SHOWN]],
            "words": self._complaint(),
            "lifted": lifted[:_SHOWN],
            "grown": [shown(name, 200) for name in sorted(grown)[:_SHOWN]],
        }

    def _complaint(self) -> str:
        if not self._stderr.exists():
            return ""
        with self._stderr.open("rb") as file:
            file.seek(self._said)
            for line in file:
                text = line.decode("utf-8", "backslashreplace")
                if _WORDS.search(text):
                    return shown(text.rstrip(), 300)
        return ""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _soft(proc: Proc) -> int | None:
    try:
        return resource.prlimit(proc.pid, resource.RLIMIT_FSIZE)[0]
    except (ProcessLookupError, PermissionError):
        return None


def _limit(proc: Proc, soft: int, hard: int | None) -> tuple[int, int] | None:
    """Set the limits of exactly this process; return what they were, None: not reached.

    hard: None leaves it as it is.
    """
    try:
        before = resource.prlimit(proc.pid, resource.RLIMIT_FSIZE)
        wanted = (soft, before[1] if hard is None else hard)
        resource.prlimit(proc.pid, resource.RLIMIT_FSIZE, wanted)
        now = read(proc.pid)
        if now is None or now.started == proc.started:
            return before
        resource.prlimit(proc.pid, resource.RLIMIT_FSIZE, before)  # it was another's pid
    except (ProcessLookupError, PermissionError):
        pass
    return None


@functools.cache
def _may_raise() -> bool:
    """Tell whether the kit may raise a hard limit that it lowered, by trying it on a process."""
    waits = [sys.executable, "-I", "-S", "-c", "input()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as probe:
        try:
            before = resource.prlimit(probe.pid, resource.RLIMIT_FSIZE, (0, 0))
            resource.prlimit(probe.pid, resource.RLIMIT_FSIZE, before)
        except PermissionError:
            return False
        finally:
            probe.kill()
    return True


class Damage:
    """The newest file of a folder, damaged as a key of DAMAGE says, by what ``chance`` draws.

    With "rot" it is the largest that came just before. name: its path in the folder. size, left:
    bytes before and after. Raises LookupError without such a file.
    """

    def __init__(self, folder: Path, kind: Damaged, chance: random.Random) -> None:
        path = largest_before(folder) if kind == "rot" else newest(folder)
        if path is None:
            raise LookupError("the folder of the state holds no file with content")
        self.name, self._kind = shown(str(path.relative_to(folder)), 300), kind
        self._watch: INotify | None = None
        # The engine is dead and had its own file: read-only is no obstacle to a bad disk.
        before = path.stat()
        mode = stat.S_IMODE(before.st_mode)
        path.chmod(mode | stat.S_IWUSR)
        with path.open("r+b") as file:
            self.size = os.fstat(file.fileno()).st_size
            place, bits = self._bit = _drawn_bit(self.size, kind, chance)
            if bits:
                _invert(file, place, bits)
            else:
                _damage(file, self.size, kind, chance)
            self.left = file.seek(0, os.SEEK_END)
        if kind == "missing":
            path.unlink()
            return
        path.chmod(mode)
        # A bad disk leaves the times as they are: they are no way to see the damage.
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        self._watch = _watch(path)

    def facts(self) -> dict[str, Any]:
        """Return what an event says of it."""
        how = DAMAGE[self._kind]
        place, bits = self._bit
        flipped = {"place": place, "bit": bits.bit_length() - 1} if bits else {}
        return {"file": self.name, "size": self.size, "left": self.left, "how": how} | flipped

    def was_read(self) -> bool | None:
        """Tell whether the file was read since; None where that cannot be seen. Ask once."""
        if self._watch is None:
            return None
        with self._watch as watch:
            seen = 0
            for event in watch.read(timeout=0):
                seen |= event.mask
        self._watch = None
        # A file that was opened and not written may have been read through a memory map.
        return bool(seen & flags.ACCESS) or (bool(seen & flags.OPEN) and not seen & flags.MODIFY)


def _drawn_bit(size: int, kind: Damaged, chance: random.Random) -> tuple[int, int]:
    """Return the place of a byte, and its bit as a number; 0 for damage of another kind."""
    head = range(min(size, _HEAD))
    match kind:
        case "bit" | "rot":
            # Half of them in the head, where a format says what follows.
            places = range(size) if chance.random() < 0.5 else head
        case "bit-head":
            places = head
        case "bit-middle":
            places = range(size // 4, max(size - size // 4, 1))
        case "bit-last":
            places = range(size - max(size // 4, 1), size)
        case _:
            return 0, 0
    return chance.choice(places), 1 << chance.randrange(8)


def _damage(file: BinaryIO, size: int, kind: Damaged, chance: random.Random) -> None:
    """Damage an open file of ``size`` bytes in another way than by a bit."""
    match kind:
        case "half":
            file.truncate(size // 2)
            _invert(file, size // 4, 0xFF)
        case "garbage":
            for start in range(0, min(size, _MOST_GARBAGE), _PIECE):
                file.write(chance.randbytes(min(_PIECE, size - start)))
        case "tail":
            file.truncate(max(0, size - _TAIL))
        case "empty" | "missing":
            file.truncate(0)


def _invert(file: BinaryIO, place: int, bits: int) -> None:
    """Invert some bits of the byte at ``place``, if there is one."""
    file.seek(place)
    if byte := file.read(1):
        file.seek(place)
        file.write(bytes([byte[0] ^ bits]))


def newest(folder: Path) -> Path | None:
    """Return the regular file with content that was changed last (ctime, then mtime, then path).

    An engine may give a file any mtime, but not a ctime.
    """
    found = _with_content(folder)
    return Path(found[-1][0]) if found else None


def largest_before(folder: Path) -> Path | None:
    """Return the largest file that was changed within NEW_S before the newest, which it may be.

    A cut may be several files: what names the others comes last, and has little in it.
    """
    if not (found := _with_content(folder)):
        return None
    *others, last = found
    begin_ns = last[1].st_ctime_ns - int(NEW_S * 1e9)
    others = [one for one in others if one[1].st_ctime_ns >= begin_ns]
    return Path(max(others or [last], key=lambda one: (one[1].st_size, one[0]))[0])


def _with_content(folder: Path) -> list[tuple[str, os.stat_result]]:
    """Return paths of the regular files with content that damage may meet, the newest last.

    No link is followed, not even the folder itself. What lies in its folder ``scratch`` need not
    survive and is left alone, like a file that is not finished, or has a name outside the folder.
    """
    found: list[tuple[str, os.stat_result]] = []
    for parent, below, names in walked(folder):
        if parent == str(folder) and SCRATCH in below:
            below.remove(SCRATCH)
        for name in names:
            if unfinished(name):
                continue
            path = os.path.join(parent, name)  # noqa: PTH118 - many files
            try:
                facts = os.lstat(path)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(facts.st_mode) and facts.st_size:
                found.append((path, facts))
    inside = Counter(facts.st_ino for _, facts in found)
    own = [one for one in found if one[1].st_nlink <= inside[one[1].st_ino]]
    return sorted(own, key=lambda one: (one[1].st_ctime_ns, one[1].st_mtime_ns, one[0]))


def _filled_files(folder: Path) -> list[tuple[str, os.stat_result]]:
    """Return the regular files below a folder, and links that may hold more than a path.

    By their paths in it.
    """
    found = []
    for parent, _, names in walked(folder):
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118 - many files
            try:
                facts = os.lstat(path)
            except FileNotFoundError:
                continue
            link = stat.S_ISLNK(facts.st_mode) and facts.st_size > _LONGEST_LINK
            if link or stat.S_ISREG(facts.st_mode):
                found.append((os.path.relpath(path, folder), facts))
    return found


def _watch(path: Path) -> INotify | None:
    """Watch a file for being read, by inotify: access times are often switched off."""
    try:
        watch = INotify()
        watch.add_watch(path, flags.ACCESS | flags.MODIFY | flags.OPEN)
    except OSError:
        return None
    return watch
