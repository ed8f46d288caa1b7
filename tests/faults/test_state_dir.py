"""The folder of the state: full for live processes, or with a damaged file."""

from __future__ import annotations

import datetime
import errno
import mmap
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.workspace import folder_size
from tickproof.conformance.fault_steps import DAMAGE
from tickproof.conformance.faults import state_dir
from tickproof.conformance.faults.state_dir import Damage, Fill, largest_before, newest

SOFT = 1 << 30
#: Answers each line "HOW PATH" on stdin with 0 or the error's number; "child ..." in a new process.
WRITER = """
import mmap, os, subprocess, sys
def write(how, path):
    try:
        if how == "map":
            with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
                view[0:1] = b"m"
        else:
            flags = {"new": os.O_CREAT | os.O_TRUNC, "over": 0, "append": os.O_APPEND}[how]
            os.write(os.open(path, os.O_WRONLY | flags), b"x" * 100)
        return 0
    except OSError as error:
        return error.errno
for line in sys.stdin:
    how, path = line.split()
    if how == "fork":
        ours, theirs = os.pipe()
        if os.fork() == 0:
            os.read(ours, 1)  # until it is told
            os._exit(write("new", path))
        os.close(ours)
        print(0, flush=True)
    elif how == "join":
        os.write(theirs, b"g")
        print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
    else:
        print(write(how, path), flush=True)
"""


class Writer:
    """A process that writes when it is told to."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (SOFT, resource.RLIM_INFINITY))

    def __call__(self, how: str, path: Path) -> int:
        self.process.stdin.write(f"{how} {path}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def living(self) -> list[process_table.Proc]:
        me = process_table.read(self.process.pid)
        below = process_table.descendants(process_table.table(), self.process.pid)
        return [proc for proc in [me, *below] if proc and process_table.living(proc)]

    def soft_limit(self) -> int:
        return resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)[0]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def writer() -> Iterator[Writer]:
    made = Writer()
    yield made
    made.close()


@pytest.fixture
def filled(writer: Writer, tmp_path: Path) -> Callable[[], Fill]:
    (tmp_path / "state").mkdir()
    return lambda: Fill(writer.living, tmp_path / "state", tmp_path / "stderr.log")


def test_nothing_can_be_written_until_it_is_over(writer, filled, tmp_path):
    folder = tmp_path / "state"
    assert [writer("new", folder / name) for name in ("a", "b")] == [0, 0]
    full = filled()
    assert full.begin() == [writer.process.pid]
    for how in ("new", "over", "append"):
        assert writer(how, folder / "a") == errno.EFBIG
    assert (folder / "b").stat().st_size == 100
    assert full.end()["empty"] == ["a"]
    assert writer.soft_limit() == SOFT
    assert writer("append", folder / "b") == 0
    assert (folder / "b").stat().st_size == 200


def test_a_process_that_is_forked_meanwhile_is_held_and_let_go(writer, filled, tmp_path):
    full = filled()
    full.begin()
    writer("fork", tmp_path / "state" / "held")
    assert writer("join", tmp_path) == errno.EFBIG
    writer("fork", tmp_path / "state" / "free")
    full.end()
    assert writer("join", tmp_path) == 0
    assert (tmp_path / "state" / "free").stat().st_size == 100


def test_a_process_that_lived_before_is_held(writer, filled, tmp_path):
    writer("fork", tmp_path / "state" / "held")
    full = filled()
    assert len(full.begin()) == 2
    assert writer("join", tmp_path) == errno.EFBIG
    full.end()


def test_a_memory_map_of_a_file_that_has_its_size_is_not_held(writer, filled, tmp_path):
    """The protocol says so; the evidence is then missing."""
    path = tmp_path / "state" / "mapped"
    path.write_bytes(b"-" * mmap.PAGESIZE)
    full = filled()
    full.begin()
    assert writer("map", path) == 0
    assert full.end() == {"empty": [], "words": "", "lifted": [], "grown": []}
    assert path.read_bytes()[:1] == b"m"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("java.io.IOException: File too large", True),
        ("OSError: [Errno 28] No space left on device", True),
        ("write: EFBIG", True),
        ("SIGXFSZ: file size limit exceeded", True),
        ("all is well", False),
    ],
)
def test_words_on_standard_error_count_from_its_beginning_on(filled, tmp_path, line, found):
    stderr = tmp_path / "stderr.log"
    stderr.write_text("OSError: File too large, long ago\n")
    full = filled()
    full.begin()
    with stderr.open("a") as file:
        file.write(f"one\n{line}\x1b\ntwo\n")
    words = full.end()["words"]
    assert bool(words) is found
    assert "long ago" not in words
    assert "\x1b" not in words


def test_who_lifts_the_limit_is_seen(writer, filled, tmp_path):
    path = tmp_path / "state" / "a"
    full = filled()
    full.begin()
    resource.prlimit(writer.process.pid, resource.RLIMIT_FSIZE, (SOFT, SOFT))
    assert writer("new", path) == 0
    facts = full.end()
    assert (facts["lifted"], facts["grown"]) == ([writer.process.pid], ["a"])


def test_a_file_that_comes_from_elsewhere_has_grown(writer, filled, tmp_path):
    writer("new", tmp_path / "elsewhere")
    writer("new", tmp_path / "state" / "old")
    full = filled()
    full.begin()
    (tmp_path / "elsewhere").rename(tmp_path / "state" / "new")
    (tmp_path / "state" / "old").rename(tmp_path / "state" / "renamed")
    assert full.end()["grown"] == ["new"]


def test_the_hard_limit_is_lowered_only_if_it_can_be_raised_again(writer, filled, monkeypatch):
    for may_raise in (False, state_dir._may_raise()):
        monkeypatch.setattr(state_dir, "_may_raise", lambda may_raise=may_raise: may_raise)
        full = filled()
        full.begin()
        hard = 0 if may_raise else resource.RLIM_INFINITY
        assert resource.prlimit(writer.process.pid, resource.RLIMIT_FSIZE) == (0, hard)
        full.end()
        limits = resource.prlimit(writer.process.pid, resource.RLIMIT_FSIZE)
        assert limits == (SOFT, resource.RLIM_INFINITY)


def test_who_stood_still_before_stands_still_after(writer, filled):
    process = psutil.Process(writer.process.pid)
    process.suspend()
    while process.status() != "stopped":
        time.sleep(0.01)
    full = filled()
    full.begin()
    assert process.status() == "stopped"
    process.resume()
    assert full.end()["lifted"] == []


def test_no_process_at_all_is_a_fault_that_missed(filled, writer):
    full = filled()
    writer.close()
    with pytest.raises(LookupError, match="no process of the engine"):
        full.begin()


# -- damage --------------------------------------------------------------------------


def damaged(content, kind, seed=1):
    """Damage a file of some content; return what is left of it, None where it is gone."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "cut"
        path.write_bytes(content)
        path.chmod(0o400)
        os.utime(path, ns=(7, 8))
        damage = Damage(Path(name), kind, random.Random(seed))
        assert not path.exists() or path.stat().st_mtime_ns == 8  # no way to see the damage
        damage.was_read()
        left = path.read_bytes() if path.exists() else None
        facts = {"file": "cut", "size": len(content), "left": len(left or b""), "how": DAMAGE[kind]}
        if kind.startswith("bit"):
            (place,) = differences(left, content)
            bit = (left[place] ^ content[place]).bit_length() - 1
            facts |= {"place": place, "bit": bit}
        assert damage.facts() == facts
        assert left is None or path.stat().st_mode & 0o777 == 0o400
        return left


