"""Serves the disk of a sandbox over FUSE: the folder that an engine keeps its state in.

Run as ``python -I -S disk_server.py CONTROL FOLDER``. CONTROL, a Unix socket that keeps messages
apart, carries JSON. Each request is answered by one object:

``{"do": "serve"}``, with the descriptor of a mount: serve it; one that was served before is over.
``{"do": "hold", "events": N}``: the next operation that inotify would see as one of these events is
done and not answered, and nor is any later one; then comes, unasked, ``{"held": PATH}``, with the
path below the folder of the state.
``{"do": "go"}``: answer it, and go on.
``{"do": "cut"}``: answer nothing any more; who waits for an answer gets an error.
``{"do": "lose", "loss": KIND, "seed": N}``: lose what is not durable; answered with what was lost.

It ends with CONTROL. The mount is in the mount namespace of the sandbox and goes with it. Speaks
the protocol of the kernel itself (fuse(4), linux/fuse.h, version 7.31), so nothing need be
installed. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import resource
import select
import signal
import socket
import stat
import sys
from collections.abc import Callable
from dataclasses import asdict
from struct import Struct
from typing import Any, Final

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (-I drops it)
import disk_image
from disk_image import DiskImage, Node

#: Of which an engine says that it need not survive.
SCRATCH: Final = "scratch"
_MAJOR, _MINOR = 7, 31
_MOST_WRITTEN: Final = 1 << 17
#: How long the kernel may believe what it was told: nobody else changes these files.
_VALID_S: Final = 3600
_BIG_WRITES, _ASYNC_READ = 1 << 5, 1
_MESSAGE: Final = 1 << 16
#: Events of inotify.
_MODIFY, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x80, 0x100, 0x200
_HEAD, _REPLY = Struct("<IIQQIIIHH"), Struct("<IiQ")
_ATTRIBUTES, _ENTRY, _ANSWER = Struct("<6Q10I"), Struct("<4Q2I"), Struct("<QII")
_OPENED, _INIT, _INITED = Struct("<QII"), Struct("<IIII"), Struct("<IIIIHHIIHHII24x")
_IO, _TIMES, _SETS = Struct("<QQIIQII"), Struct("<QQQIII"), Struct("<2I6Q8I")
_STATFS, _RECORD = Struct("<5Q4I24x"), Struct("<QQII")
_U32, _U64 = Struct("<I"), Struct("<Q")
_MODE, _UID, _GID, _SIZE, _ATIME, _MTIME, _ATIME_NOW, _MTIME_NOW = 1, 2, 4, 8, 16, 32, 128, 256

#: A mount that is gone.
_OVER: Final = (errno.ENODEV, errno.ECONNABORTED)


class Mount:
    """Answers the requests of one mount."""

    def __init__(self, image: DiskImage, happened: Callable[[int, Node | None], None]) -> None:
        self._image, self._happened = image, happened
        self._answers: dict[int, Callable[[Node, memoryview], bytes | None]] = {
            1: self._lookup, 3: self._attributes, 4: self._set, 5: self._read_link,
            6: self._symlink, 8: self._make, 9: self._make_folder, 10: self._unlink,
            11: self._remove_folder, 12: self._rename, 13: self._link, 14: self._open,
            15: self._read, 16: self._write, 17: self._statfs, 18: self._release,
            20: self._sync, 27: self._open_folder, 28: self._read_folder, 29: self._ok,
            30: self._sync, 35: self._create, 43: self._allocate, 45: self._rename_with_flags,
        }  # fmt: skip

    def answer(self, request: memoryview) -> bytes | None:
        """Return the reply to a request, None if it needs none."""
        _, op, unique, number, *_ = _HEAD.unpack_from(request)
        body = request[_HEAD.size :]
        if op in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET
            self._forget(op, number, body)
            return None
        try:
            if op == 26:
                found: bytes | None = _init(body)
            elif op in self._answers:
                found = self._answers[op](self._image.node(number), body)
            else:
                found = b"" if op == 38 else None  # DESTROY
            error = errno.ENOSYS if found is None else 0
        except OSError as failure:
            found, error = None, failure.errno or errno.EIO
        except KeyError:
            found, error = None, errno.ESTALE
        found = found or b""
        return _REPLY.pack(_REPLY.size + len(found), -error, unique) + found

    def _forget(self, op: int, number: int, body: memoryview) -> None:
        pairs = []
        if op == 2:
            pairs = [(number, _U64.unpack_from(body)[0])]
        elif op == 42:
            count = _U32.unpack_from(body)[0]
            pairs = [Struct("<QQ").unpack_from(body, 8 + 16 * n) for n in range(count)]
        for one, lookups in pairs:
            with contextlib.suppress(KeyError):
                self._image.forget(self._image.node(one), lookups)

    # -- what is asked

    def _lookup(self, folder: Node, body: memoryview) -> bytes:
        return _entry(self._image.lookup(folder, _names(body)[0]))

    def _attributes(self, node: Node, _: memoryview) -> bytes:
        return _ANSWER.pack(_VALID_S, 0, 0) + _attributes(os.fstat(node.fd))

    def _set(self, node: Node, body: memoryview) -> bytes:
        valid, _, _, size, _, *rest = _SETS.unpack_from(body)
        atime, mtime, _, atime_ns, mtime_ns, _, mode, _, user, group, _ = rest
        if valid & _MODE:
            os.chmod(node.magic, stat.S_IMODE(mode))  # noqa: PTH101
        if valid & (_UID | _GID):
            os.chown(node.magic, user if valid & _UID else -1, group if valid & _GID else -1)
        if valid & _SIZE:
            self._image.truncate(node, size)
            self._happened(_MODIFY, node)
        if valid & (_ATIME | _MTIME) and node.kind != stat.S_IFLNK:
            facts = os.fstat(node.fd)
            times = facts.st_atime_ns, facts.st_mtime_ns
            asked = atime * 10**9 + atime_ns, mtime * 10**9 + mtime_ns
            if valid & (_ATIME_NOW | _MTIME_NOW) == _ATIME_NOW | _MTIME_NOW:
                os.utime(node.magic)
            else:
                given = valid & _ATIME, valid & _MTIME
                new = [a if g else t for a, g, t in zip(asked, given, times, strict=True)]
                os.utime(node.magic, ns=(new[0], new[1]))
        return self._attributes(node, body)

    def _read_link(self, node: Node, _: memoryview) -> bytes:
        return os.fsencode(os.readlink("", dir_fd=node.fd))

    def _symlink(self, folder: Node, body: memoryview) -> bytes:
        name, target = _names(body)
        return self._new(self._image.make_symlink(folder, name, target))

    def _make(self, folder: Node, body: memoryview) -> bytes:
        mode = _U32.unpack_from(body)[0]
        return self._new(self._image.make(folder, _names(body[16:])[0], mode))

    def _make_folder(self, folder: Node, body: memoryview) -> bytes:
        mode = _U32.unpack_from(body)[0]
        return _entry(self._image.make_folder(folder, _names(body[8:])[0], stat.S_IMODE(mode)))

    def _create(self, folder: Node, body: memoryview) -> bytes:
        mode = Struct("<4I").unpack_from(body)[1]
        return self._new(self._image.create(folder, _names(body[16:])[0], mode)) + _opened()

    def _link(self, folder: Node, body: memoryview) -> bytes:
        node = self._image.node(_U64.unpack_from(body)[0])
        return self._new(self._image.link(node, folder, _names(body[8:])[0]))

    def _new(self, node: Node) -> bytes:
        entry = _entry(node)
        self._happened(_CREATE, node)
        return entry

    def _unlink(self, folder: Node, body: memoryview) -> bytes:
        self._happened(_DELETE, self._image.remove(folder, _names(body)[0]))
        return b""

    def _remove_folder(self, folder: Node, body: memoryview) -> bytes:
        self._image.remove(folder, _names(body)[0], is_folder=True)
        return b""

    def _rename(self, folder: Node, body: memoryview, flags: int = 0, skip: int = 8) -> bytes:
        name, new = _names(body[skip:])
        to = self._image.node(_U64.unpack_from(body)[0])
        node = self._image.rename(folder, name, to, new, flags)
        self._happened(_MOVED_TO if node.kind != stat.S_IFDIR else 0, node)
        return b""

    def _rename_with_flags(self, folder: Node, body: memoryview) -> bytes:
        flags = _U32.unpack_from(body, 8)[0]
        if flags & ~(disk_image.RENAME_NOREPLACE | disk_image.RENAME_EXCHANGE):
            raise OSError(errno.EINVAL, "flags")
        return self._rename(folder, body, flags, 16)

    def _open(self, node: Node, _: memoryview) -> bytes:
        self._image.open(node)
        return _opened()

    def _release(self, node: Node, _: memoryview) -> bytes:
        self._image.release(node)
        return b""

    def _read(self, node: Node, body: memoryview) -> bytes:
        _, offset, size, *_ = _IO.unpack_from(body)
        return self._image.read(node, size, offset)

    def _write(self, node: Node, body: memoryview) -> bytes:
        _, offset, size, _, _, flags, _ = _IO.unpack_from(body)
        written = self._image.write(node, body[_IO.size : _IO.size + size], offset)
        if flags & os.O_DSYNC:
            self._image.sync(node)
        self._happened(_MODIFY, node)
        return Struct("<II").pack(written, 0)

    def _allocate(self, node: Node, body: memoryview) -> bytes:
        _, offset, length, mode, _ = Struct("<3QII").unpack_from(body)
        if mode:
            raise OSError(errno.EOPNOTSUPP, "mode")
        self._image.allocate(node, offset, length)
        return b""

    def _sync(self, node: Node, _: memoryview) -> bytes:
        self._image.sync(node)
        return b""

    def _statfs(self, node: Node, _: memoryview) -> bytes:
        facts = os.statvfs(node.magic)
        return _STATFS.pack(
            facts.f_blocks, facts.f_bfree, facts.f_bavail, facts.f_files, facts.f_ffree,
            facts.f_bsize, facts.f_namemax, facts.f_frsize, 0,
        )  # fmt: skip

    def _open_folder(self, _node: Node, _: memoryview) -> bytes:
        return _opened()

    def _ok(self, _node: Node, _: memoryview) -> bytes:
        return b""

    def _read_folder(self, node: Node, body: memoryview) -> bytes:
        _, offset, size, *_ = _IO.unpack_from(body)
        found, place = bytearray(), 0
        with os.scandir(node.magic) as entries:
            # Sorted, so that a place means the same if names come and go in between.
            for entry in sorted(entries, key=lambda one: one.name):
                place += 1
                if place <= offset:
                    continue
                name = os.fsencode(entry.name)
                one = _RECORD.pack(entry.inode(), place, len(name), 0) + name
                one += bytes(-len(one) % 8)
                if len(found) + len(one) > size:
                    break
                found += one
        return bytes(found)


def _init(body: memoryview) -> bytes:
    major, _, ahead, flags = _INIT.unpack_from(body)
    if major != _MAJOR:
        raise OSError(errno.EPROTO, "version")
    flags &= _BIG_WRITES | _ASYNC_READ
    return _INITED.pack(_MAJOR, _MINOR, ahead, flags, 16, 12, _MOST_WRITTEN, 1, 0, 0, 0, 0)


def _names(body: memoryview) -> list[str]:
    """Return names that each end with a zero byte."""
    return [os.fsdecode(name) for name in bytes(body).split(b"\0")[:-1]]


def _attributes(facts: os.stat_result) -> bytes:
    times = facts.st_atime_ns, facts.st_mtime_ns, facts.st_ctime_ns
    return _ATTRIBUTES.pack(
        facts.st_ino, facts.st_size, facts.st_blocks, *(one // 10**9 for one in times),
        *(one % 10**9 for one in times), facts.st_mode, facts.st_nlink, facts.st_uid,
        facts.st_gid, 0, 4096, 0,
    )  # fmt: skip


def _entry(node: Node) -> bytes:
    entry = _ENTRY.pack(node.number, 0, _VALID_S, _VALID_S, 0, 0)
    return entry + _attributes(os.fstat(node.fd))


def _opened() -> bytes:
    return _OPENED.pack(0, 0, 0)


class Server:
    """Serves mounts of one folder, one after the other, as the kit says."""

    def __init__(self, control: socket.socket, folder: str) -> None:
        self._control, self._image = control, DiskImage(folder)
        self._mount = Mount(self._image, self._happened)
        self._fuse = -1
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._buffer = bytearray(_MOST_WRITTEN + 4096)
        #: The events whose next one is held; what is held, and its reply.
        self._events = 0
        self._held = ""
        self._reply: bytes | None = None

    def run(self) -> None:
        """Serve until the kit is gone."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._fuse:
                    self._serve()
                elif not self._obey():
                    return

    def _serve(self) -> None:
        """Take one request, and answer it."""
        try:
            size = os.readv(self._fuse, [self._buffer])
        except OSError as failure:
            if failure.errno in _OVER:
                self._end_mount()
            return  # else it was interrupted before it was read
        reply = self._mount.answer(memoryview(self._buffer)[:size])
        if self._held:
            self._poll.unregister(self._fuse)
            self._reply = reply
            self._tell({"held": self._held})
        elif reply is not None:
            self._send(reply)

    def _send(self, reply: bytes) -> None:
        # Who asked may be gone.
        with contextlib.suppress(FileNotFoundError):
            os.write(self._fuse, reply)

    def _happened(self, event: int, node: Node | None) -> None:
        """Hold the operation under way if it is waited for."""
        if not event & self._events or node is None:
            return
        path = _below(node.path)
        if path and path.partition("/")[0] != SCRATCH:
            self._held, self._events = path, 0

    def _end_mount(self) -> None:
        if self._fuse < 0:
            return
        if not self._held:
            self._poll.unregister(self._fuse)
        os.close(self._fuse)
        self._fuse, self._held, self._events, self._reply = -1, "", 0, None
        self._image.forget_all()

    def _tell(self, what: dict[str, Any]) -> None:
        self._control.send(json.dumps(what).encode())

    def _obey(self) -> bool:
        """Do what the kit asks for; False if it is gone."""
        message, passed, _, _ = socket.recv_fds(self._control, _MESSAGE, 1)
        if not message:
            return False
        asked = json.loads(message)
        answer: dict[str, Any] = {}
        match asked["do"]:
            case "serve":
                self._end_mount()
                self._fuse = passed[0]
                os.set_blocking(self._fuse, False)
                self._poll.register(self._fuse, select.POLLIN)
            case "hold":
                self._events = asked["events"]
            case "go":
                self._go()
            case "cut":
                self._end_mount()
            case "lose":
                self._end_mount()
                lost = self._image.lose(asked["loss"], random.Random(asked["seed"]))
                answer = asdict(lost) | {"lost_files": [_below(one) for one in lost.lost_files]}
        self._tell({"done": asked["do"]} | answer)
        return True

    def _go(self) -> None:
        self._events = 0
        if not self._held:
            return
        reply, self._held, self._reply = self._reply, "", None
        self._poll.register(self._fuse, select.POLLIN)
        if reply is not None:
            self._send(reply)


def _below(path: str) -> str:
    """Return a path below the folder of the state, "" if it is not in one."""
    return path.partition("/")[2]


def main(control: int, folder: str) -> None:
    """Serve the disk of a folder."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.umask(0)
    Server(socket.socket(fileno=control), folder).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
