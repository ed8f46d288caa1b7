"""What a loss of power leaves of files, against a slow model of what has to, and of what may."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tickproof.conformance.engines.disk_image import DiskImage, Node

#: Of a file: every value that each byte had since the last fsync, and the sizes.
SYNCED, WRITTEN = 0, 1
Place = tuple[int, str]


@dataclass(eq=False)
class Change:
    """Names that changed together: place -> (what it was, what it is), by numbers of inodes."""

    entries: dict[Place, tuple[int | None, int | None]]
    durable: bool = False


@dataclass
class File:
    """A file: as it is, as it was synced, and what each of its bytes may be."""

    now: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    sizes: set[int] = field(default_factory=lambda: {0})
    may: dict[int, set[int]] = field(default_factory=dict)

    def note(self) -> None:
        self.sizes.add(len(self.now))
        for at, value in enumerate(self.now):
            self.may.setdefault(at, set()).add(value)

    def sync(self, content: bytes | None = None) -> None:
        self.now = self.now if content is None else bytearray(content)
        self.synced, self.sizes, self.may = bytes(self.now), set(), {}
        self.note()


class Model:
    """The obvious: all changes of names since the last loss, each durable or not."""

    def __init__(self) -> None:
        self.files: dict[int, File] = {}
        self.folders = {1}
        self.base: dict[Place, int] = {}
        self.changes: list[Change] = []

    def sync(self, inode: int) -> None:
        if inode in self.files:
            self.files[inode].sync()
        for change in self.changes:
            named = any(after == inode for _, after in change.entries.values())
            change.durable |= named or any(folder == inode for folder, _ in change.entries)
        found = True
        while found:
            found = False
            for at, later in enumerate(self.changes):
                for earlier in self.changes[:at] if later.durable else ():
                    if not earlier.durable and self._needs(later, earlier):
                        earlier.durable = found = True

    @staticmethod
    def _needs(later: Change, earlier: Change) -> bool:
        befores = {before for before, _ in later.entries.values() if before}
        named = {after for _, after in earlier.entries.values()}
        return bool(
            later.entries.keys() & earlier.entries.keys()
            or named & ({folder for folder, _ in later.entries} | befores)
            or {folder for folder, _ in earlier.entries} & befores
        )

    def names(self, kept: list[Change]) -> dict[str, int]:
        """Return path -> inode once the base and these changes are all that there was."""
        at = dict(self.base)
        for change in kept:
            for place, (_, after) in change.entries.items():
                at.pop(place, None)
                if after is not None:
                    at[place] = after
        return dict(_paths(at, 1, ""))

    def legal(self, loss: str) -> list[dict[str, int]]:
        """Return the trees that a loss may leave."""
        free = [change for change in self.changes if not change.durable]
        firsts = {"all": [0], "content": [len(free)], "drawn": list(range(len(free) + 1))}[loss]
        return [
            self.names([c for c in self.changes if c.durable or c in free[:first]])
            for first in firsts
        ]


def _paths(at: dict[Place, int], folder: int, path: str) -> Iterator[tuple[str, int]]:
    for (parent, name), inode in at.items():
        if parent == folder:
            yield f"{path}{name}", inode
            yield from _paths(at, inode, f"{path}{name}/")


class Both:
    """An image of a folder on a disk, and the model, which has what succeeded there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.image, self.model = folder, DiskImage(str(folder)), Model()

    def at(self, path: str) -> tuple[Node, str]:
        """Return folder and name of a path; raises OSError."""
        *parents, name = path.split("/")
        node = self.image.root
        for parent in parents:
            node = self.image.lookup(node, parent)
        return node, name

    def node(self, path: str) -> Node:
        folder, name = self.at(path)
        return self.image.lookup(folder, name) if path else self.image.root

    def change(self, *entries: tuple[Place, int | None, int | None]) -> None:
        self.model.changes.append(Change({place: (old, new) for place, old, new in entries}))

    def create(self, path: str) -> None:
        folder, name = self.at(path)
        node = self.image.create(folder, name, 0o600)
        self.image.release(node)
        self.model.files[node.number] = File()
        self.change(((folder.number, name), None, node.number))

    def mkdir(self, path: str) -> None:
        folder, name = self.at(path)
        node = self.image.make_folder(folder, name, 0o700)
        self.change(((folder.number, name), None, node.number))

    def write(self, path: str, offset: int, size: int, fill: int) -> None:
        node = self.file(path)
        self.image.write(node, bytes([fill]) * size, offset)
        now = self.model.files[node.number].now
        now.extend(bytes(max(0, offset + size - len(now))))
        now[offset : offset + size] = bytes([fill]) * size
        self.model.files[node.number].note()

    def truncate(self, path: str, size: int) -> None:
        node = self.file(path)
        self.image.truncate(node, size)
        now = self.model.files[node.number].now
        del now[size:]
        now.extend(bytes(size - len(now)))
        self.model.files[node.number].note()

    def file(self, path: str) -> Node:
        node = self.node(path)
        if node.number not in self.model.files:
            raise IsADirectoryError(path)
        return node

    def remove(self, path: str) -> None:
        folder, name = self.at(path)
        old = self.image.lookup(folder, name)
        self.image.remove(folder, name, is_folder=old.number not in self.model.files)
        self.change(((folder.number, name), old.number, None))

    def rename(self, path: str, new: str) -> None:
        (folder, name), (to, other) = self.at(path), self.at(new)
        old = None
        with contextlib.suppress(OSError):
            old = self.image.lookup(to, other).number
        node = self.image.rename(folder, name, to, other)
        if node.number != old:
            one = (folder.number, name), node.number, None
            self.change(one, ((to.number, other), old, node.number))

    def link(self, path: str, new: str) -> None:
        (to, other), node = self.at(new), self.file(path)
        self.image.link(node, to, other)
        self.change(((to.number, other), None, node.number))

    def sync(self, path: str) -> None:
        node = self.node(path)
        self.image.sync(node)
        self.model.sync(node.number)

    def lose(self, loss: str, seed: int) -> None:
        """Lose the power, and hold what is left against the model."""
        legal, files = self.model.legal(loss), self.model.files
        lost = self.image.lose(loss, random.Random(seed))  # type: ignore[arg-type]
        left = {str(p.relative_to(self.folder)): p for p in sorted(self.folder.rglob("*"))}
        assert left.keys() in [names.keys() for names in legal]
        fits = [names for names in legal if _fit(names, left, files, loss)]
        assert fits
        names = fits[0]
        assert lost.lost_bytes or lost.lost_names or len(legal) == 1 or loss != "all"
        # From now on all that is left is durable, under new numbers.
        numbers: dict[int, int] = {}
        self.model = Model()
        for path in left:
            node, folder = self.node(path), self.at(path)
            numbers[names[path]] = node.number
            self.model.base[folder[0].number, folder[1]] = node.number
            if names[path] in files:
                self.model.files[node.number] = File()
                self.model.files[node.number].sync(left[path].read_bytes())


