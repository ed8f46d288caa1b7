import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.generators.hashing import hashed, index_of, key_avoiding, key_of, scaled

U64 = st.integers(0, 2**64 - 1)
MASK = 2**64 - 1


def slow_hash(key: int, index: int) -> int:
    x = (index * 0x9E3779B97F4A7C15 + key) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


@given(U64, st.lists(U64, min_size=1, max_size=20))
def test_arrays_hash_as_integers_do(key, indexes):
    got = hashed(key, np.array(indexes, np.uint64)).tolist()
    assert got == [slow_hash(key, index) for index in indexes]


@given(U64, U64)
def test_index_of_is_the_inverse(key, index):
    assert index_of(key, slow_hash(key, index)) == index


@given(st.integers(0, 2**64 - 1))
def test_key_avoiding_keeps_values_out_of_reach(seed):
    values = (0, MASK, 7)
    key = key_avoiding(seed, "test", values, indexes=2**62)
    assert all(index_of(key, value) >= 2**62 for value in values)


def test_names_and_seeds_give_keys_of_their_own():
    assert len({key_of(seed, name) for seed in range(50) for name in ("a", "b")}) == 100


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_named(seed):
    with pytest.raises(ValueError, match=r"seed: expected 0 to 2\*\*64 - 1"):
        key_of(seed, "x")


@given(st.integers(1, 2**20), st.integers(0, 2**24 - 1))
def test_scaled_stays_below_the_count(count, bits):
    got = scaled(np.array([bits], np.uint64), 24, count)[0]
    assert got == bits * count // 2**24 < count