def differences(left, content):
    return [i for i in range(len(left)) if left[i] != content[i]]


@given(st.binary(min_size=1, max_size=300), st.integers())
def test_each_kind_of_damage_does_what_it_says(content, seed):
    half = damaged(content, "half")
    assert len(half) == len(content) // 2
    assert differences(half, content) == [len(half) // 2][: len(half)]
    assert damaged(content, "tail") == content[: max(0, len(content) - 16)]
    assert damaged(content, "empty") == b""
    assert damaged(content, "missing") is None
    bit = damaged(content, "bit", seed)
    assert len(bit) == len(content)
    (place,) = differences(bit, content)
    assert 0 <= place < len(content)
    assert (bit[place] ^ content[place]).bit_count() == 1
    garbage = damaged(content, "garbage", seed)
    assert len(garbage) == len(content) and garbage == damaged(content, "garbage", seed)
    assert len(content) < 30 or len(differences(garbage, content)) > len(content) // 2


def test_bits_are_flipped_all_over_a_file_and_half_of_them_in_its_head():
    content = bytes(64_000)
    places = [differences(damaged(content, "bit", seed), content)[0] for seed in range(200)]
    assert 60 < sum(place < 512 for place in places) < 140
    assert max(places) > 60_000 and len({place // 16_000 for place in places}) == 4


@pytest.mark.parametrize(
    ("kind", "low", "end"),
    [("bit-head", 0, 512), ("bit-middle", 16_000, 48_000), ("bit-last", 48_000, 64_000)],
)
def test_a_bit_is_flipped_in_the_part_of_a_file_that_is_named(kind, low, end):
    content = bytes(64_000)
    places = [differences(damaged(content, kind, seed), content)[0] for seed in range(200)]
    assert low <= min(places) < low + (end - low) // 8
    assert end - (end - low) // 8 < max(places) < end


@given(st.binary(min_size=1, max_size=9), st.sampled_from(["bit-head", "bit-middle", "bit-last"]))
def test_a_bit_of_the_smallest_file_is_flipped_too(content, kind):
    (place,) = differences(damaged(content, kind), content)
    assert 0 <= place < len(content)


def test_garbage_covers_a_file_of_several_pieces():
    content = bytes((1 << 20) + 77)
    garbage = damaged(content, "garbage")
    assert len(garbage) == len(content)
    assert len(set(garbage[: 1 << 20])) == 256 and len(set(garbage[1 << 20 :])) > 40


def test_garbage_fills_no_disk(tmp_path):
    """A sparse file may have any size."""
    with (tmp_path / "cut").open("wb") as file:
        file.truncate(1 << 40)
    Damage(tmp_path, "garbage", random.Random(1))
    facts = (tmp_path / "cut").stat()
    assert facts.st_size == 1 << 40
    assert 0 < facts.st_blocks * 512 <= 80 << 20


times = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 2)))