def _same(names: dict[str, int], left: dict[str, Path]) -> bool:
    """Tell whether names of one file are names of one file on disk."""
    inodes = {path: left[path].stat().st_ino for path in names}
    return (
        len({*names.values()})
        == len({*inodes.values()})
        == len({(names[path], inodes[path]) for path in names})
    )


def _fit(names: dict[str, int], left: dict[str, Path], files: dict[int, File], loss: str) -> bool:
    """Tell whether what is left is what names stand for, with content that it may have."""
    return (
        names.keys() == left.keys()
        and _same(names, left)
        and all(left[path].is_file() is (inode in files) for path, inode in names.items())
        and all(
            _may_hold(files[inode], left[path].read_bytes(), loss)
            for path, inode in names.items()
            if inode in files
        )
    )


def _may_hold(file: File, found: bytes, loss: str) -> bool:
    if loss != "drawn":
        return found == file.synced
    fits = min(file.sizes) <= len(found) <= max(file.sizes)
    return fits and all(value in file.may[at] for at, value in enumerate(found))


#: Which of the files, folders or both that there are, and which name for a new one.
WHICH = st.integers(0, 9)
NAME = st.sampled_from(["a", "b", "c"])
OPERATIONS = st.one_of(
    st.tuples(st.just("create"), WHICH, NAME),
    st.tuples(st.just("mkdir"), WHICH, NAME),
    st.tuples(
        st.just("write"), WHICH, st.sampled_from([0, 100, 512, 4000, 5000]),
        st.sampled_from([1, 512, 6000]), st.integers(1, 255),
    ),
    st.tuples(st.just("truncate"), WHICH, st.sampled_from([0, 50, 600, 4096, 9000])),
    st.tuples(st.just("sync"), WHICH),
    st.tuples(st.just("remove"), WHICH),
    st.tuples(st.just("rename"), WHICH, WHICH, NAME),
    st.tuples(st.just("link"), WHICH, WHICH, NAME),
    st.tuples(
        st.just("lose"), st.sampled_from(["all", "content", "drawn", "drawn"]), st.integers(0, 999)
    ),
)  # fmt: skip


def _chosen(both: Both, name: str, numbers: list[Any]) -> list[Any]:
    """Return the arguments of an operation, with paths that there are in the place of numbers."""
    there = both.model.names(both.model.changes)
    files = sorted(path for path, inode in there.items() if inode in both.model.files)
    folders = ["", *sorted(there.keys() - files)]
    anything = sorted(there)
    among = {
        "create": folders, "mkdir": folders, "write": files, "truncate": files, "link": files,
        "sync": [*anything, ""],
    }.get(name, anything)  # fmt: skip
    first, *rest = numbers
    path = among[first % len(among)]  # ZeroDivisionError: there is none
    if name in ("create", "mkdir"):
        return [f"{path}/{rest[0]}".lstrip("/")]
    if name in ("rename", "link"):
        return [path, f"{folders[rest[0] % len(folders)]}/{rest[1]}".lstrip("/")]
    return [path, *rest]


@settings(max_examples=150, deadline=None)
@given(st.lists(OPERATIONS, min_size=5, max_size=40), st.integers(0, 999))
def test_a_loss_leaves_what_is_durable_and_nothing_that_never_was(
    operations: list[tuple[Any, ...]], seed: int
) -> None:
    folder = Path(tempfile.mkdtemp())
    both = Both(folder)
    try:
        for name, *numbers in [*operations, ("lose", "drawn", seed)]:
            if name == "lose":
                both.lose(*numbers)
            else:
                # What the system refuses changes nothing, in the model neither.
                with contextlib.suppress(OSError, ZeroDivisionError):
                    getattr(both, name)(*_chosen(both, name, numbers))
    finally:
        shutil.rmtree(folder)
