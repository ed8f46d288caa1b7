"""The disk that loses its power, under real programs in a sandbox."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inotify_simple import flags

from tests.long import few
from tickproof.conformance.engines import isolation
from tickproof.conformance.engines.disk import Disk

if why := isolation.disk_obstacle():
    pytest.skip(f"no disk: {why}", allow_module_level=True)

ENGINES = Path(isolation.__file__).parent
#: A program in a sandbox whose folder of states is a disk; the descriptor of the mount comes first.
INSIDE = """
import os, signal, sys
sys.path.append({engines!r})
import sandbox
workspace, status = sys.argv[1], int(sys.argv[2])
sandbox.unshare()
init = os.fork()
if init:
    print(init, flush=True)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(init, 0)[1]) & 127)
fuse = sandbox.furnish(workspace, [], disk=True)
sandbox.send(status, b"disk", fuse)
os.close(fuse)
os.chdir(workspace + "/states/run")
exec({program!r})
"""


class Machine:
    """A folder on a disk, and the program that uses it until the power is lost."""

    def __init__(self, folder: Path) -> None:
        for name in ("cwd", "tmp", "states/run"):
            (folder / name).mkdir(parents=True)
        self.folder, self.state = folder, folder / "states" / "run"
        self.disk = Disk(folder / "states")
        self.program: subprocess.Popen[str] | None = None

    def start(self, program: str) -> None:
        """Start a program in the folder; it ends with the power, or by itself."""
        ours, theirs = socket.socketpair()
        script = INSIDE.format(engines=str(ENGINES), program=program)
        command = [sys.executable, "-c", script, str(self.folder), str(theirs.fileno())]
        self.program = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, text=True
        )
        theirs.close()
        self.init = int(self.line())
        with ours:
            _, passed, _, _ = socket.recv_fds(ours, 16, 1)
        self.disk.serve(passed[0])

    def line(self) -> str:
        """Return the next line that the program prints; "" at its end."""
        assert self.program is not None and self.program.stdout is not None
        return self.program.stdout.readline().strip()

    def lose(self, loss: str, seed: int = 1) -> dict[str, Any]:
        """Lose the power."""
        assert self.program is not None
        os.kill(self.init, signal.SIGSTOP)
        self.disk.cut()
        os.kill(self.init, signal.SIGKILL)
        self.said, _ = self.program.communicate()
        return self.disk.lose(loss, seed)

    def run(self, program: str) -> str:
        """Run a program to its end; return what it prints."""
        self.start(program)
        assert self.program is not None
        out, _ = self.program.communicate(timeout=60)
        return out


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "machine")
    with made.disk:
        yield made
        if made.program is not None and made.program.poll() is None:
            os.kill(made.init, signal.SIGKILL)
            made.program.communicate()


#: Ways to put a new version of a file in the place of an old one, and whether they are safe.
REPLACE = """
new = open("new", "wb")
new.write(b"second" * 1000)
new.flush()
{before}
os.rename("new", "file")
{after}
print("done", flush=True)
signal.pause()
"""
SYNC = "os.fsync(new.fileno())"
FOLDER = "os.fsync(os.open('.', os.O_RDONLY))"


@pytest.mark.parametrize(
    ("before", "after", "loss", "left"),
    [
        (SYNC, FOLDER, "all", b"second" * 1000),
        (SYNC, FOLDER, "content", b"second" * 1000),
        (SYNC, "", "all", b"first"),
        (SYNC, "", "content", b"second" * 1000),
        ("", FOLDER, "all", b""),
        ("", "", "content", b""),
        ("", SYNC, "all", b"second" * 1000),
        ("os.fdatasync(new.fileno())", FOLDER, "all", b"second" * 1000),
    ],
)
def test_a_file_is_replaced_as_far_as_it_was_synced(
    machine: Machine, before: str, after: str, loss: str, left: bytes
) -> None:
    (machine.state / "file").write_bytes(b"first")
    machine.start(REPLACE.format(before=before, after=after))
    assert machine.line() == "done"
    lost = machine.lose(loss)
    assert (machine.state / "file").read_bytes() == left
    assert (lost["lost_names"] + lost["lost_bytes"] > 0) is (left != b"second" * 1000)
    assert lost["writes"] >= 3


#: Ways to write that need no fsync, or that have one of their own.
WRITES = {
    "dsync": "os.write(os.open('file', os.O_WRONLY | os.O_DSYNC), b'second')",
    "sync": "os.write(os.open('file', os.O_WRONLY | os.O_SYNC), b'second')",
    "msync": "import mmap; m = mmap.mmap(os.open('file', os.O_RDWR), 6)\n"
    "m[:] = b'second'; m.flush()",
    "mmap and fsync": "import mmap; f = os.open('file', os.O_RDWR); m = mmap.mmap(f, 6)\n"
    "m[:] = b'second'; os.fsync(f)",
    "nothing": "os.write(os.open('file', os.O_WRONLY), b'second')",
}


@pytest.mark.parametrize("way", WRITES)
def test_a_write_is_durable_by_what_it_says(machine: Machine, way: str) -> None:
    (machine.state / "file").write_bytes(b"first!")
    machine.start(WRITES[way] + "\nprint('done', flush=True); signal.pause()")
    assert machine.line() == "done"
    assert (machine.state / "file").read_bytes() == b"second"
    lost = machine.lose("all")
    left = b"first!" if way == "nothing" else b"second"
    assert (machine.state / "file").read_bytes() == left
    assert bool(lost["lost_bytes"]) is (way == "nothing")


def test_a_disk_does_what_any_other_does(machine: Machine) -> None:
    out = machine.run("""
