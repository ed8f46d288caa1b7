"""Slices written in any order, some of them twice, make the files that ``build`` makes."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import LONG, examples
from tickproof.generators.files import replacing_all
from tickproof.generators.partitions import Division
from tickproof.generators.placement import Placement
from tickproof.generators.recipes import build, source_of
from tickproof.generators.slices import bounds, count, located, write

QUOTE, ORDER = ["quote", "AA", 10_000, 10_100], ["order", "AA"]
RECIPES = {
    "payloads": {"kind": "payloads", "size": 11, "records": 5000},
    "numbers": {"kind": "numbers", "records": 40_000},
    "keyed": {"kind": "keyed", "records": 40_000, "keys": 70, "key_shape": "limits"},
    "wrapping": {"kind": "keyed", "records": 9000, "keys": 30, "wrap": True, "edge_keys": True},
    "market": {
        "kind": "market", "records": 40_000, "symbols": 40, "reject_one_in": 3, "crossed": True,
        "probe_one_in": 50, "event_times": "limits",
    },
    "two": {"kind": "market", "records": 40_000, "symbols": 9, "inputs": "two"},
    "script": {"kind": "script", "rows": [QUOTE, ORDER, ORDER], "repeat": 3000, "inputs": "two"},
}  # fmt: skip
PLACEMENTS = (
    {},
    {"partitions": 4},
    {"partitions": 5, "empty": [1], "ended_early": [2], "skew": 0.6},
)


def sliced(recipe, folder, size, rng):
    """Write a recipe in slices of ``size`` bytes as many hands would."""
    source, full = source_of(recipe)
    division = Division(source, Placement.of(full))
    stretches = bounds(division, size)
    slices = located(stretches, [count(division, *stretch) for stretch in stretches])
    folder.mkdir()
    again = rng.sample(slices, len(slices) // 3)
    with replacing_all(division.paths(folder)) as made:
        for one in rng.sample(slices, len(slices)) + again:
            write(division, one, made)
    return slices


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@LONG
@settings(max_examples=examples(40), deadline=None)
@given(
    kind=st.sampled_from(sorted(RECIPES)),
    placement=st.sampled_from(PLACEMENTS),
    seed=st.integers(0, 2**64 - 1),
    size=st.integers(4_000, 3_000_000),
)
def test_slices_make_the_same_files(tmp_path_factory, kind, placement, seed, size):
    folder = tmp_path_factory.mktemp("input")
    recipe = RECIPES[kind] | placement | {"seed": seed}
    build(recipe, folder / "whole")
    sliced(recipe, folder / "sliced", size, random.Random(seed))
    assert contents(folder / "sliced") == contents(folder / "whole")


def test_a_failure_leaves_no_part_and_the_old_file(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"old")
    with pytest.raises(OSError, match="full"), replacing_all([old, new]) as made:
        assert [path.read_bytes() for path in made] == [b"", b""]
        raise OSError("the disk is full")
    assert contents(tmp_path) == {"old": b"old"}


def test_a_slice_of_another_seed_is_seen(tmp_path):
    recipe = RECIPES["keyed"] | PLACEMENTS[1] | {"seed": 1}
    build(recipe | {"seed": 2}, tmp_path / "whole")
    sliced(recipe, tmp_path / "sliced", 100_000, random.Random(1))
    assert contents(tmp_path / "sliced") != contents(tmp_path / "whole")


@pytest.mark.parametrize("records", [0, 1])
def test_few_records_make_few_slices(tmp_path, records):
    recipe = RECIPES["two"] | {"seed": 1, "partitions": 3, "records": records}
    slices = sliced(recipe, tmp_path / "sliced", 1000, random.Random(1))
    assert len(slices) == records
    build(recipe, tmp_path / "whole")
    assert contents(tmp_path / "sliced") == contents(tmp_path / "whole")


def test_each_slice_begins_where_those_before_it_end():
    source, full = source_of(RECIPES["market"] | PLACEMENTS[2] | {"seed": 3})
    division = Division(source, Placement.of(full))
    stretches = bounds(division, 200_000)
    counts = [count(division, *stretch) for stretch in stretches]
    slices = located(stretches, counts)
    assert len(slices) > 3
    assert not slices[0].places.any()
    for before, after in itertools.pairwise(slices):
        assert before.stop == after.start
        assert (before.places + before.counts == after.places).all()
    assert np.sum(counts) == source.records
