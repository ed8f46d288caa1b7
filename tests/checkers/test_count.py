"""The count checker against dictionaries, and the histories that it must reject."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.checkers.count import check_count
from tickproof.conformance.checkers.count_diagnosis import diagnose_total
from tickproof.conformance.explain.words import diagnosis, words
from tickproof.conformance.history.outputs import OutputLog
from tickproof.conformance.testing.output_log import output_log
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT

Point = tuple[int, int, int]


def inputs_of(partitions: list[list[tuple[int, int]]]) -> list[np.ndarray]:
    return [np.array(rows, COUNT_IN) for rows in partitions]


def outputs_of(points: list[Point], times: list[int] | None = None) -> OutputLog:
    return output_log(np.array(points, COUNT_OUT), t_ns=0 if times is None else times)


def points_of(partitions: list[list[tuple[int, int]]]) -> list[Point]:
    found = []
    for rows in partitions:
        state: dict[int, tuple[int, int]] = {}
        for key, value in rows:
            n, total = state.get(key, (0, 0))
            total = (total + value + 2**63) % 2**64 - 2**63
            state[key] = (n + 1, total)
            found.append((key, n + 1, total))
    return found


def slow_check(partitions, came, emit, times, after) -> Counter[str]:
    """The same verdict, a record at a time."""
    true = {(key, n): total for key, n, total in points_of(partitions)}
    length = Counter(key for rows in partitions for key, _ in rows)
    first: dict[tuple[int, int], int] = {}
    newest: dict[int, int] = {}
    highest: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    for (key, n, total), t in zip(came, times, strict=True):
        if key not in length:
            kinds["unknown-key"] += 1
            continue
        if not 1 <= n <= length[key]:
            kinds["beyond-input"] += 1
            continue
        kinds["wrong-total"] += total != true[key, n]
        if (key, n) in first:
            kinds["duplicate" if first[key, n] == total else "retracted"] += 1
        first.setdefault((key, n), total)
        kinds["step-back"] += n < newest.get(key, 0) and (after is None or t <= after)
        kinds["skipped-order"] += emit == "every" and n > highest[key] + 1
        newest[key], highest[key] = n, max(n, highest[key])
    due = true if emit == "every" else [(key, n) for key, n in length.items()]
    kinds["lost"] = sum(point not in first for point in due)
    return +kinds


partitions = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 3)), max_size=12), min_size=1, max_size=3
).map(lambda ps: [[(key * len(ps) + p, value) for key, value in rows] for p, rows in enumerate(ps)])


@given(st.data(), partitions, st.sampled_from(["every", "some"]), st.integers(1, 5))
def test_agrees_with_the_slow_oracle(data, parts, emit, bucket_rows):
    right = points_of(parts)
    strange = st.tuples(st.integers(0, 12), st.integers(0, 5), st.integers(-5, 5))
    output = st.sampled_from(right) | strange if right else strange
    came = data.draw(st.lists(output, max_size=16) | st.just(right))
    times = sorted(data.draw(st.lists(st.integers(0, 9), min_size=len(came), max_size=len(came))))
    after = data.draw(st.none() | st.integers(0, 9))
    found = check_count(
        inputs_of(parts), outputs_of(came, times), emit, after, bucket_rows=bucket_rows
    )
    assert found.counts == slow_check(parts, came, emit, times, after)


@given(st.data(), partitions, st.integers(1, 7))
def test_a_right_history_in_any_interleaving_gives_no_finding(data, parts, bucket_rows):
    queues = [points_of([rows]) for rows in parts]
    came = []
    while any(queues):
        came.append(data.draw(st.sampled_from([q for q in queues if q])).pop(0))
    assert not check_count(inputs_of(parts), outputs_of(came), "every", bucket_rows=bucket_rows)
    some = [p for p in came if p[1] % 2 or (p[0], p[1] + 1) not in {(k, n) for k, n, _ in came}]
    assert not check_count(inputs_of(parts), outputs_of(some), "some", bucket_rows=bucket_rows)


SMALL = [[(7, 5), (7, 10), (7, 15)]]
RIGHT = [(7, 1, 5), (7, 2, 15), (7, 3, 30)]


@pytest.mark.parametrize(
    ("came", "kinds"),
    [
        (RIGHT, {}),
        ([], {"lost": 3}),
        (RIGHT[:2], {"lost": 1}),
        ([*RIGHT, RIGHT[2]], {"duplicate": 1}),
        ([*RIGHT, (7, 3, 40)], {"wrong-total": 1, "retracted": 1}),
        ([*RIGHT[:2], (7, 3, 20)], {"wrong-total": 1}),
        ([RIGHT[0], RIGHT[2], RIGHT[1]], {"skipped-order": 1, "step-back": 1}),
        ([*RIGHT, (7, 4, 30)], {"beyond-input": 1}),
        ([*RIGHT, (7, 2**64 - 1, 30)], {"beyond-input": 1}),
        ([*RIGHT, (8, 1, 5)], {"unknown-key": 1}),
    ],
)
def test_mutations_of_a_right_history(came, kinds):
    assert check_count(inputs_of(SMALL), outputs_of(came), "every").counts == kinds


def test_a_finding_shows_the_figures_and_the_place():
    found = check_count(inputs_of(SMALL), outputs_of([*RIGHT[:2], (7, 3, 40)]), "every").first()
    assert found and words(found).expected == "n=3 total=30 (5+10+15)"
    assert words(found).actual == "n=3 total=40"
    assert "value 2 (= 10) applied twice" in words(found).summary
    assert found.where == {"key": 7, "index": 2, "writer": 0, "t_ns": 0}
    lost = check_count(inputs_of(SMALL), outputs_of(RIGHT[:2]), "some").first()
    assert lost and lost.where == {"key": 7, "partition": 0, "offset": 2}


def test_totals_wrap():
    top = 2**63 - 1
    wrapped = outputs_of([(1, 1, top), (1, 2, -top - 1)])
    assert not check_count(inputs_of([[(1, top), (1, 1)]]), wrapped, "every")


def test_emit_is_checked():
    with pytest.raises(ValueError, match="expected 'every' or 'some', got 'all'"):
        check_count([], outputs_of([]), "all")


BIG = np.array([2**60, 1, 1, 1, 1], np.int64)
ODD = np.array([1, 10, 100, 1_000, 10_000, 100_000, 1_000_000], np.int64)


@pytest.mark.parametrize(
    ("values", "n", "actual", "part"),
    [
        (BIG, 3, 2**60, "floating point"),
        (ODD, 4, 12_345_678, "no single mistake"),
        (np.array([2**53 + 1, 2], np.int64), 2, 2**53 + 2, "floating point"),
        (ODD, 4, 111, "after 3 values"),
        (ODD, 4, 1_211, "value 3 (= 100) applied twice"),
        (ODD, 4, 1_101, "value 2 (= 10) left out"),
        (ODD, 4, 1_100, "values 3 to 4 only"),
        (ODD, 2, 11_000, "values 4 to 5: the key began again"),
        (ODD, 5, 11_221, "values 2 to 3 applied twice"),
        (ODD, 6, 111_001, "values 2 to 3 left out"),
        (ODD, 5, 221, "values 2 to 3 applied and counted twice"),
        (ODD, 4, 11_101, "value 2 neither applied nor counted"),
    ],
)
def test_a_wrong_total_is_diagnosed(values, n, actual, part):
    assert part in diagnosis(diagnose_total(values, n, actual), n)
