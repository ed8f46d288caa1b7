"""The recorder against a slow, obvious model, and on a disk that is full."""

from __future__ import annotations

import errno
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.log_server.logbench import append, recorded
from tests.long import few
from tickproof.conformance.log_server.frames import Code, CommitOutcome
from tickproof.conformance.log_server.recorder import Recorder, Refused

NONE = 2**64 - 1


class Model:
    """Output of one stream as lists and dicts."""

    def __init__(self):
        self.log, self.next, self.owner, self.style = [], {}, {}, {}
        self.staged, self.committed = {}, set()

    def admit(self, connection, writer, first, values):
        if self.owner.get(writer, connection) != connection:
            return Code.FENCED
        if values and self.style.get(writer, first != NONE) != (first != NONE):
            return Code.NOT_ALLOWED
        return None

    def put(self, writer, first, values):
        if values:
            self.log.append((writer, first, values))
        if first != NONE:
            self.next[writer] = max(self.next.get(writer, 0), first + len(values))

    def gap(self, writer, first):
        return first != NONE and first > self.next.get(writer, 0)

    def append(self, connection, writer, first, values):
        if error := self.admit(connection, writer, first, values):
            return error
        if self.gap(writer, first):
            return Code.SEQUENCE_GAP
        if values:
            self.style[writer] = first != NONE
        self.put(writer, first, values)
        return self.next.get(writer, 0)

    def have(self, connection, writer):
        self.owner[writer] = connection
        return self.next.get(writer, 0)

    def stage(self, connection, txn, writer, first, values):
        if txn in self.committed:
            return None
        if error := self.admit(connection, writer, first, values):
            return error
        if values:
            self.style[writer] = first != NONE
        self.staged.setdefault(txn, {})[writer] = first, values
        return None

    def commit(self, txn):
        if txn in self.committed:
            return CommitOutcome.ALREADY
        if txn not in self.staged:
            return CommitOutcome.UNKNOWN
        if any(self.gap(writer, first) for writer, (first, _) in self.staged[txn].items()):
            return Code.SEQUENCE_GAP
        for writer, (first, values) in self.staged.pop(txn).items():
            self.put(writer, first, values)
        self.committed.add(txn)
        return CommitOutcome.COMMITTED

    def abort(self, txn):
        self.staged.pop(txn, None)


connections, writers, txns = st.integers(1, 3), st.integers(0, 1), st.integers(0, 2)
firsts = st.one_of(st.integers(0, 6), st.just(NONE))
values = st.lists(st.integers(0, 99), max_size=3)
steps = st.one_of(
    st.tuples(st.just("append"), connections, writers, firsts, values),
    st.tuples(st.just("have"), connections, writers),
    st.tuples(st.just("stage"), connections, txns, writers, firsts, values),
    st.tuples(st.just("commit"), txns),
    st.tuples(st.just("abort"), txns),
)


def play(recorder, step):
    op, *rest = step
    try:
        match op:
            case "append":
                connection, writer, first, numbers = rest
                return recorder.append(append(first, *numbers, writer=writer), connection)
            case "have":
                connection, writer = rest
                return recorder.have(0, writer, connection)
            case "stage":
                connection, txn, writer, first, numbers = rest
                return recorder.stage(txn, append(first, *numbers, writer=writer), connection)
            case "commit":
                return recorder.commit(rest[0], 1)
            case "abort":
                return recorder.abort(rest[0])
    except Refused as refused:
        return refused.code


def digests(folder):
    """Return the SHA-256 of the files of stream 0 that are there, by name."""
    held = [path for path in folder.iterdir() if path.stem == "s0"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in held}


@pytest.mark.parametrize("in_log", [True, False])
@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25))
def test_recorder_does_what_the_model_does(in_log, sequence):
    model = Model()
    with tempfile.TemporaryDirectory() as name:
        recorder = Recorder(Path(name), {0: 8}, lambda *_, **__: None, in_log)
        for step in sequence:
            assert play(recorder, step) == getattr(model, step[0])(*step[1:]), step
        assert recorder.staged_open == sum(
            any(numbers for _, numbers in txn.values()) for txn in model.staged.values()
        )
        assert recorder.records == sum(len(numbers) for *_, numbers in model.log)
        recorder.close()
        assert recorded(Path(name)) == model.log
        assert digests(Path(name)).items() <= recorder.sha256().items()


def nobody(*_, **__):
    """Hear no event."""


@pytest.mark.parametrize("in_log", [True, False])
def test_staged_records_wait_in_the_log_where_nobody_reads_it(tmp_path, in_log):
    recorder = Recorder(tmp_path, {0: 8}, nobody, in_log)
    log, aside = tmp_path / "s0.log", tmp_path / "staged.bin"
    recorder.stage(1, append(0, 5, 6), 1)
    recorder.stage(1, append(0, 7, writer=1), 1)
    assert (log.stat().st_size, aside.stat().st_size) == ((36, 0) if in_log else (0, 36))
    assert (recorder.records, recorder.taken, recorder.bytes) == (0, 3, 36)
    recorder.commit(1, 1)
    assert (log.stat().st_size, aside.stat().st_size, recorder.bytes) == (36, 0, 36)
    recorder.stage(2, append(2, 8), 1)
    recorder.abort(2)
    assert log.stat().st_size == 36
    recorder.stage(3, append(2, 9), 1)  # neither committed nor aborted
    recorder.close()
    assert recorded(tmp_path) == [(0, 0, [5, 6]), (1, 0, [7])]
    assert digests(tmp_path).items() <= recorder.sha256().items()