@given(times)
def test_newest_is_the_last_changed_with_content(rows):
    """Against an oracle: sorted by ctime, mtime, then path, with any mtime."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = {}
        for number, (below, t, size) in enumerate(rows):
            path = folder / below / str(number)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"x" * size)
            os.utime(path, ns=(t, t))
            if size:
                written[str(path)] = (path.stat().st_ctime_ns, t)
        expected = max(written, key=lambda path: (written[path], path), default=None)
        assert newest(folder) == (Path(expected) if expected else None)


@pytest.mark.parametrize("year", [1970, 2100])
def test_an_engine_cannot_choose_what_is_damaged_by_an_mtime(tmp_path, year):
    decoy, cut = tmp_path / "decoy", tmp_path / "cut"
    decoy.write_text("a decoy")
    t = int(datetime.datetime(year, 1, 2, tzinfo=datetime.UTC).timestamp())
    os.utime(decoy, (t, t))
    _later_than(decoy)
    cut.write_text("a cut")
    os.utime(cut, (0, 0))
    assert newest(tmp_path) == cut


def test_the_largest_file_before_the_newest_is_found(tmp_path, monkeypatch):
    assert largest_before(tmp_path) is None
    old, state, rest = tmp_path / "old", tmp_path / "state", tmp_path / "rest"
    for path, size in ((old, 300), (state, 200), (rest, 400)):
        path.write_bytes(b"x" * size)
        _later_than(path)
    assert newest(tmp_path) == rest
    assert largest_before(tmp_path) == old
    apart_s = (rest.stat().st_ctime_ns - state.stat().st_ctime_ns) / 1e9 + 1e-6
    monkeypatch.setattr("tickproof.conformance.faults.state_dir.NEW_S", apart_s)
    assert largest_before(tmp_path) == state
    state.unlink()
    assert largest_before(tmp_path) == rest  # which stands alone


def _later_than(path: Path) -> None:
    """Wait until what is written now has a later time: clocks of file systems tick slowly."""
    probe = path.with_suffix(".tmp")
    while True:
        probe.write_text("x")
        if probe.stat().st_ctime_ns > path.stat().st_ctime_ns:
            return
        time.sleep(0.001)


@pytest.mark.parametrize("name", ["3.tmp", ".3.temp", "3.part", ".3.tmp.crc"])
def test_a_file_that_is_not_finished_is_left_alone(tmp_path, name):
    cut, unfinished = tmp_path / "tmp.part-2", tmp_path / name
    unfinished.write_text("half a cut")
    assert newest(tmp_path) is None
    cut.write_text("a whole one")
    os.utime(cut, ns=(0, 0))
    assert newest(tmp_path) == cut


def test_links_scratch_and_what_has_a_name_elsewhere_are_left_alone(tmp_path):
    state, mine = tmp_path / "state", tmp_path / "mine"
    (state / "scratch").mkdir(parents=True)
    (state / "scratch" / "log").write_text("newest")
    mine.write_text("not the engine's")
    (state / "soft").symlink_to(mine)
    (state / "hard").hardlink_to(mine)
    assert newest(state) is None
    with pytest.raises(LookupError, match="no file with content"):
        _halved(state)
    (state / "cut").write_text("cut")
    (state / "same-cut").hardlink_to(state / "cut")
    assert newest(state) == state / "same-cut"
    assert mine.read_text() == "not the engine's"


def test_a_folder_that_became_a_link_is_left_alone(tmp_path):
    """Its engine may do that in its sandbox, and the kit damages files outside of it."""
    mine, state = tmp_path / "mine", tmp_path / "state"
    mine.mkdir()
    (mine / "precious").write_text("not the engine's")
    state.symlink_to(mine)
    assert newest(state) is None
    with pytest.raises(LookupError, match="no file with content"):
        _halved(state)
    assert folder_size(state) == (0, 0)
    assert (mine / "precious").read_text() == "not the engine's"


def _halved(folder: Path) -> Damage:
    return Damage(folder, "half", random.Random(1))


def _read(path: Path) -> None:
    assert path.read_bytes()


def _mapped(path: Path) -> None:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        assert view[0]


def _replaced(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(b"new")
    other.replace(path)


def _overwritten(path: Path) -> None:
    path.write_bytes(b"new")


@pytest.mark.parametrize(
    ("use", "read"), [(_read, True), (_mapped, True), (_replaced, False), (_overwritten, False)]
)
def test_whether_a_damaged_file_was_read_is_seen(tmp_path, use, read):
    (tmp_path / "cut").write_bytes(b"0123456789")
    damage = _halved(tmp_path)
    use(tmp_path / "cut")
    assert damage.was_read() is read
    assert damage.was_read() is None  # said once


def test_a_file_that_nobody_touched_was_not_read(tmp_path):
    (tmp_path / "cut").write_bytes(b"0123456789")
    assert _halved(tmp_path).was_read() is False
