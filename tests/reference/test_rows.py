"""The form of rows: as the form of blocks for every split, streamed as in batch, and its errors."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.playing import play, splits
from tests.reference.playing_rows import play_rows
from tests.reference.test_apps import I64, by_key, by_partition, keyed, market, messages, values
from tickproof.reference import apps
from tickproof.reference.api.layouts import new
from tickproof.reference.apps import double

COUNT = apps.make("count", {"emit": "every"}, on_arrays=False)
(ALL,) = COUNT.pipelines
RECORDS = 300


def expect_the_same(application, records, split) -> None:
    """Expect the outputs of each batch and the state in the end that blocks give."""
    found, expected = play_rows(application, records, split), play(application, records, split)
    assert [Counter(b) for b in found.batches] == [Counter(b) for b in expected.batches]
    assert found.state == expected.state


# -- without Spark ------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(I64, max_size=30), st.integers(1, 3), splits)
def test_double_as_in_blocks(numbers, partitions, split):
    records = new(len(numbers), double.NUMBER)
    records["x"] = numbers
    given_ = by_partition(records, list(range(len(numbers))), partitions)
    expect_the_same(apps.make("double", {}, on_arrays=False), given_, split)


@settings(deadline=None)
@given(keyed, st.integers(1, 3), splits)
def test_count_as_in_blocks_and_in_order(pairs, partitions, split):
    records = values(pairs, partitions)
    expect_the_same(COUNT, records, split)
    for points in by_key(play_rows(COUNT, records, split).outputs).values():
        assert [n for n, _ in points] == list(range(1, len(points) + 1))


@settings(deadline=None)
@given(
    messages, st.sampled_from(["rejects", "verdicts"]), st.sampled_from(["merged", "two"]),
    st.integers(1, 3), splits,
)  # fmt: skip
def test_market_spread_as_in_blocks(rows_, emit, inputs, partitions, split):
    application = apps.make("market-spread", {"inputs": inputs, "emit": emit}, on_arrays=False)
    expect_the_same(application, market(rows_, partitions, two=inputs == "two"), split)