def test_what_waits_in_the_log_makes_way(tmp_path):
    recorder = Recorder(tmp_path, {0: 8}, nobody)
    recorder.stage(1, append(0, 5), 1)
    recorder.append(append(0, 6, writer=1), 1)
    recorder.stage(2, append(0, 7, writer=2), 1)
    recorder.stage(1, append(0, 8, writer=3), 1)
    recorder.commit(1, 1)
    recorder.stage(2, append(0, 9, writer=2), 1)
    recorder.commit(2, 1)
    recorder.close()
    values = [(1, 0, [6]), (0, 0, [5]), (3, 0, [8]), (2, 0, [9])]
    assert recorded(tmp_path) == values
    assert digests(tmp_path).items() <= recorder.sha256().items()


@pytest.mark.parametrize("again", ["first", "last"])
def test_a_stage_that_was_replaced_leaves_no_gap_in_the_log(tmp_path, again):
    recorder = Recorder(tmp_path, {0: 8}, nobody)
    recorder.stage(1, append(0, 5), 1)
    recorder.stage(1, append(0, 6, writer=1), 1)
    recorder.stage(1, append(0, 7, 8, writer=int(again == "last")), 1)
    recorder.commit(1, 1)
    recorder.append(append(0, 9, writer=2), 1)
    recorder.close()
    first, last = ([7, 8], [6]) if again == "first" else ([5], [7, 8])
    assert recorded(tmp_path) == [(0, 0, first), (1, 0, last), (2, 0, [9])]
    assert digests(tmp_path).items() <= recorder.sha256().items()


COMMIT_INTO_A_FULL_DISK = """
import json, os, resource, signal, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from tests.log_server.logbench import append
from tickproof.conformance.log_server.recorder import Recorder

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
recorder = Recorder(Path({folder!r}), {{0: 8}}, lambda *_, **__: None)
for writer in range(3):
    recorder.stage(1, append(0, writer, writer=writer), 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    recorder.commit(1, 1)
except OSError as error:
    raised = error.errno
recorder.close()
print(json.dumps([raised, recorder.sha256()["s0.log"]]))
"""


def test_a_disk_that_fills_up_in_the_middle_of_a_commit_leaves_a_true_digest(tmp_path):
    code = COMMIT_INTO_A_FULL_DISK.format(here=ROOT, folder=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    raised, digest = json.loads(done.stdout)
    assert raised == errno.ENOSPC  # for the row of the third
    assert (tmp_path / "s0.log").stat().st_size == 24  # two arrivals of 49 bytes have room
    assert digest == digests(tmp_path)["s0.log"]


ROOT = str(Path(__file__).parents[2])
FULL_DISK = """
import json, resource, signal, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from tests.log_server.logbench import append
from tickproof.conformance.log_server.recorder import Recorder, Refused

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
recorder = Recorder(Path({folder!r}), {{0: {size}}}, lambda *_, **__: None)
taken, error = 0, ""
try:
    while taken < 10_000:
        frame = append(taken, *range(taken, taken + 7))
        if {staged}:
            recorder.stage(taken, frame, 1)
            recorder.commit(taken, 1)
        else:
            recorder.append(frame, 1)
        taken += 7
except OSError as raised:
    error = str(raised)
again = ""
try:
    recorder.commit(taken, 1) if {staged} else recorder.append(append(taken, 1), 1)
except Refused as refused:
    again = str(refused)
print(json.dumps([taken, error, again, str(recorder.failure)]))
"""


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("limit", few([1001, 1000, 4099]))
def test_full_disk_stops_the_recording_at_a_whole_frame(tmp_path, limit, staged):
    code = FULL_DISK.format(here=ROOT, folder=str(tmp_path), limit=limit, staged=staged, size=8)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    taken, error, again, failure = json.loads(done.stdout)
    assert 0 < taken < 10_000
    assert error
    assert failure == error
    assert again == "the recording has stopped"
    assert [n for _, _, part in recorded(tmp_path) for n in part] == list(range(taken))


def test_full_disk_while_odd_sized_records_are_kept_is_noticed(tmp_path):
    code = FULL_DISK.format(here=ROOT, folder=str(tmp_path), limit=1000, staged=False, size=5)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    _, error, again, failure = json.loads(done.stdout)
    assert error == failure
    assert again == "the recording has stopped"


@pytest.fixture
def few(monkeypatch, tmp_path):
    """A recorder that takes three writers, and holds three STAGE back."""
    monkeypatch.setattr("tickproof.conformance.log_server.recorder.MOST_WRITERS", 3)
    monkeypatch.setattr("tickproof.conformance.log_server.recorder.MOST_STAGED", 3)
    recorder = Recorder(tmp_path, {0: 8}, lambda *_, **__: None)
    yield recorder
    recorder.close()


def test_a_stream_has_only_so_many_writers(few):
    for writer in range(3):
        assert few.have(0, writer, 1) == 0
    for refused in (lambda: few.have(0, 3, 1), lambda: few.append(append(0, 1, writer=3), 1)):
        with pytest.raises(Refused, match="more than 3 writers of one stream") as error:
            refused()
        assert error.value.code is Code.NOT_ALLOWED
    assert few.append(append(0, 5, writer=2), 1) == 1


def test_only_so_much_is_held_back_at_a_time(few):
    for txn in range(3):
        few.stage(txn, append(NONE, txn), 1)
    few.stage(0, append(NONE, 7, 8), 1)  # takes the place of an earlier one
    with pytest.raises(Refused, match="more than 3 open STAGE") as error:
        few.stage(3, append(NONE, 3), 1)
    assert error.value.code is Code.NOT_ALLOWED
    few.abort(1)
    few.stage(3, append(NONE, 3), 1)
    assert few.commit(0, 1) is CommitOutcome.COMMITTED
    few.stage(4, append(NONE, 4), 1)
    with pytest.raises(Refused, match="more than 3 open STAGE"):
        few.stage(5, append(NONE, 5), 1)
    assert few.records == 2
