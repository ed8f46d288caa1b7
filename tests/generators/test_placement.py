"""Which partition a record falls into, against a slow oracle; partitions that end early."""

from __future__ import annotations

import zlib
from collections import deque
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generators.oracle import slow_fnv1a, slow_murmur2
from tickproof.generators.layouts import COUNT_IN, NUMBER, ORDER, framed
from tickproof.generators.numbers import Keyed, KeyedParams, Numbers
from tickproof.generators.partitioner import OF_CLIENTS
from tickproof.generators.placement import EARLY_PART, LATE_PART, OWN, PARTITIONERS, Placement
from tickproof.generators.recipes import build

RECORDS = 20_000
KEYED = {"kind": "keyed", "seed": 3, "records": RECORDS, "keys": 2_000, "tick": 50}
NUMBERS = {"kind": "numbers", "seed": 3, "records": RECORDS, "tick": 50}
MARKET = {"kind": "market", "seed": 3, "records": RECORDS, "symbols": 500, "tick": 50}


@st.composite
def placements(draw):
    """Draw recipe keys that fit together: some partition has records and lasts."""
    partitions = draw(st.integers(1, 16))
    keep = draw(st.integers(0, partitions - 1))
    some = st.lists(st.sampled_from(range(partitions)), unique=True)
    empty = [p for p in draw(some) if p != keep]
    early = [p for p in draw(some) if p != keep]
    late = [p for p in draw(some) if p not in (keep, *empty, *early)]
    skew = draw(st.sampled_from((0, 0, 0.5, 0.9, 1)))
    partitioner = draw(st.sampled_from(PARTITIONERS))
    return {
        "partitions": partitions,
        "partitioner": partitioner,
        "empty": empty,
        "ended_early": early,
        "begin_late": late,
        "ended_stream": None,
        "skew": skew,
    }


def numbers_of(source, placement):
    """Return which keys the recipe has chosen, by the slow way: one key after the other."""
    wished = replace(placement, partitioner=OWN).of_keys(np.arange(2_000, dtype="u8"))
    waiting = {p: deque(np.flatnonzero(wished == p).tolist()) for p in range(placement.partitions)}
    found, left = np.empty(2_000, np.uint64), 2_000
    for start in count(0, 5_000):
        numbers = np.arange(start, start + 5_000, dtype=np.uint64)
        for number, key in zip(numbers.tolist(), source.keys(numbers).tolist(), strict=True):
            queue = waiting[slow_partition(b"%d" % key, placement)]
            if queue:
                found[queue.popleft()] = number
                left -= 1
        if not left:
            return found


def slow_partition(key, placement):
    """Return where a client of Kafka puts a key."""
    match placement.partitioner:
        case "murmur2":
            return (slow_murmur2(key) & 0x7FFFFFFF) % placement.partitions
        case "crc32":
            return zlib.crc32(key) % placement.partitions
        case "fnv1a":
            number = slow_fnv1a(key)
            return (number if number < 2**31 else 2**32 - number) % placement.partitions
    raise AssertionError(placement)


@settings(max_examples=12, deadline=None)
@given(placements(), st.sampled_from((KEYED, NUMBERS)))
def test_every_record_is_in_one_partition_in_order(tmp_path_factory, placed, base):
    built = build(base | placed, tmp_path_factory.mktemp("input"))
    keyed = base is KEYED
    source = Keyed(KeyedParams(seed=3, keys=2_000)) if keyed else Numbers(3)
    layout = COUNT_IN if keyed else NUMBER
    got = [np.fromfile(p.path, framed(layout))["payload"].tolist() for p in built.partitions]
    if keyed and Placement.of(placed).chooses_keys:
        source.numbers = numbers_of(source, Placement.of(placed))
    # The oracle takes one record after the other and asks which partition has it next.
    heads, homes = [0] * len(got), {}
    for record in source.records(0, RECORDS)["payload"].tolist():
        homes_of_it = [p for p, rows in enumerate(got) if rows[heads[p] : heads[p] + 1] == [record]]
        assert len(homes_of_it) == 1
        heads[homes_of_it[0]] += 1
        if keyed and placed["partitioner"] != OWN:
            assert homes_of_it == [slow_partition(b"%d" % record[0], Placement.of(placed))]
        if keyed:
            assert homes.setdefault(record[0], homes_of_it[0]) == homes_of_it[0]
    assert heads == [len(rows) for rows in got]
    for partition in placed["empty"]:
        assert got[partition] == []


