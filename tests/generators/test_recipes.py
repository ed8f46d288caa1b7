import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickproof.generators.layouts import COUNT_IN, MESSAGE, NUMBER, ORDER, QUOTE, framed
from tickproof.generators.market import Market, MarketParams
from tickproof.generators.numbers import Keyed, KeyedParams, Numbers
from tickproof.generators.partitions import MAX_TICKS, tick_ends
from tickproof.generators.recipes import build

MARKET = {"kind": "market", "seed": 9, "records": 40_000, "symbols": 30, "tick": 100}


def rows(part, layout):
    return np.fromfile(part.path, framed(layout))


def test_a_single_partition_is_the_stream_itself(tmp_path):
    built = build(MARKET, tmp_path)
    (part,) = built.partitions
    expected = Market(MarketParams(messages=40_000, seed=9, symbols=30)).messages(0, 40_000)
    assert part.path == tmp_path / "s0p0.log"
    assert part.path.read_bytes() == expected.tobytes()
    assert part.sha256 == hashlib.sha256(expected.tobytes()).hexdigest()
    assert (part.record_size, part.records, built.records) == (52, 40_000, 40_000)
    assert built.plan.dtype == np.uint64 and built.plan.shape == (401, 1)
    assert built.plan[:, 0].tolist() == list(range(0, 40_001, 100))


@settings(max_examples=15, deadline=None)
@given(
    partitions=st.integers(1, 7),
    inputs=st.sampled_from(["merged", "two"]),
    tick=st.integers(1, 5000),
    records=st.integers(0, 20_000),
)
def test_the_plan_replays_the_merged_order(tmp_path_factory, partitions, inputs, tick, records):
    recipe = MARKET | {"partitions": partitions, "inputs": inputs, "tick": tick}
    built = build(recipe | {"records": records}, tmp_path_factory.mktemp("input"))
    merged = Market(MarketParams(messages=records, seed=9, symbols=30)).messages(0, records)
    parts = [rows(part, MESSAGE) for part in built.partitions]
    assert built.plan.shape == (-(-records // tick) + 1, len(parts))
    assert not built.plan[0].any()
    for k in range(1, len(built.plan)):
        start, stop = min((k - 1) * tick, records), min(k * tick, records)
        news = [
            row.tobytes()
            for part, a, b in zip(parts, built.plan[k - 1], built.plan[k], strict=True)
            for row in part[int(a) : int(b)]
        ]
        assert sorted(news) == sorted(row.tobytes() for row in merged[start:stop])
    assert [part.records for part in built.partitions] == built.plan[-1].tolist()


def test_partitions_keep_order_and_a_symbol_has_one_number_in_both_streams(tmp_path):
    built = build(MARKET | {"partitions": 3, "inputs": "two", "probe_one_in": 20}, tmp_path)
    assert [(p.stream, p.partition) for p in built.partitions] == [
        (stream, partition) for stream in (0, 1) for partition in range(3)
    ]
    home = {}
    for part in built.partitions:
        layout = QUOTE if part.stream == 0 else ORDER
        payload = rows(part, layout)["payload"]
        assert len(payload) and (np.diff(payload["event_ns"].astype(np.int64)) > 0).all()
        assert set(payload["kind"].tolist()) == {2 - part.stream}
        for symbol in set(payload["symbol"].tolist()):
            assert home.setdefault(symbol, part.partition) == part.partition
    assert len(home) == 30 + 16


def test_a_key_has_one_partition_and_its_order(tmp_path):
    recipe = {"kind": "keyed", "seed": 2, "records": 30_000, "keys": 50, "partitions": 4}
    built = build(recipe, tmp_path)
    expected, got = {}, {}
    for key, value in Keyed(KeyedParams(seed=2, keys=50)).records(0, 30_000)["payload"].tolist():
        expected.setdefault(key, []).append(value)
    for part in built.partitions:
        mine = {}
        for key, value in rows(part, COUNT_IN)["payload"].tolist():
            mine.setdefault(key, []).append(value)
        assert not got.keys() & mine.keys()
        got |= mine
    assert got == expected


def test_numbers_go_round_and_an_empty_partition_has_a_file(tmp_path):
    built = build({"kind": "numbers", "seed": 1, "records": 2, "partitions": 3}, tmp_path)
    x = Numbers(1).records(0, 2)["payload"]["x"].tolist()
    assert [rows(part, NUMBER)["payload"]["x"].tolist() for part in built.partitions] == [
        x[:1],
        x[1:],
        [],
    ]
    assert built.partitions[2].path.stat().st_size == 0
    assert built.plan.tolist() == [[0, 0, 0], [1, 1, 0]]


def test_payloads(tmp_path):
    built = build({"kind": "payloads", "seed": 1, "records": 500, "size": 20}, tmp_path)
    assert built.partitions[0].record_size == 20
    assert built.partitions[0].path.stat().st_size == 500 * 24


def test_the_returned_recipe_is_complete_and_gives_the_same_bytes(tmp_path):
    first = build(MARKET | {"partitions": 2}, tmp_path / "a")
    assert first.recipe["reject_one_in"] == 70_000 and first.recipe["inputs"] == "merged"
    again = build(json.loads(json.dumps(first.recipe)), tmp_path / "b")
    assert [p.sha256 for p in again.partitions] == [p.sha256 for p in first.partitions]
    assert again.recipe == first.recipe


@pytest.mark.parametrize(
    "recipe",
    [
        {"kind": "numbers", "records": 500},
        {"kind": "payloads", "records": 500, "size": 24},
        {"kind": "keyed", "records": 500},
        {"kind": "keyed", "records": 500, "key_shape": "same-low-32"},
        {"kind": "market", "records": 500, "edges": True},
    ],
)
def test_the_bytes_depend_on_the_secret(tmp_path, recipe):
    def digest(**more):
        (part,) = build(recipe | {"seed": 7} | more, tmp_path / str(more)).partitions
        return part.sha256

    assert digest(secret="") == digest(secret="0") == digest()
    assert len({digest(secret=secret) for secret in ("0", "1", "f" * 32, "e" + "f" * 31)}) == 4
    assert digest(secret="1", seed=8) not in (digest(secret="1"), digest(seed=8))


def test_ticks_grow_so_that_the_plan_stays_small():
    ends = tick_ends(10_000_000, 1)
    assert len(ends) <= MAX_TICKS and ends[-1] == 10_000_000
    assert (np.diff(ends) > 0).all()


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60).map(sorted), st.integers(1, 10))
def test_no_tick_ends_within_one_time(times, tick):
    ends = tick_ends(len(times), tick, np.array(times, np.uint64)).tolist()
    assert ends[-1] == len(times) and ends == sorted(set(ends))
    for end in ends[:-1]:
        assert times[end - 1] < times[end]


