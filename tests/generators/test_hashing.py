import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.generators.hashing import MAX_SEED, hashed, index_of, key_avoiding, key_of, scaled

U64 = st.integers(0, 2**64 - 1)
#: Without a secret, and with one.
KEYS = U64 | st.integers(2**64, 2**256 - 1)
SEEDS = U64 | st.integers(2**64, MAX_SEED)
MASK = 2**64 - 1


def slow_mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def slow_hash(key: int, index: int) -> int:
    first, *others = [key] if key <= MASK else [key >> 64 * i & MASK for i in range(4)]
    x = slow_mix((index * 0x9E3779B97F4A7C15 + first) & MASK)
    for other in others:
        x = slow_mix(x ^ other)
    return x


@given(KEYS, st.lists(U64, min_size=1, max_size=20))
def test_arrays_hash_as_integers_do(key, indexes):
    got = hashed(key, np.array(indexes, np.uint64)).tolist()
    assert got == [slow_hash(key, index) for index in indexes]


@given(KEYS, U64)
def test_index_of_is_the_inverse(key, index):
    assert index_of(key, slow_hash(key, index)) == index


@given(SEEDS)
def test_key_avoiding_keeps_values_out_of_reach(seed):
    values = (0, MASK, 7)
    key = key_avoiding(seed, "test", values, indexes=2**62)
    assert all(index_of(key, value) >= 2**62 for value in values)


def test_names_and_seeds_give_keys_of_their_own():
    assert len({key_of(seed, name) for seed in range(50) for name in ("a", "b")}) == 100


def test_one_value_gives_the_key_of_a_seed_without_a_secret_only():
    index, others = np.array([5], np.uint64), np.arange(100, 200, dtype=np.uint64)
    for seed, foreseen in ((7, True), (7 | 1 << 64, False)):
        key = key_of(seed, "values")
        guess = index_of(0, int(hashed(key, index)[0])) - 5
        guess = guess * 0x9E3779B97F4A7C15 & MASK
        assert bool((hashed(guess, others) == hashed(key, others)).any()) is foreseen


@pytest.mark.parametrize("seed", [-1, MAX_SEED + 1])
def test_a_seed_out_of_range_is_named(seed):
    with pytest.raises(ValueError, match=r"seed: expected 0 to 2\*\*192 - 1"):
        key_of(seed, "x")


@given(st.integers(1, 2**20), st.integers(0, 2**24 - 1))
def test_scaled_stays_below_the_count(count, bits):
    got = scaled(np.array([bits], np.uint64), 24, count)[0]
    assert got == bits * count // 2**24 < count
