import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import LONG
from tickproof.generators.choices import KEY_SHAPES
from tickproof.generators.hashing import index_of
from tickproof.generators.numbers import (
    EDGE_KEYS,
    EDGE_NUMBERS,
    EDGE_VALUES,
    SMALL_KEYS,
    SMALL_NUMBERS,
    Keyed,
    KeyedParams,
    Numbers,
    Payloads,
)

SOURCES = [
    (Numbers(5), "e697a1337a40d68e1710db21614314315bad287fa47fc4cb6ab794439a26e79f"),
    (Payloads(5, 52), "179986d81998af55e71544275ddaf02c5b6dd7e0eb1651e8cf483d9928f90ba9"),
    (Payloads(5, 3), "fad6dba258e41a4e4e618dab1cff9f11ef2e4ffbf5ab161576f2ebf2dbb27995"),
    (
        Keyed(KeyedParams(seed=5)),
        "4fe9249e1468be9e0a6b76e4a34509666e0723f514de14f41ae9b3f682755ee1",
    ),
    (
        Keyed(KeyedParams(seed=5, keys=20, edge_keys=True, wrap=True)),
        "f4e182e4cc00c5f92832f89ddf037dba3d212071639263732c7aaeebeea9ab1b",
    ),
]


@pytest.mark.parametrize(("source", "expected"), SOURCES)
def test_golden_bytes(source, expected):
    assert hashlib.sha256(source.records(0, 2000).tobytes()).hexdigest() == expected


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([source for source, _ in SOURCES]), st.integers(0, 500), st.integers(0, 500))
def test_bytes_do_not_depend_on_the_chunks(source, a, b):
    a, b = sorted((a, b))
    whole = source.records(0, 500)
    pieces = (source.records(0, a), source.records(a, b), source.records(b, 500))
    assert b"".join(piece.tobytes() for piece in pieces) == whole.tobytes()


def test_numbers_are_distinct_and_begin_with_the_edges():
    records = Numbers(1).records(0, 200_000)
    x = records["payload"]["x"]
    assert (records["size"] == 8).all()
    assert len(np.unique(x)) == 200_000
    assert x[:5].tolist() == [0, -1, 1, -(2**63), 2**63 - 1]


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_no_hashed_number_is_an_edge_within_reach(seed):
    key = Numbers(seed)._key
    assert min(index_of(key, edge) for edge in EDGE_NUMBERS) >= 2**48


@pytest.mark.parametrize("size", [8, 9, 52, 1000])
def test_payloads_are_distinct_and_of_their_size(size):
    records = Payloads(1, size).records(0, 3000)
    assert records.itemsize == size + 4
    assert (records["size"] == size).all()
    assert len({row.tobytes()[:8] for row in records["payload"]}) == 3000


@pytest.mark.parametrize("size", [0, 2**20 + 1, "8", True])
def test_a_wrong_payload_size_is_named(size):
    with pytest.raises(ValueError, match="size: expected a whole number 1 to"):
        Payloads(1, size)


def test_edge_keys_are_all_met_and_keys_are_distinct():
    params = KeyedParams(keys=100, edge_keys=True, hot_keys=0.5)
    keyed = Keyed(params)
    assert len(np.unique(keyed.keys(np.arange(100, dtype=np.uint64)))) == 100
    met = set(keyed.records(0, 20_000)["payload"]["key"].tolist())
    assert set(EDGE_KEYS) <= met
    assert len(met) == 100


def test_edge_keys_hold_pairs_equal_in_one_half():
    low = {key & 0xFFFFFFFF for key in EDGE_KEYS}
    high = {key >> 32 for key in EDGE_KEYS}
    assert len(set(EDGE_KEYS)) == len(EDGE_KEYS)
    assert len(low) < len(EDGE_KEYS) and len(high) < len(EDGE_KEYS)


def test_hot_keys_take_their_share():
    keys = Keyed(KeyedParams(keys=1000)).records(0, 50_000)["payload"]["key"]
    _, counts = np.unique(keys, return_counts=True)
    assert 0.78 < np.sort(counts)[::-1][:200].sum() / 50_000 < 0.83