import fcntl, shutil, stat, subprocess
os.makedirs("a/b"); open("a/b/c", "w").write("x" * 300_000)
os.symlink("c", "a/b/link"); os.link("a/b/c", "a/other"); os.mkfifo("pipe")
assert os.readlink("a/b/link") == "c" and os.stat("a/other").st_nlink == 2
assert stat.S_ISFIFO(os.stat("pipe").st_mode)
os.rename("a/b", "moved"); assert sorted(os.listdir("moved")) == ["c", "link"]
assert open("moved/link").read() == "x" * 300_000
os.chmod("moved/c", 0o640); os.utime("moved/c", ns=(5, 7 * 10**9))
facts = os.stat("moved/c"); assert (facts.st_mode & 0o777, facts.st_mtime_ns) == (0o640, 7 * 10**9)
with open("moved/c", "r+b") as file:
    fcntl.flock(file, fcntl.LOCK_EX); fcntl.lockf(file, fcntl.LOCK_EX)
    file.truncate(10); os.posix_fallocate(file.fileno(), 0, 20)
    assert file.read() == b"x" * 10 + bytes(10)
    file.seek(0, 2); os.unlink("moved/c"); file.write(b"y"); file.flush()
    assert os.fstat(file.fileno()).st_size == 21
for n in range(500): open(f"many-{n}", "w").close()
assert len(os.listdir(".")) == 503 and os.statvfs(".").f_bsize
with open("append", "ab") as file: file.write(b"1"); file.flush(); file.write(b"2")
for wrong in (lambda: os.mkdir("moved"), lambda: os.rmdir("moved"), lambda: open("none")):
    try: wrong()
    except OSError as error: print(error.errno)
shutil.rmtree("moved")
print(subprocess.run(["cat", "append"], capture_output=True).stdout)
""")
    assert out.split("\n") == ["17", "39", "2", "b'12'", ""]
    assert (machine.state / "append").read_bytes() == b"12"


#: Losses of one database, one after the other.
LOSSES = 4
#: Each row is committed, then said.
DATABASE = """
import sqlite3
base = sqlite3.connect("base", isolation_level=None)
base.execute("pragma journal_mode={mode}"); base.execute("pragma synchronous={synchronous}")
base.execute("create table if not exists rows(n integer primary key, text)")
first = base.execute("select coalesce(max(n), 0) from rows").fetchone()[0]
for n in range(first + 1, first + 100_000):
    base.execute("begin"); base.execute("insert into rows values(?, ?)", (n, "x" * (n * 37 % 3000)))
    base.execute("commit")
    if n % 7 == 0: base.execute("pragma wal_checkpoint")
    print(n, flush=True)