def test_progress_reaches_the_end(tmp_path):
    seen = []
    build(MARKET, tmp_path, seen.append)
    assert seen == sorted(seen) and seen[-1] == 40_000


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({}, "kind: expected one of payloads, numbers"),
        ({"kind": "markets"}, "kind: expected one of .* got 'markets'"),
        ({"kind": "numbers", "seed": 1}, "missing key 'records' for kind 'numbers'"),
        ({"kind": "payloads", "seed": 1, "records": 1}, "missing key 'size'"),
        (MARKET | {"symbol": 3}, "unknown key 'symbol' for kind 'market'; expected .*symbols"),
        (MARKET | {"symbols": 0}, "symbols: expected a whole number 1 to 3000, got 0"),
        (MARKET | {"partitions": 0}, "partitions: expected a whole number 1 to 4096, got 0"),
        (MARKET | {"records": -1}, "records: expected"),
        (MARKET | {"records": "many"}, "records: expected .* got 'many'"),
        (MARKET | {"tick": 1.5}, "tick: expected"),
        (MARKET | {"secret": "12G"}, "secret: expected up to 32 hexadecimal digits, got '12G'"),
        (MARKET | {"secret": 12}, "secret: expected up to 32 hexadecimal digits, got 12"),
        (MARKET | {"secret": "0" * 33}, "secret: expected up to 32 hexadecimal digits"),
        (MARKET | {"inputs": "three"}, "inputs: expected merged or two, got 'three'"),
    ],
)
def test_a_wrong_recipe_names_the_key(tmp_path, recipe, message):
    with pytest.raises(ValueError, match=message):
        build(recipe, tmp_path)
    assert list(tmp_path.iterdir()) == []