def test_every_value_changes_its_total():
    small = Keyed(KeyedParams()).records(0, 50_000)["payload"]["value"]
    assert (small != 0).all() and (np.abs(small) < 2**24).all()
    assert (small < 0).any() and (small > 0).any()
    wide = Keyed(KeyedParams(wrap=True)).records(0, 50_000)["payload"]["value"]
    assert (wide != 0).all()
    assert abs(sum(wide[wide > 0].tolist())) > 2**63


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("keys", 0),
        ("hot_share", 2),
        ("hot_keys", None),
        ("edge_keys", 1),
        ("seed", 2**192),
        ("key_shape", "flat"),
    ],
)
def test_a_wrong_parameter_is_named(key, value):
    with pytest.raises(ValueError, match=f"^{key}: expected"):
        KeyedParams(**{key: value})


def keys_of(shape, keys=3_000):
    return Keyed(KeyedParams(keys=keys, key_shape=shape)).keys(np.arange(keys, dtype=np.uint64))


@pytest.mark.parametrize("shape", KEY_SHAPES)
@given(st.integers(1, 2**24), st.integers(0, 2**64 - 1))
@settings(max_examples=20, deadline=None)
def test_keys_of_any_shape_are_distinct(shape, keys, seed):
    keyed = Keyed(KeyedParams(seed=seed, keys=keys, key_shape=shape))
    number = np.unique(np.linspace(0, keys - 1, 2_000, dtype=np.uint64))
    number = np.unique(np.concatenate([number, np.arange(min(keys, 2_000), dtype=np.uint64)]))
    found = keyed.keys(number)
    assert found.dtype == np.uint64 and len(set(found.tolist())) == len(number)


@LONG
def test_a_million_keys_of_any_shape_are_distinct():
    for shape in KEY_SHAPES:
        assert len(np.unique(keys_of(shape, 1_000_000))) == 1_000_000, shape


def test_shapes_of_keys_are_what_their_names_say():
    assert keys_of("dense", 5).tolist() == [1, 2, 3, 4, 5]
    for bits in (16, 32):
        keys = keys_of(f"same-low-{bits}").tolist()
        assert len({key % 2**bits for key in keys}) == 1
        assert len({key >> bits for key in keys}) == len(keys)
    # Equal in 16 bits they differ in 32, where nearly all 32-bit hashes look.
    assert len({key % 2**32 for key in keys_of("same-low-16").tolist()}) == 3_000
    limits = keys_of("limits", 30).tolist()
    assert {0, 1, 2**64 - 1, 2**64 - 2, 2**63 - 1, 2**63, 2**63 + 1, 2**32, 2**31 - 1} <= set(
        limits
    )


def test_a_shape_has_the_choice_and_the_values_of_the_spread():
    spread = Keyed(KeyedParams(keys=50)).records(0, 1_000)["payload"]
    dense = Keyed(KeyedParams(keys=50, key_shape="dense")).records(0, 1_000)["payload"]
    assert spread["value"].tolist() == dense["value"].tolist()
    pairs = set(zip(spread["key"].tolist(), dense["key"].tolist(), strict=True))
    assert len(pairs) == len(np.unique(spread["key"]))


def test_edge_keys_belong_to_the_spread():
    with pytest.raises(ValueError, match="edge_keys: expected only with key_shape spread, not den"):
        KeyedParams(key_shape="dense", edge_keys=True)


def test_with_edges_small_numbers_and_keys_follow_those_of_before():
    x = [
        Numbers(1, edges).records(0, 60)["payload"]["x"].view(np.uint64) for edges in (False, True)
    ]
    assert tuple(x[1][: len(EDGE_NUMBERS)]) == tuple(x[0][: len(EDGE_NUMBERS)]) == EDGE_NUMBERS
    assert tuple(x[1][len(EDGE_NUMBERS) :][: len(SMALL_NUMBERS)]) == SMALL_NUMBERS
    keys = Keyed(KeyedParams(edge_keys=True, edges=True)).keys(np.arange(60, dtype=np.uint64))
    assert tuple(keys[: len(EDGE_KEYS) + len(SMALL_KEYS)]) == EDGE_KEYS + SMALL_KEYS
    assert len(set(keys.tolist())) == 60


def test_one_value_in_64_is_an_edge():
    usual, edges = (
        Keyed(KeyedParams(edges=one)).records(0, 64_000)["payload"] for one in (False, True)
    )
    assert (usual["value"] != 0).all()
    changed = usual["value"] != edges["value"]
    assert set(edges["value"][changed].tolist()) == set(EDGE_VALUES)
    assert 900 < changed.sum() < 1_100
    assert (usual["key"] == edges["key"]).all()
