"""Files of a folder, and what of them a loss of power leaves.

Every operation is done to the folder at once. What would bring back its durable state is kept
beside: for each file its durable size and the blocks that were written over since, and the changes
of names that no fsync has covered. Standard library only: the server of a disk starts with a run.

The rules are those of ext4, XFS and btrfs, at their most lenient where they differ for something
that engines rely on (docs/decisions/0055-power-loss.md):

- fsync and fdatasync of a file make its content durable, and the changes that gave it its names;
- fsync of a folder makes all changes of its names durable, and the names that lead to it;
- a change of names is durable in whole or not at all, and never without earlier ones of these
  names, of what loses one, and of the folders that they are in;
- what was not synced may be lost, kept, or kept in parts: sectors of a file, the first changes.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

#: What a loss takes. all: everything that is not durable; content: that alone, while names are
#: kept; drawn: of each file and of the changes of names by chance.
Loss = Literal["all", "content", "drawn"]

#: Content is kept by blocks, and lost by sectors.
BLOCK: Final = 4096
SECTOR: Final = 512
#: With more than this the disk writes all back by itself, as a kernel does under pressure.
_MOST_BLOCKS: Final = 1 << 16
_MOST_CHANGES: Final = 4096
_NAMED: Final = 5
_LONGEST: Final = 300
#: What of a file may be made: no devices.
_KINDS: Final = (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK)
RENAME_NOREPLACE: Final = 1
RENAME_EXCHANGE: Final = 2


@dataclass(eq=False)
class Node:
    """A file, folder or link. fd: opened with O_PATH. path: a name that it had, for people.

    durable: size of the durable content, None while all of it is durable. lowest: the smallest size
    since. old: number of a block -> its durable content. io: opened for its content, -1: not.
    lookups, opens, changes: how often it was looked up, is open, and is in a change of names that
    is not durable.
    """

    fd: int
    inode: int
    number: int
    path: str
    kind: int
    lookups: int = 0
    opens: int = 0
    changes: int = 0
    io: int = -1
    durable: int | None = None
    lowest: int = 0
    old: dict[int, bytes] = field(default_factory=dict)

    @property
    def magic(self) -> str:
        """A path that leads to exactly this inode, even if it has no name."""
        return f"/proc/self/fd/{self.fd}"


@dataclass(frozen=True)
class Entry:
    """One name of a change: what it stood for, and what it stands for now; None: nothing."""

    folder: Node
    name: str
    before: Node | None
    after: Node | None

    @property
    def place(self) -> tuple[Node, str]:
        """The name itself."""
        return self.folder, self.name


#: Names that change together.
Change = tuple[Entry, ...]


@dataclass
class Lost:
    """Operations that a loss of power found and took.

    writes: operations that changed something since the loss before. unsynced: files and changes of
    names that were not durable. lost_bytes: of content; lost_names: changes; lost_files: some of
    their paths.
    """

    writes: int = 0
    unsynced: int = 0
    lost_bytes: int = 0
    lost_names: int = 0
    lost_files: list[str] = field(default_factory=list)

    def note(self, path: str) -> None:
        """Note the path of a file that lost something."""
        path = path.encode("utf-8", "backslashreplace").decode()[:_LONGEST]
        if len(self.lost_files) < _NAMED and path not in self.lost_files:
            self.lost_files.append(path)


class DiskImage:
    """A folder, and what is durable of it. All operations raise OSError as the system does."""

    def __init__(self, folder: str) -> None:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        self.root = Node(fd, os.fstat(fd).st_ino, 1, "", stat.S_IFDIR)
        self._inodes = {self.root.inode: self.root}
        self._numbers = {1: self.root}
        self._last_number = 1
        #: Files whose content is not durable, those that were written first at the front.
        self._unsynced: dict[Node, None] = {}
        self._changes: list[Change] = []
        self._blocks = self._writes = 0

    # -- nodes

    def node(self, number: int) -> Node:
        """Return a node that `lookup` has returned; raises KeyError once it was forgotten."""
        return self._numbers[number]

    def lookup(self, folder: Node, name: str) -> Node:
        """Return what a name stands for; it is known until `forget`."""
        node = self._at(folder, name)
        node.lookups += 1
        return node

    def _at(self, folder: Node, name: str) -> Node:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder.fd)
        facts = os.fstat(fd)
        if known := self._inodes.get(facts.st_ino):
            os.close(fd)
            return known
        self._last_number += 1
        path = f"{folder.path}/{name}" if folder.path else name
        node = Node(fd, facts.st_ino, self._last_number, path, stat.S_IFMT(facts.st_mode))
        self._inodes[node.inode] = self._numbers[node.number] = node
        return node

    def forget(self, node: Node, lookups: int) -> None:
        """Forget so many lookups of a node."""
        node.lookups -= lookups
        self._drop([node])

    def forget_all(self) -> None:
        """Forget all lookups and opens: who made them is gone. What is not durable stays so."""
        for node in self._numbers.values():
            node.lookups = node.opens = 0
        self._drop(list(self._numbers.values()))

    def _drop(self, nodes: Iterable[Node]) -> None:
        """Close what nobody needs any more."""
        for node in nodes:
            idle = node.lookups <= 0 and not node.opens and not node.changes and node.fd >= 0
            if idle and node.durable is not None and not os.fstat(node.fd).st_nlink:
                self._forget_old(node)  # nothing can bring it back
            if node.io >= 0 and not node.opens and node.durable is None:
                os.close(node.io)
                node.io = -1
            if idle and node.durable is None and node is not self.root:
                os.close(node.fd)
                node.fd = -1
                del self._inodes[node.inode], self._numbers[node.number]

    # -- content

    def open(self, node: Node) -> None:
        """Open a file for its content; `release` closes it."""
        self._content(node)
        node.opens += 1

    def release(self, node: Node) -> None:
        """Close a file."""
        node.opens -= 1
        self._drop([node])

    def _content(self, node: Node) -> int:
        if node.io < 0:
            try:
                node.io = os.open(node.magic, os.O_RDWR)
            except OSError:
                node.io = os.open(node.magic, os.O_RDONLY)
        return node.io

    def read(self, node: Node, size: int, offset: int) -> bytes:
        """Return content."""
        return os.pread(self._content(node), size, offset)

    def write(self, node: Node, data: bytes | memoryview, offset: int) -> int:
        """Write content; return how many bytes were written."""
        self._before(node, offset, offset + len(data))
        return os.pwrite(node.io, data, offset)

    def truncate(self, node: Node, size: int) -> None:
        """Set the size of a file."""
        self._before(node, size, None)
        os.ftruncate(node.io, size)
        node.lowest = min(node.lowest, size)

    def allocate(self, node: Node, offset: int, length: int) -> None:
        """Let a file have at least so many bytes."""
        self._before(node, offset, offset)
        os.posix_fallocate(node.io, offset, length)

    def _before(self, node: Node, start: int, end: int | None) -> None:
        """Keep what is durable of a range that is about to be written; end: None for no end."""
        self._content(node)
        self._writes += 1
        if node.durable is None:
            if self._blocks > _MOST_BLOCKS or len(self._unsynced) > _MOST_CHANGES:
                self.sync_all()
            node.durable = node.lowest = os.fstat(node.io).st_size
            self._unsynced[node] = None
        end = node.durable if end is None else min(end, node.durable)
        for block in range(start // BLOCK, -(-end // BLOCK)):
            if block not in node.old:
                size = min(BLOCK, node.durable - block * BLOCK)
                node.old[block] = os.pread(node.io, size, block * BLOCK)
                self._blocks += 1

    # -- names

    def create(self, folder: Node, name: str, mode: int) -> Node:
        """Make a file that is not there; return it, open."""
        io = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600,
                     dir_fd=folder.fd)  # fmt: skip
        os.fchmod(io, mode & 0o7777)
        node = self.lookup(folder, name)
        node.io, node.opens = io, 1
        self._before(node, 0, 0)
        self._changed(Entry(folder, name, None, node))
        return node

    def make(self, folder: Node, name: str, mode: int) -> Node:
        """Make a file, a pipe or a socket; return it."""
        if (stat.S_IFMT(mode) or stat.S_IFREG) not in _KINDS:
            raise PermissionError(1, "only files, pipes and sockets")
        os.mknod(name, mode, dir_fd=folder.fd)
        node = self._made(folder, name)
        if node.kind == stat.S_IFREG:
            self._before(node, 0, 0)
        return node

    def make_folder(self, folder: Node, name: str, mode: int) -> Node:
        """Make a folder; return it."""
        os.mkdir(name, mode, dir_fd=folder.fd)
        return self._made(folder, name)

    def make_symlink(self, folder: Node, name: str, target: str) -> Node:
        """Make a symbolic link; return it."""
        os.symlink(target, name, dir_fd=folder.fd)
        return self._made(folder, name)

    def link(self, node: Node, folder: Node, name: str) -> Node:
        """Give a file one more name; return it."""
        _link(node, folder, name)
        return self._made(folder, name)

    def _made(self, folder: Node, name: str) -> Node:
        node = self.lookup(folder, name)
        self._changed(Entry(folder, name, None, node))
        return node

    def remove(self, folder: Node, name: str, *, is_folder: bool = False) -> Node:
        """Remove a name; return what it stood for."""
        node = self._at(folder, name)
        if is_folder:
            os.rmdir(name, dir_fd=folder.fd)
        else:
            os.unlink(name, dir_fd=folder.fd)
        self._changed(Entry(folder, name, node, None))
        return node

    def rename(self, folder: Node, name: str, to: Node, new: str, flags: int = 0) -> Node:
        """Rename as renameat2 does, with its flags; return what was renamed."""
        node, other = self._at(folder, name), None
        with contextlib.suppress(FileNotFoundError):
            other = self._at(to, new)
        if flags & RENAME_NOREPLACE and other:
            raise FileExistsError(17, "exists")
        if flags & RENAME_EXCHANGE:
            if other is None:
                raise FileNotFoundError(2, "nothing to exchange with")
            self._exchange(folder, name, to, new)
            self._changed(Entry(folder, name, node, other), Entry(to, new, other, node))
            return node
        os.rename(name, new, src_dir_fd=folder.fd, dst_dir_fd=to.fd)
        if node is not other:  # else nothing happens
            self._changed(Entry(folder, name, node, None), Entry(to, new, other, node))
            node.path = f"{to.path}/{new}" if to.path else new
        return node

    def _exchange(self, folder: Node, name: str, to: Node, new: str) -> None:
        between = f".{secrets.token_hex(8)}"
        os.rename(name, between, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
        os.rename(new, name, src_dir_fd=to.fd, dst_dir_fd=folder.fd)
        os.rename(between, new, src_dir_fd=folder.fd, dst_dir_fd=to.fd)

    def _changed(self, *entries: Entry) -> None:
        self._writes += 1
        self._changes.append(entries)
        for entry in entries:
            for node in _nodes(entry):
                node.changes += 1
        if len(self._changes) > _MOST_CHANGES:
            self.sync_all()

    # -- what is made durable

    def sync(self, node: Node) -> None:
        """Make a file durable, and the names that it was given; of a folder, the names in it."""
        self._forget_old(node)
        self._drop([node])
        self._make_durable(node)

    def sync_all(self) -> None:
        """Make all durable."""
        for node in list(self._unsynced):
            self._forget_old(node)
            self._drop([node])
        changes, self._changes = self._changes, []
        self._let_go(changes)

    def _forget_old(self, node: Node) -> None:
        """Take the content of a file as durable."""
        self._blocks -= len(node.old)
        node.old.clear()
        node.durable = None
        self._unsynced.pop(node, None)

    def _let_go(self, changes: Iterable[Change]) -> None:
        """Drop the nodes of changes that need no longer be undone."""
        nodes = [node for change in changes for entry in change for node in _nodes(entry)]
        for node in nodes:
            node.changes -= 1
        self._drop(nodes)

    def _make_durable(self, node: Node) -> None:
        """Make changes durable that concern a node, and all that they build on."""
        if not self._changes:
            return
        places: set[tuple[Node, str]] = set()
        #: What has to have its names, and in which folders all names count.
        needed, inside = {node}, {node}
        kept, made = list[Change](), list[Change]()
        for change in reversed(self._changes):
            concerned = any(e.folder in inside or e.after in needed for e in change)
            if concerned or any(e.place in places for e in change):
                places.update(e.place for e in change)
                needed.update(e.folder for e in change)
                # What loses a name had others before: nothing is lost altogether.
                moved = {e.before for e in change if e.before}
                needed |= moved
                inside |= moved
                made.append(change)
            else:
                kept.append(change)
        self._changes = kept[::-1]
        self._let_go(made)

    # -- loss

    def lose(self, loss: Loss, chance: random.Random) -> Lost:
        """Leave in the folder what a loss of power may leave; nothing of it is known any more."""
        lost = Lost(self._writes, len(self._unsynced) + len(self._changes))
        for node in self._unsynced:
            taken = self._lose_content(node, loss, chance)
            lost.lost_bytes += taken
            if taken:
                lost.note(node.path)
        first = 0
        if loss == "content":
            first = len(self._changes)
        elif loss == "drawn":
            most = len(self._changes)
            first = chance.choice((0, most, chance.randint(0, most)))
        self._lose_names(self._changes[:first], lost)
        self._unsynced, self._changes, self._blocks, self._writes = {}, [], 0, 0
        for node in self._numbers.values():
            node.durable, node.changes = None, 0
            node.old.clear()
        self.forget_all()
        return lost

    def _lose_content(self, node: Node, loss: Loss, chance: random.Random) -> int:
        """Lose content of a file; return how many bytes."""
        assert node.durable is not None
        size = os.fstat(node.io).st_size
        fates = ("lost", "lost", "kept", "torn", "torn") if loss == "drawn" else ("lost",)
        fate = chance.choice(fates)
        if fate == "kept":
            return 0
        left = node.durable if fate == "lost" else _left(node, size, chance)
        taken = max(0, size - left)
        if fate == "torn" and left < min(node.durable, size):
            # It was cut, and only the first sectors were written anew.
            os.ftruncate(node.io, left)
            return taken
        for block, old in sorted(node.old.items()):
            start = block * BLOCK
            keeps = 0
            if fate == "torn" and start + len(old) <= size:
                sectors = BLOCK // SECTOR
                keeps = chance.choice((0, sectors, chance.randint(0, sectors))) * SECTOR
            if rest := old[keeps:]:
                os.pwrite(node.io, rest, start + keeps)
                taken += len(rest)
        os.ftruncate(node.io, left)
        return taken

    def _lose_names(self, kept: list[Change], lost: Lost) -> None:
        """Give each name back what it stands for if only ``kept`` changes are durable."""
        now, then = dict[tuple[Node, str], Node | None](), dict[tuple[Node, str], Node | None]()
        for change in self._changes:
            for entry in change:
                then.setdefault(entry.place, entry.before)
                now[entry.place] = entry.after
        for change in kept:
            then.update((entry.place, entry.after) for entry in change)
        changed = [place for place in now if now[place] is not then[place]]
        lost.lost_names = len(self._changes) - len(kept)
        if not changed:
            return
        for folder, name in changed:
            for one in filter(None, (now[folder, name], then[folder, name])):
                lost.note(one.path)
        aside = f".{secrets.token_hex(8)}"
        os.mkdir(aside, 0o700, dir_fd=self.root.fd)
        away = os.open(aside, os.O_PATH | os.O_DIRECTORY, dir_fd=self.root.fd)
        try:
            moved = self._set_aside(changed, away)
            self._put_back({p: node for p in changed if (node := then[p]) is not None}, moved, away)
        finally:
            os.close(away)
            shutil.rmtree(f"{self.root.magic}/{aside}", ignore_errors=True)

    @staticmethod
    def _set_aside(places: list[tuple[Node, str]], away: int) -> dict[int, str]:
        """Move what stands at some names out of the way; return inode -> its name there."""
        moved = {}
        for number, (folder, name) in enumerate(places):
            with contextlib.suppress(FileNotFoundError):
                inode = os.lstat(f"{folder.magic}/{name}").st_ino
                os.rename(name, str(number), src_dir_fd=folder.fd, dst_dir_fd=away)
                moved[inode] = str(number)
        return moved

    @staticmethod
    def _put_back(places: dict[tuple[Node, str], Node], moved: dict[int, str], away: int) -> None:
        """Give names what they stand for, folders before what is in them."""
        while True:
            ready = [place for place in places if os.fstat(place[0].fd).st_nlink]
            if not ready:
                return
            for folder, name in ready:
                node = places.pop((folder, name))
                gone = not os.fstat(node.fd).st_nlink
                if node.kind != stat.S_IFDIR:
                    _copy(node, folder, name) if gone else _link(node, folder, name)
                elif not gone:
                    os.rename(moved[node.inode], name, src_dir_fd=away, dst_dir_fd=folder.fd)
                else:
                    os.mkdir(name, 0o700, dir_fd=folder.fd)
                    mode = stat.S_IMODE(os.fstat(node.fd).st_mode)
                    os.chmod(f"{folder.magic}/{name}", mode)  # noqa: PTH101
                    _refer_to(node, folder, name)


def _left(node: Node, size: int, chance: random.Random) -> int:
    """Draw the size of a torn file that has ``size`` bytes now."""
    assert node.durable is not None
    low = node.durable
    if node.lowest < min(node.durable, size) and chance.random() < 0.5:
        low = node.lowest
    if size <= low:
        return chance.choice((size, low)) if size < low else size
    return min(size, max(low, chance.randint(low // SECTOR, -(-size // SECTOR)) * SECTOR))


def _nodes(entry: Entry) -> Iterator[Node]:
    yield entry.folder
    yield from (one for one in (entry.before, entry.after) if one is not None)


def _link(node: Node, folder: Node, name: str) -> None:
    os.link(node.magic, name, dst_dir_fd=folder.fd, follow_symlinks=True)


def _copy(node: Node, folder: Node, name: str) -> None:
    """Make a file again that has no name left."""
    facts = os.fstat(node.fd)
    if node.kind == stat.S_IFLNK:
        os.symlink(os.readlink("", dir_fd=node.fd), name, dir_fd=folder.fd)
    elif node.kind != stat.S_IFREG:
        os.mknod(name, facts.st_mode, dir_fd=folder.fd)
    else:
        with (
            open(node.magic, "rb") as old,  # noqa: PTH123
            open(  # noqa: PTH123
                os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder.fd), "wb"
            ) as new,
        ):
            shutil.copyfileobj(old, new)
            os.fchmod(new.fileno(), stat.S_IMODE(facts.st_mode))
    _refer_to(node, folder, name)


def _refer_to(node: Node, folder: Node, name: str) -> None:
    """Let a node be what a name stands for: its own inode is gone."""
    os.close(node.fd)
    node.fd = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder.fd)
