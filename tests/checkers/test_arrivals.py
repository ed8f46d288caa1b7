"""Matching by whole arrays against loops, cut into small parts and large."""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tickproof.conformance.checkers import arrivals
from tickproof.conformance.checkers import expected as expected_outputs
from tickproof.conformance.checkers.arrivals import first_arrivals, first_covers, nth_arrivals
from tickproof.conformance.checkers.expected import payload_words
from tickproof.conformance.history.rows import FETCH

WORDS = st.lists(st.one_of(st.integers(0, 12), st.integers(0, 2**64 - 1)), max_size=60)
QUIET = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(params=[4, 1 << 16], autouse=True, ids=["small parts", "one part"])
def parts(request, monkeypatch):
    monkeypatch.setattr(expected_outputs, "_PART", request.param)
    monkeypatch.setattr(arrivals, "_PIECE", request.param)


@given(WORDS, WORDS)
@QUIET
def test_the_kth_of_a_word_gets_its_kth_arrival(asked, more):
    came = asked[::-1] + more
    queues = defaultdict(deque)
    for time, word in enumerate(came):
        queues[word].append(time * 3)
    repeated = {word for word in asked if asked.count(word) > 1}
    expected = []
    for word in asked:
        queue = queues[word]
        expected.append(-1 if not queue else queue.popleft() if word in repeated else queue[0])
    found = first_arrivals(
        np.array(asked, np.uint64), np.array(came, np.uint64), np.arange(len(came)) * 3
    )
    assert found.tolist() == expected


@pytest.mark.parametrize("every", [True, False])
@given(
    st.lists(st.sampled_from([0, 5, 6, 2**64 - 1]), max_size=40),
    st.lists(
        st.tuples(
            st.sampled_from([0, 4, 5, 6, 7, 2**64 - 1]),
            st.one_of(st.integers(0, 12), st.just(2**64 - 1)),
        ),
        max_size=60,
    ),
)
@QUIET
def test_a_record_of_count_is_answered_by_its_n_or_a_higher_one(every, asked, came):
    expected = []
    for place, key in enumerate(asked):
        n, most = asked[: place + 1].count(key), asked.count(key)
        times = [
            time
            for time, (k, m) in enumerate(came)
            if k == key and (m == n if every else n <= m <= most)
        ]
        expected.append(min(times, default=-1))
    keys, n = (np.array([row[i] for row in came], np.uint64) for i in (0, 1))
    found = nth_arrivals(np.array(asked, np.uint64), keys, n, np.arange(len(came)), every=every)
    assert found.tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25)), max_size=30))
@QUIET
def test_an_offset_was_fetched_first_by_the_first_row_that_holds_it(rows):
    table = np.zeros(len(rows), FETCH)
    table["t_ns"] = np.arange(len(rows)) + 100
    table["base"], table["end"] = [row[0] for row in rows], [row[1] for row in rows]
    expected = [
        next((time + 100 for time, (base, end) in enumerate(rows) if base <= offset < end), -1)
        for offset in range(20)
    ]
    assert first_covers(table, 20).tolist() == expected


@pytest.mark.parametrize("size", [1, 3, 8, 13, 100])
def test_different_payloads_have_different_words(size):
    raw = np.random.default_rng(1).integers(0, 256, (200, size), np.uint8)
    raw[100:] = raw[:100]
    words = payload_words(raw.view(f"V{size}")[:, 0])
    assert words[:100].tolist() == words[100:].tolist()
    assert len(set(words.tolist())) == len({row.tobytes() for row in raw})
    assert len(payload_words(np.empty(0, f"V{size}"))) == 0
