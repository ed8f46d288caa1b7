"""Rows on their way to a sink, as Arrow holds them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.long import LONG
from tickproof.reference.compiler.columns import OUTPUT, cell, in_log_order

SIZE, COUNT = 8 << 20, 300


def test_a_cell_takes_records_that_are_apart():
    records = np.arange(6, dtype="<u4")
    assert cell(records[::2])[0].as_py() == records[::2].tobytes()


@pytest.mark.parametrize("backwards", [False, True])
def test_rows_of_one_place_have_one_order(backwards):
    rows = [(0, 0, 7, 3, b"", 5, bytes([first, 1])) for first in (3, 1, 2)]
    found = [dict(zip(OUTPUT.names, row, strict=True)) for row in rows]
    batch = pa.RecordBatch.from_pylist(found[::-1] if backwards else found, OUTPUT)
    ((_, framed),) = in_log_order([batch])
    assert b"".join(framed) == bytes([1, 1, 2, 1, 3, 1])


@LONG
def test_the_output_of_a_task_may_be_more_than_two_gibibytes():
    # Record i is what lies at i of one buffer, so that each begins with a byte of its own.
    data = bytes(range(251)) * (SIZE // 251 + 2)
    batches = []
    for offset in reversed(range(COUNT)):
        ends = pa.py_buffer(np.array([offset, offset + SIZE], "<i4"))
        record = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(data)])
        columns = [[0], [0], [offset], [3], [b""], [5], record]
        batches.append(pa.record_batch(columns, schema=OUTPUT))
    ((stream, framed),) = in_log_order(batches)
    found = [(len(piece), *bytes(piece[:1])) for piece in framed]
    assert stream == 5
    assert found == [(SIZE, offset % 251) for offset in range(COUNT)]
