"""Which record an output answers, against dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.checkers.expected import doubled
from tickproof.conformance.checkers.matching import match_count, match_payloads
from tickproof.conformance.testing.output_log import output_log
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT, NUMBER

INPUT = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9)), max_size=12), min_size=1, max_size=3
)
POINTS = st.lists(
    st.tuples(st.integers(0, 14), st.integers(0, 6), st.integers(-30, 30)), max_size=20
)


def apart(partitions):
    """Give each partition keys of its own, as the protocol wants it."""
    return [[(key * 4 + p, value) for key, value in rows] for p, rows in enumerate(partitions)]


def addressed(partitions, dtype):
    return [(0, number, np.array(rows, dtype)) for number, rows in enumerate(partitions)]


@given(INPUT, POINTS, st.booleans())
def test_count_outputs_answer_the_nth_record_of_their_key(partitions, points, every):
    partitions = apart(partitions)
    true, rows = {}, 0
    last = {}
    for records in partitions:
        state = {}
        for key, value in records:
            n, total = state.get(key, (0, 0))
            state[key] = (n + 1, total + value)
            true[key, n + 1] = (rows, total + value)
            last[key] = rows
            rows += 1
    points += [(key, n, total) for (key, n), (_, total) in true.items()][::2]

    m = match_count(addressed(partitions, COUNT_IN), output_log(np.array(points, COUNT_OUT)), every)

    expected = [true.get((key, n), (-1, None)) for key, n, _ in points]
    assert m.answers.tolist() == [row for row, _ in expected]
    assert m.wrong.tolist() == [
        total != right for (_, right), (*_, total) in zip(expected, points, strict=True)
    ]
    owed = set(range(rows)) if every else set(last.values())
    answered = {row for row, _ in expected}
    assert m.missing.tolist() == sorted(owed - answered)
    seen, surplus = set(), []
    for index, (row, _) in enumerate(expected):
        if row >= 0 and row in seen:
            surplus.append(index)
        seen.add(row)
    assert m.surplus.tolist() == surplus


@given(INPUT, st.lists(st.integers(-9, 9), max_size=20))
def test_payloads_answer_the_kth_record_that_equals_them(partitions, more):
    numbers = [[(value,) for _, value in rows] for rows in partitions]
    flat = [value for rows in partitions for _, value in rows]
    came = flat[1::2] + more
    out = np.array([(value * 2,) for value in came], NUMBER)

    m = match_payloads(addressed(numbers, NUMBER), output_log(out), doubled)

    places = {}
    for row, value in enumerate(flat):
        places.setdefault(value, []).append(row)
    used, expected = {}, []
    for value in came:
        rows = places.get(value)
        k = used[value] = used.get(value, -1) + 1
        expected.append(-1 if rows is None else rows[min(k, len(rows) - 1)])
    assert m.answers.tolist() == expected
    assert m.wrong.tolist() == [row < 0 for row in expected]
    assert set(m.missing.tolist()) == set(range(len(flat))) - set(expected)
    for row in range(len(flat)):
        part = next(p for p in m.parts if p.start <= row < p.start + p.records)
        assert m.place(row) == (0, part.partition, row - part.start)
