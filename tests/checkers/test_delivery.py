"""Writers' numbers, and payload multisets, against counters of bytes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.checkers import arrays, multiset
from tickproof.conformance.checkers.delivery import check_sequences
from tickproof.conformance.checkers.multiset import check_multiset
from tickproof.conformance.explain.words import words
from tickproof.conformance.history.outputs import UNNUMBERED, OutputLog
from tickproof.conformance.testing.output_log import output_log
from tickproof.generators.layouts import NUMBER, opaque


def log_of(appends: list[tuple[int, int, list[int]]]) -> OutputLog:
    """Build a log from (writer, first_seq, values)."""
    values = [(value,) for _, _, part in appends for value in part]
    return output_log(
        np.array(values, NUMBER),
        [len(part) for _, _, part in appends],
        t_ns=1000 * np.arange(len(appends)),
        writer=[writer for writer, _, _ in appends],
        first_seq=[first_seq for _, first_seq, _ in appends],
    )


def test_numbers_in_order_give_no_finding():
    log = log_of([(1, 0, [5, 6]), (2, 0, [7]), (1, 2, [8]), (9, UNNUMBERED, [1, 1])])
    found = check_sequences(log)
    assert not found
    assert found.facts == {"numbered": 4, "writers": 2}


def test_a_number_again_is_redelivered_or_a_conflict():
    log = log_of([(1, 0, [5, 6]), (1, 2, [7]), (1, 1, [6, 99, 8])])
    found = check_sequences(log)
    assert found.counts == {"redelivered": 1, "conflict": 1}
    again = found.first(["redelivered"])
    assert again and (again.where["index"], again.where["seq"]) == (3, 1)
    conflict = found.first(["conflict"])
    assert conflict and (conflict.where["index"], conflict.where["first_index"]) == (4, 2)


def test_a_number_left_out_is_a_gap():
    found = check_sequences(log_of([(1, 0, [5]), (1, 3, [6]), (1, 1, [9])]))
    assert found.counts == {"gap": 1}
    gap = found.first()
    assert gap and gap.where["seq"] == 3 and words(gap).expected == "seq 1"


appends = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 6), st.lists(st.integers(0, 1), min_size=1, max_size=4)
    ),
    max_size=8,
)


@given(appends, st.integers(1, 3))
def test_sequences_agree_with_a_dict(history, rows):
    seen: dict[tuple[int, int], int] = {}
    reached: Counter[int] = Counter()
    expected: Counter[str] = Counter()
    for writer, first, values in history:
        expected["gap"] += first > reached[writer]
        due = reached[writer]
        for i, value in enumerate(values):
            if first + i < due and (writer, first + i) in seen:
                same = seen[writer, first + i] == value
                expected["redelivered" if same else "conflict"] += 1
            elif first + i >= due:  # a late filler of a gap is no origin
                seen[writer, first + i] = value
        reached[writer] = max(due, first + len(values))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "PIECE_BYTES", 8 * rows)
        assert check_sequences(log_of(history)).counts == +expected


def payloads_of(values: list[int], size: int) -> np.ndarray:
    raw = np.zeros((len(values), size), np.uint8)
    raw[:, -1] = values
    return raw.view(opaque(size)).reshape(-1)


@given(
    st.lists(st.integers(0, 5), max_size=20),
    st.lists(st.integers(0, 5), max_size=20),
    st.sampled_from([1, 3, 8, 12, 16]),
    st.integers(1, 6),
    st.sampled_from([0, 1, 2, 32]),
)
def test_multiset_agrees_with_a_counter(wanted, came, size, chunk, hash_bits):
    expected = payloads_of(wanted, size)
    chunks = (expected[i : i + chunk] for i in range(0, len(expected), chunk))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "PIECE_BYTES", 2 * size)
        patch.setattr(multiset, "_STEP", 2)
        found = check_multiset(chunks, output_log(payloads_of(came, size)), hash_bits=hash_bits)
    missing, extra = Counter(wanted) - Counter(came), Counter(came) - Counter(wanted)
    known = Counter({value: n for value, n in extra.items() if value in wanted})
    right = {
        "lost": missing.total(),
        "duplicate": known.total(),
        "invented": (extra - known).total(),
    }
    assert found.counts == +Counter(right)
    lost = found.first(["lost"])
    if lost:
        assert wanted[lost.where["record"]] in missing


def test_multiset_names_the_earliest_of_each_kind():
    log = output_log(payloads_of([1, 2, 9, 2, 8], 4))
    found = check_multiset([payloads_of([1, 2, 3], 4)], log)
    assert {kind: found.first([kind]).where for kind in found.counts} == {
        "lost": {"record": 2},
        "duplicate": {"index": 3, "t_ns": 0, "writer": 0},
        "invented": {"index": 2, "t_ns": 0, "writer": 0},
    }


@pytest.mark.parametrize("size", [1, 7, 8, 4096, 1 << 20])
def test_long_and_short_payloads(size):
    values = [3, 1, 2]
    right = payloads_of(values, size)
    assert not check_multiset([right], output_log(right[::-1].copy()))
    changed = payloads_of([3, 1, 4], size)
    assert check_multiset([right], output_log(changed)).counts == {"lost": 1, "invented": 1}


def test_sizes_must_agree():
    with pytest.raises(ValueError, match=r"expected records of 8 bytes.*records of 4 bytes"):
        check_multiset([np.zeros(1, NUMBER)], output_log(payloads_of([1], 4)))


def test_records_are_read_in_windows_of_a_memory_map(tmp_path):
    file = tmp_path / "log"
    np.arange(1000, dtype="<i8").tofile(file)
    records = np.memmap(file, NUMBER, mode="r")
    pick = np.array([999, 0, 500, 500])
    assert arrays.gather(records, pick)["x"].tolist() == pick.tolist()
    whole = np.concatenate([piece["x"] for _, piece in arrays.pieces(records, 7)])
    assert whole.tolist() == list(range(1000))
