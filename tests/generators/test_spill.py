"""Arrays in files: each function against numpy's own, in blocks of a few elements."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.generators import spill

VALUES = st.lists(st.integers(0, 9) | st.integers(0, 2**64 - 1), max_size=20)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill, "BLOCK", 3)
        yield


def array(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


@given(st.lists(VALUES, max_size=4))
def test_parts_are_one_array_that_can_be_written_to(parts: list[list[int]]) -> None:
    whole, values = spill.spilled(map(array, parts), np.uint64), list(chain(*parts))
    assert whole.tolist() == values
    whole += np.uint64(1)
    assert whole.tolist() == [(one + 1) % 2**64 for one in values]


def test_rows_of_fields_keep_them() -> None:
    rows = np.array([(1, 2.5, b"abc"), (-1, 0.0, b"")], [("a", "<i4"), ("b", "<f8"), ("c", "S3")])
    held = spill.Spill(rows.dtype)
    held.append(rows[:1])
    held.append(rows[1:])
    assert held.array().tolist() == rows.tolist()


@given(VALUES, st.data())
def test_values_are_taken_sorted_and_told_apart(values: list[int], data: st.DataObject) -> None:
    one = array(values)
    at = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=9)) if values else []
    assert spill.taken(one, np.array(at, np.int64)).tolist() == [values[i] for i in at]
    assert spill.ordered(one).tolist() == sorted(values)
    assert spill.distinct(one).tolist() == sorted(set(values))
    firsts = spill.starts(np.sort(one)).tolist()
    assert firsts == np.unique(np.sort(one), return_index=True)[1].tolist()
    assert one.tolist() == values


@given(st.lists(st.booleans(), max_size=20))
def test_places_are_where_a_mask_is_true(mask: list[bool]) -> None:
    assert spill.places(np.array(mask, bool)).tolist() == [i for i, one in enumerate(mask) if one]