@settings(max_examples=12, deadline=None)
@given(placements(), st.sampled_from((KEYED, NUMBERS, MARKET, MARKET | {"inputs": "two"})))
def test_partitions_that_end_early_do_so_and_the_others_go_on(tmp_path_factory, placed, base):
    built = build(base | placed, tmp_path_factory.mktemp("input"))
    plan = built.plan.astype(np.int64)
    assert (np.diff(plan, axis=0) >= 0).all() and not plan[0].any()
    assert plan[-1].tolist() == [part.records for part in built.partitions]
    early = [p for p in placed["ended_early"] if p not in placed["empty"]]
    columns = [i for i, part in enumerate(built.partitions) if part.partition in early]
    if not early or not plan[-1][columns].sum():
        return
    done = int((plan[:, columns] == plan[-1][columns]).all(axis=1).argmax())
    out, total = int(plan[done].sum()), int(plan[-1].sum())
    # All of it is a tenth of the run at most, but for a tick or a crowd of records on few keys.
    own = int(plan[-1][columns].sum())
    assert out <= max(EARLY_PART * total, own) + 2 * 50 + own // 10
    others = [i for i in range(plan.shape[1]) if i not in columns]
    assert plan[done][others].sum() < plan[-1][others].sum()
    ended = {(p.stream, p.partition) for p in built.partitions}
    assert built.ended_early == {one for one in ended if one[1] in placed["ended_early"]}


def test_a_stream_may_end_before_the_other(tmp_path):
    built = build(MARKET | {"partitions": 3, "inputs": "two", "ended_stream": 0}, tmp_path)
    usual = build(MARKET | {"partitions": 3, "inputs": "two"}, tmp_path)
    assert built.ended_early == {(0, 0), (0, 1), (0, 2)} and not usual.ended_early
    quotes = [part.stream == 0 for part in built.partitions]
    orders = [not one for one in quotes]
    assert (built.plan[:, orders] == usual.plan[:, orders]).all()
    done = int((built.plan[:, quotes] == built.plan[-1][quotes]).all(axis=1).argmax())
    assert built.plan[done][orders].sum() < built.plan[-1][orders].sum() / 2


@settings(max_examples=12, deadline=None)
@given(placements(), st.sampled_from((KEYED, NUMBERS, MARKET, MARKET | {"inputs": "two"})))
def test_partitions_that_begin_late_do_so_and_get_everything(tmp_path_factory, placed, base):
    folder = tmp_path_factory.mktemp("input")
    built = build(base | placed, folder)
    usual = build(base | placed | {"begin_late": []}, folder)
    assert [part.sha256 for part in built.partitions] == [p.sha256 for p in usual.partitions]
    late = np.isin([part.partition for part in built.partitions], placed["begin_late"])
    ticks = len(built.plan) - 1
    assert not built.plan[: int(LATE_PART * ticks) + 1, late].any()
    assert np.array_equal(built.plan[:, ~late], usual.plan[:, ~late])
    assert np.array_equal(built.plan[-1], usual.plan[-1])
    assert (np.diff(built.plan.astype(np.int64), axis=0) >= 0).all()


def test_partitions_that_end_early_have_something_to_end():
    found = Placement(4, ended_early=(1, 3)).of_keys(np.arange(10_000, dtype=np.uint64))
    shares = np.bincount(found, minlength=4) / len(found)
    assert (abs(shares[[1, 3]] - 0.025) < 0.01).all() and (abs(shares[[0, 2]] - 0.475) < 0.03).all()


@pytest.mark.parametrize("partitioner", OF_CLIENTS)
@pytest.mark.parametrize("inputs", ["merged", "two"])
@pytest.mark.parametrize("wish", [{}, {"empty": [1], "ended_early": [0], "skew": 0.8}])
def test_a_symbol_lies_where_its_bytes_put_it(tmp_path, partitioner, inputs, wish):
    placed = {"partitions": 5, "partitioner": partitioner, "inputs": inputs} | wish
    built = build(MARKET | placed, tmp_path)
    filled = set()
    for part in built.partitions:
        for symbol in set(np.fromfile(part.path, framed(ORDER))["payload"]["symbol"].tolist()):
            assert (
                slow_partition(symbol.rstrip(b" "), Placement(5, partitioner=partitioner))
                == part.partition
            )
            filled.add(part.partition)
    assert filled == ({0, 2, 3, 4} if wish else set(range(5)))
    if wish:
        assert sum(p.records for p in built.partitions if p.partition == 2) > RECORDS / 2


