"""Kafka's partition of a key: against its own test values, a slow version, and a real client."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.generators.oracle import slow_fnv1a, slow_murmur2
from tickproof.generators.partitioner import Texts, crc32, decimals, fnv1a, murmur2, symbols
from tickproof.generators.symbols import words

#: Of UtilsTest in Apache Kafka.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def back(texts):
    return [row[:size].tobytes() for row, size in zip(texts.rows, texts.lengths, strict=True)]


def test_the_hash_is_that_of_the_java_client():
    found = murmur2(Texts.of(list(KNOWN)))
    assert found.view(np.int32).tolist() == list(KNOWN.values())
    assert [slow_murmur2(text) for text in KNOWN] == found.tolist()


@given(st.lists(st.binary(max_size=24)))
def test_hashes_of_any_bytes(texts):
    given_ = Texts.of(texts)
    assert murmur2(given_).tolist() == [slow_murmur2(text) for text in texts]
    assert fnv1a(given_).tolist() == [slow_fnv1a(text) for text in texts]
    assert crc32(given_).tolist() == [zlib.crc32(text) for text in texts]


EDGES = [0, 9, 10, 99, 10**19 - 1, 10**19, 2**53, 2**63, 2**64 - 1]


@given(st.lists(st.one_of(st.integers(0, 2**64 - 1), st.sampled_from(EDGES))))
def test_a_number_as_text(numbers):
    texts = decimals(np.array(numbers, np.uint64))
    assert back(texts) == [b"%d" % number for number in numbers]
    assert murmur2(texts).tolist() == [slow_murmur2(b"%d" % number) for number in numbers]


@pytest.mark.parametrize("symbol", ["A", "AB", "BRK A", "PROBE.07", ""])
def test_a_symbol_as_text(symbol):
    assert back(symbols(words([symbol]))) == [symbol.encode()]
    assert murmur2(symbols(words([symbol]))).tolist() == [slow_murmur2(symbol.encode())]


def test_fnv1a_is_that_of_its_authors():
    assert fnv1a(Texts.of([b"", b"a", b"foobar"])).tolist() == [0x811C9DC5, 0xE40C292C, 0xBF9CF968]
