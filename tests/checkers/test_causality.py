"""Outputs ahead of their records, against loops; one history that each checker must reject."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checkers.market_cases import PRICES, SYMBOLS, order, quote, verdict
from tests.checkers.test_count import inputs_of, outputs_of, partitions, points_of
from tickproof.conformance.checkers import multiset
from tickproof.conformance.checkers.causality import AHEAD, FirstFetches
from tickproof.conformance.checkers.count import check_count
from tickproof.conformance.checkers.merged import check_merged
from tickproof.conformance.checkers.multiset import check_multiset
from tickproof.conformance.checkers.timeline import NEVER
from tickproof.conformance.checkers.two_streams import check_two_streams
from tickproof.conformance.explain.words import words
from tickproof.conformance.history.rows import FETCH
from tickproof.conformance.testing.output_log import output_log
from tickproof.generators.layouts import COUNT_IN, MESSAGE, ORDER, QUOTE, VERDICT, opaque

ROWS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 14), st.integers(1, 9)), max_size=12)


def fetch_table(rows, streams=1, width=1) -> np.ndarray:
    """Rows (gap in ns, base, records), dealt over streams and partitions in turn."""
    times = np.cumsum([gap for gap, *_ in rows]).tolist()
    places = [(i % streams, i // streams % width) for i in range(len(rows))]
    return np.array(
        [
            (t, *place, base, base + size)
            for t, place, (_, base, size) in zip(times, places, rows, strict=True)
        ],
        FETCH,
    )


def first(table, stream, partition, offset, *, skips=True) -> int:
    """Return when a record was fetched first, by looking at each row."""
    for t, *place, base, end in table.tolist():
        if place == [stream, partition] and (base <= offset or not skips) and offset < end:
            return t
    return NEVER


@given(ROWS, st.integers(1, 3), st.booleans(), st.booleans())
def test_first_fetches_agree_with_a_loop(rows, width, in_order, skips):
    table, records = fetch_table(rows, width=width), [11, 0, 7][:width]
    found = FirstFetches.of(table, records, in_order=in_order, skips=skips)
    for partition, count in enumerate(records):
        due = [first(table, 0, partition, offset, skips=skips) for offset in range(count)]
        if in_order:
            due = [max(due[: offset + 1]) for offset in range(count)]
        offsets = np.arange(count)
        assert found.of_places(offsets * width + partition).tolist() == due
        assert found.of_ordinals(sum(records[:partition]) + offsets).tolist() == due


def drawn_times(data, count) -> list[int]:
    return sorted(data.draw(st.lists(st.integers(0, 60), min_size=count, max_size=count)))


@given(st.data(), partitions, ROWS, st.integers(1, 5))
def test_count_agrees_with_a_loop(data, parts, rows, bucket_rows):
    table = fetch_table(rows, width=len(parts))
    last = {
        point: (p, o) for p, rows in enumerate(parts) for o, point in enumerate(points_of([rows]))
    }
    came = data.draw(st.permutations(sorted(last)))
    times, until = drawn_times(data, len(came)), data.draw(st.just(NEVER) | st.integers(0, 60))
    fetches = FirstFetches.of(table, [len(rows) for rows in parts], until_ns=until, in_order=True)
    found = check_count(
        inputs_of(parts), outputs_of(came, times), "every", fetches=fetches, bucket_rows=bucket_rows
    )
    early = 0
    for point, t in zip(came, times, strict=True):
        partition, offset = last[point]
        needed = max(first(table, 0, partition, o) for o in range(offset + 1))
        early += t < needed and t <= until
    assert found.counts[AHEAD] == early


@given(st.data(), st.lists(st.integers(0, 6), max_size=12), ROWS)
@settings(max_examples=200)
def test_payloads_agree_with_a_loop(data, values, rows):
    """Of equal payloads, the record that was fetched first may be the one that is answered."""
    table = fetch_table(rows, width=2)
    parts = [values[::2], values[1::2]]
    fetches = FirstFetches.of(table, [len(part) for part in parts])
    came = data.draw(st.lists(st.sampled_from(values), max_size=14)) if values else []
    times = drawn_times(data, len(came))
    outputs = output_log(np.array(came, "u8").view(opaque(8)), t_ns=times)
    whole = [np.array(part, "u8").view(opaque(8)) for part in parts]
    early = 0
    for value, t in zip(came, times, strict=True):
        places = [(p, o) for p, part in enumerate(parts) for o, v in enumerate(part) if v == value]
        early += t < min(first(table, 0, *one) for one in places)
    assert check_multiset(whole, outputs, fetches=fetches).counts[AHEAD] == early
    # With few bits nearly all payloads share a hash with another, and are left out.
    few = check_multiset(whole, outputs, fetches=fetches, hash_bits=1)
    assert few.counts[AHEAD] <= early


MARKET = [quote(SYMBOLS[0], 1, *PRICES[0]), order(SYMBOLS[0], 1), order(SYMBOLS[0], 2)]
BY_QUOTE = [verdict(n, SYMBOLS[0], 1, *PRICES[0], 0) for n in (1, 2)]


def verdicts(rows, times):
    return output_log(np.concatenate(rows).view(VERDICT), t_ns=times)


@pytest.mark.parametrize(
    ("rows", "times", "early"),
    [
        ([(5, 0, 3)], [5, 5], 0),
        ([(5, 0, 2), (5, 2, 1)], [5, 10], 0),
        ([(5, 0, 2), (5, 2, 1)], [5, 9], 1),
        ([(5, 1, 2), (5, 0, 1)], [9, 9], 2),  # the quote before them came last
        ([(5, 1, 2)], [9, 9], 2),
        ([(5, 0, 3), (5, 0, 3)], [9, 20], 0),  # fetched again
        ([], [9, 9], 2),
    ],
)
def test_a_merged_verdict_needs_all_before_it(rows, times, early):
    fetches = FirstFetches.of(fetch_table(rows), [3], in_order=True)
    whole = np.concatenate([one.view(MESSAGE) for one in MARKET])
    found = check_merged([whole], verdicts(BY_QUOTE, times), "verdicts", fetches=fetches)
    assert found.counts == ({AHEAD: early} if early else {})
    assert all("arrived" in words(one).summary for one in found.examples.get(AHEAD, ()))


@pytest.mark.parametrize(
    ("fetched", "times", "early"),
    [
        ([(5, 0, 0, 0, 1), (6, 1, 0, 0, 2)], [6, 7], 0),
        ([(5, 0, 0, 0, 1), (6, 1, 0, 0, 1), (8, 1, 0, 1, 2)], [6, 7], 1),
        ([(6, 1, 0, 0, 2), (8, 0, 0, 0, 1)], [7, 8], 1),
        ([(6, 1, 0, 0, 2)], [7, 8], 2),
    ],
)
def test_a_verdict_needs_its_order_and_its_quote(fetched, times, early):
    table = np.array(fetched, FETCH)
    found = check_two_streams(
        [np.concatenate(MARKET[:1]).view(QUOTE)],
        [np.concatenate(MARKET[1:]).view(ORDER)],
        verdicts(BY_QUOTE, times),
        "verdicts",
        freshness_ns=10**12,
        publishes=np.zeros(0, FETCH),
        fetches=table,
        first_fetches=(FirstFetches.of(table, [1], 0), FirstFetches.of(table, [2], 1)),
    )
    assert found.counts[AHEAD] == early


def test_an_output_of_a_record_that_was_never_fetched_is_explained():
    fetches = FirstFetches.of(fetch_table([(5, 0, 1)]), [2], in_order=True)
    inputs = [np.array([(7, 5), (7, 10)], COUNT_IN)]
    found = check_count(
        inputs, outputs_of([(7, 1, 5), (7, 2, 15)], [6, 7]), "every", fetches=fetches
    )
    (one,) = found.examples[AHEAD]
    assert (
        words(one).summary
        == "output 1 arrived though a record that it comes from was never fetched"
    )
    assert (words(one).actual, one.where["index"], one.where["key"]) == ("key 7 n=2 total=15", 1, 7)


def test_pieces_of_the_output_change_nothing(monkeypatch):
    monkeypatch.setattr(multiset, "_STEP", 2)
    records = np.arange(9, dtype="u8").view(opaque(8))
    fetches = FirstFetches.of(fetch_table([(5, 0, 9)]), [9])
    outputs = output_log(records, t_ns=[1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert check_multiset([records], outputs, fetches=fetches).counts == {AHEAD: 4}