@pytest.mark.parametrize(
    ("wish", "most"), [({}, range(500, 501)), ({"empty": [1]}, range(501, 1000))]
)
def test_keys_are_chosen_from_those_of_their_shape(tmp_path, wish, most):
    dense = {"key_shape": "dense", "keys": 500, "hot_keys": 1, "partitions": 4}
    built = build(KEYED | dense | {"partitioner": "murmur2"} | wish, tmp_path)
    keys = [np.fromfile(p.path, framed(COUNT_IN))["payload"]["key"] for p in built.partitions]
    every = np.unique(np.concatenate(keys))
    assert len(every) == 500 and every.max() in most


@pytest.mark.parametrize("wish", [{"empty": [0]}, {"ended_early": [0]}, {"skew": 0.5}])
def test_keys_that_are_given_cannot_be_chosen(tmp_path, wish):
    script = {
        "kind": "script",
        "rows": [["keyed", 1, 2]],
        "partitions": 2,
        "partitioner": "murmur2",
    }
    with pytest.raises(ValueError, match=rf"recipe: {next(iter(wish))}: expected keys that can"):
        build(script | wish, tmp_path)
    build(script, tmp_path)


@pytest.mark.parametrize("skew", [0.3, 0.9])
def test_skew_is_the_share_of_the_first_partition_that_lasts(skew):
    placement = Placement(8, empty=(0,), ended_early=(1,), skew=skew)
    for found in (placement.in_turn(0, 100_000), placement.of_keys(np.arange(10**5, dtype="u8"))):
        shares = np.bincount(found, minlength=8) / len(found)
        assert shares[0] == 0 and abs(shares[1] - 0.05) < 0.01
        assert abs(shares[2] - 0.95 * skew) < 0.01
        assert np.ptp(shares[3:]) < 0.01


def test_without_new_keys_partitions_are_what_they_were():
    plain = Placement(4)
    assert plain.of_keys(np.arange(12, dtype=np.uint64)).tolist() == FIRST_OF_FOUR
    assert plain.in_turn(3, 9).tolist() == [3, 0, 1, 2, 3, 0]
    assert Placement(4, empty=(0, 2)).in_turn(0, 5).tolist() == [1, 3, 1, 3, 1]


#: Partitions of the keys 0 to 11, as in every run ever recorded.
FIRST_OF_FOUR = [3, 2, 1, 3, 1, 1, 2, 0, 3, 1, 0, 3]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"empty": 3}, "empty: expected a list of partitions, got 3"),
        ({"empty": [4]}, "empty: expected partitions 0 to 3, got 4"),
        ({"empty": [True]}, "empty: expected partitions 0 to 3, got True"),
        ({"empty": [1, 1]}, r"empty: expected no partition twice, got \[1, 1\]"),
        ({"empty": [0, 1, 2, 3]}, "empty: expected at least one of 4 partitions left out"),
        ({"ended_early": ["0"]}, "ended_early: expected partitions 0 to 3, got '0'"),
        ({"ended_stream": 2}, "ended_stream: expected a stream, 0 or 1, got 2"),
        ({"ended_stream": True}, "ended_stream: expected a stream, 0 or 1, got True"),
        ({"ended_stream": 1}, "ended_stream: expected none without two inputs, got 1"),
        ({"empty": [0, 1], "ended_early": [2, 3]}, "ended_early: expected at least one partition"),
        ({"begin_late": [4]}, "begin_late: expected partitions 0 to 3, got 4"),
        ({"begin_late": [1], "empty": [1]}, "begin_late: expected .* neither empty .*, got 1"),
        ({"begin_late": [0, 1, 2, 3]}, "begin_late: expected a partition that goes on left out"),
        ({"skew": 1.5}, "skew: expected a share 0 to 1, got 1.5"),
        ({"skew": "half"}, "skew: expected a share 0 to 1, got 'half'"),
        (
            {"partitioner": "crc"},
            "partitioner: expected one of splitmix64, murmur2, fnv1a, crc32; got 'crc'",
        ),
    ],
)
def test_a_wrong_placement_names_the_key(tmp_path, keys, message):
    with pytest.raises(ValueError, match=f"recipe: {message}"):
        build(NUMBERS | {"partitions": 4} | keys, tmp_path)
    assert list(tmp_path.iterdir()) == []
