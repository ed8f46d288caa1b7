"""The sink: how output is cut into pieces, and when a batch counts as committed."""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.served import chunk, numbers, refused, serving_numbers
from tickproof.reference.apps.double import NUMBER
from tickproof.reference.connectors import sink, wire


@pytest.fixture
def served(tmp_path):
    with serving_numbers(tmp_path) as made:
        yield made


@settings(deadline=None)
@given(
    size=st.integers(0, 30),
    count=st.integers(0, 60),
    stage=st.integers(34, 200),
    borders=st.lists(st.integers(0, 60), max_size=12),
)
def test_pieces_depend_on_the_records_alone(size, count, stage, borders):
    records = [struct.pack("<I", size) + bytes([i] * size) for i in range(count)]
    cuts = sorted([0, count, *(min(border, count) for border in borders)])
    blocks = [b"".join(records[a:b]) for a, b in pairwise(cuts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink, "STAGE_BYTES", stage)
        pieces = list(sink.pieces(map(memoryview, blocks)))
    fit = stage // (4 + size)
    expected = [records[i : i + fit] for i in range(0, count, fit)]
    assert [(0, len(part), b"".join(part)) for part in expected] == pieces


def test_records_of_two_sizes_do_not_fit_one_stream():
    blocks = [struct.pack("<I", size) + bytes(size) for size in (3, 3, 9)]
    with refused("expected records of 3 bytes, got one of 9"):
        list(sink.pieces(map(memoryview, blocks)))


def test_a_batch_is_committed_as_often_as_it_runs(served):
    client = served.connect()
    client.stage(8, 0, 1, client.have(0, 1), chunk(1, 2))
    for _ in range(2):
        sink.commit(served.options, 8, may_be_done=True)
    assert served.outputs(NUMBER)["x"].tolist() == [1, 2]
    with refused("COMMIT of batch 9: the log does not know the transaction"):
        sink.commit(served.options, 9, may_be_done=True)


def test_a_batch_that_another_has_committed(served):
    client = served.connect()
    client.stage(8, 0, 1, client.have(0, 1), chunk(1, 2))
    client.commit(8)
    with refused("COMMIT of batch 8: another checkpoint or application has done it"):
        sink.commit(served.options, 8, may_be_done=False)


def test_a_commit_whose_answer_was_lost(served, monkeypatch):
    client = served.connect()
    client.stage(8, 0, 1, client.have(0, 1), chunk(1, 2))
    commit, answers = wire.Log.commit, []

    def lost_once(log: wire.Log, txn: int) -> int:
        answers.append(commit(log, txn))
        if len(answers) == 1:
            raise wire.Passing("the answer is lost")
        return answers[-1]

    monkeypatch.setattr(wire.Log, "commit", lost_once)
    sink.commit(served.options, 8, may_be_done=False)
    assert answers == [sink.COMMITTED, sink.ALREADY]
    assert served.outputs(NUMBER)["x"].tolist() == [1, 2]


def test_a_piece_fits_a_stage(served):
    count = wire.STAGE_BYTES // NUMBER.itemsize
    pieces = list(sink.pieces([memoryview(numbers(count + 1).tobytes())]))
    assert [piece.count for piece in pieces] == [count, 1]
    client = served.connect()
    for writer, piece in enumerate(pieces):
        client.stage(0, 0, writer, client.have(0, writer), piece)
    assert client.commit(0) == sink.COMMITTED
    assert np.array_equal(served.outputs(NUMBER), numbers(count + 1))
