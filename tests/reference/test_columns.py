"""Rows on their way to a sink, as Arrow holds them."""

from __future__ import annotations

import pyarrow as pa

from tests.long import LONG
from tickproof.reference.compiler.columns import OUTPUT, in_log_order

MIB = 1 << 20


@LONG
def test_the_output_of_a_task_may_be_more_than_two_gibibytes():
    record = pa.array([bytes(8 * MIB)], pa.binary())
    batches = [
        pa.record_batch([[0], [0], [offset], [b""], [5], record], schema=OUTPUT)
        for offset in reversed(range(300))
    ]
    ((stream, framed),) = in_log_order(batches)
    assert stream == 5
    assert sum(map(len, framed)) == 300 * 8 * MIB