"""


@pytest.mark.parametrize("loss", few(["drawn", "all", "content"]))
@pytest.mark.parametrize(
    ("mode", "synchronous"), [("wal", "full"), ("delete", "extra"), ("truncate", "full")]
)
def test_a_database_keeps_what_it_committed(
    machine: Machine, mode: str, synchronous: str, loss: str
) -> None:
    for seed in range(LOSSES):
        machine.start(DATABASE.format(mode=mode, synchronous=synchronous))
        for _ in range(4 + 3 * seed):
            said = int(machine.line())
        machine.lose(loss, seed)
        shutil.copytree(machine.state, machine.folder / "copy")
        with sqlite3.connect(machine.folder / "copy" / "base") as base:
            assert base.execute("pragma integrity_check").fetchone() == ("ok",)
            assert base.execute("select max(n), count(*) from rows").fetchone() >= (said, said)
        base.close()
        shutil.rmtree(machine.folder / "copy")


def test_a_database_that_does_not_sync_loses_rows(machine: Machine) -> None:
    machine.start(DATABASE.format(mode="delete", synchronous="off"))
    for _ in range(20):
        said = int(machine.line())
    assert said == 20
    assert machine.lose("all")["lost_bytes"]
    assert not (machine.state / "base").exists()


def test_what_is_held_is_done_and_nothing_comes_after_it(machine: Machine) -> None:
    with machine.disk.hold(flags.MOVED_TO) as hold:
        machine.start(REPLACE.format(before=SYNC, after=FOLDER))
        assert hold.wait(20) == "file"
    assert (machine.state / "file").exists() and not (machine.state / "new").exists()
    lost = machine.lose("all")
    assert lost["lost_names"] == 1 and lost["lost_files"] == ["file"]
    assert (machine.state / "new").exists() and not (machine.state / "file").exists()
    assert machine.said == ""


def test_nothing_is_held_after_the_wait(machine: Machine) -> None:
    with machine.disk.hold(flags.DELETE) as hold:
        machine.start(REPLACE.format(before=SYNC, after=FOLDER))
        assert hold.wait(0.2) == ""
    assert machine.line() == "done"


def mounts() -> list[str]:
    """Return the mounts of FUSE that any process sees, by its pid."""
    found = []
    for path in Path("/proc").glob("[0-9]*/mountinfo"):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        found += [f"{path}: {line}" for line in lines if " - fuse disk " in line]
    return found


#: A kit that dies with the program and the disk that it started.
KIT = """
import os, sys, time
from pathlib import Path
from tests.engines.test_disk import Machine
machine = Machine(Path(sys.argv[1]))
machine.start("print('up', flush=True); open('f', 'w').write('x'); signal.pause()")
print(machine.line(), machine.init, machine.disk._server.pid, flush=True)
time.sleep(600)
"""


def test_no_mount_and_no_server_outlives_the_kit(
    tmp_path: Path, eventually: Callable[[Callable[[], bool]], bool]
) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", KIT, str(tmp_path / "m")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as kit:
        assert kit.stdout is not None
        word, init, server = kit.stdout.readline().split()
        assert word == "up" and any(str(tmp_path) in one for one in mounts())
        kit.kill()
    assert eventually(lambda: not Path("/proc", server).exists())
    os.kill(int(init), signal.SIGKILL)  # which a reaper does, as tests/engines/test_kit_death shows
    assert eventually(lambda: not any(str(tmp_path) in one for one in mounts()))
    assert not os.path.ismount(tmp_path / "m" / "states")
