"""The merged Market Spread checker against a dictionary, and what it must reject."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checkers.market_cases import (
    SYMBOLS,
    log,
    merged_market,
    messages,
    order,
    quote,
    steps,
    verdict,
)
from tickproof.conformance.checkers import answers as answers_module
from tickproof.conformance.checkers.answers import Answers
from tickproof.conformance.checkers.expected import merged_verdicts
from tickproof.conformance.checkers.market_rule import symbol_text
from tickproof.conformance.checkers.merged import check_merged
from tickproof.conformance.checkers.symbols import Symbols
from tickproof.conformance.explain.words import words

A = SYMBOLS[0]
markets = st.lists(steps, min_size=1, max_size=3)


def kept(right: list[np.ndarray], emit: str) -> list[np.ndarray]:
    return [row for row in right if emit == "verdicts" or row["verdict"][0]]


def slow_check(right: list[np.ndarray], came: list[np.ndarray], emit: str) -> Counter[str]:
    true = {int(row["order_id"][0]): row for row in right}
    need = {int(row["order_id"][0]) for row in kept(right, emit)}
    first: dict[int, bytes] = {}
    kinds: Counter[str] = Counter()
    for row in came:
        key = int(row["order_id"][0])
        if key not in true:
            kinds["invented"] += 1
            continue
        clean = row.copy()
        clean["zero"] = 0
        kinds["malformed"] += row["zero"].any()
        if key not in need:
            kinds["invented"] += 1
        elif clean.tobytes() != true[key].tobytes():
            kinds["wrong-verdict"] += 1
        if key in first:
            kinds["duplicate" if first[key] == row.tobytes() else "retracted"] += 1
        first.setdefault(key, row.tobytes())
    kinds["lost"] = len(need - first.keys())
    return +kinds


@st.composite
def broken(draw, right):
    """A right output with rows dropped, repeated, moved and changed."""
    rows = draw(st.permutations(right)) if right else []
    rows = rows[: draw(st.integers(0, len(rows)))] + (
        draw(st.lists(st.sampled_from(rows), max_size=4)) if rows else []
    )
    rows = [row.copy() for row in rows]
    for row in draw(st.lists(st.sampled_from(rows), max_size=3)) if rows else []:
        field = draw(st.sampled_from(["order_id", "quote_id", "bid", "offer", "verdict", "symbol"]))
        row[field] = draw(st.sampled_from(SYMBOLS)) if field == "symbol" else row[field] + 1
        if draw(st.booleans()):
            row["zero"][0, 6] = 1
    return rows


@given(
    st.data(),
    markets,
    st.sampled_from(["rejects", "verdicts"]),
    st.integers(1, 6),
    st.integers(1, 5),
)
def test_agrees_with_the_slow_oracle(data, parts, emit, piece_rows, block):
    partitions, right = merged_market(parts)
    right = kept(right, emit) if data.draw(st.booleans()) else right
    came = data.draw(broken(right))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers_module.Answers.__init__, "__defaults__", (block,))
        found = check_merged(partitions, log(came), emit, piece_rows=piece_rows)
    assert found.counts == slow_check(merged_market(parts)[1], came, emit)


@given(markets, st.sampled_from(["rejects", "verdicts"]), st.integers(1, 9), st.randoms())
def test_a_right_history_in_any_order_gives_no_finding(parts, emit, piece_rows, random):
    partitions, right = merged_market(parts)
    came = kept(right, emit)
    random.shuffle(came)
    assert not check_merged(partitions, log(came), emit, piece_rows=piece_rows)


@given(markets)
def test_counts_by_symbol(parts):
    partitions, right = merged_market(parts)
    orders, rejected = Counter(), Counter()
    for row in right:
        symbol = row["symbol"][0].decode().strip()
        orders[symbol] += 1
        rejected[symbol] += int(row["verdict"][0])
    due_orders, due_rejects = Counter(), Counter()
    for _, verdicts in merged_verdicts(partitions):
        for word, tail in zip(verdicts["symbol"].tolist(), verdicts["tail"].tolist(), strict=True):
            due_orders[symbol_text(word)] += 1
            due_rejects[symbol_text(word)] += tail
    assert (due_orders, due_rejects) == (orders, rejected)


STREAM = [
    quote(A, 1, 1_000_000, 1_000_100),
    quote(A, 2, 1_000_000, 1_000_500),
    order(A, 1),
    quote(A, 3, 780, 820),
    order(A, 2),
    quote(SYMBOLS[1], 4, 5_000, 9_000),
]
ONE = verdict(1, A, 2, 1_000_000, 1_000_500, 1)
TWO = verdict(2, A, 3, 780, 820, 1)


@pytest.mark.parametrize(
    ("came", "kind", "part"),
    [
        ([TWO], "lost", "exactly 500"),
        ([ONE], "lost", "exactly bid + offer"),
        ([ONE, TWO, TWO], "duplicate", "order 2: output 1, and again output 2"),
        ([ONE, verdict(1, A, 1, 1_000_000, 1_000_100, 0), TWO], "retracted", "output 0, and"),
        ([verdict(1, A, 1, 1_000_000, 1_000_100, 0), TWO], "wrong-verdict", "stale quote: 1"),
        ([verdict(1, A, 3, 780, 820, 1), TWO], "wrong-verdict", "future quote: 3"),
        ([verdict(1, A, 0, 0, 0, 1), TWO], "wrong-verdict", "no quote named"),
        ([verdict(1, A, 9, 0, 0, 1), TWO], "wrong-verdict", "quote 9 does not exist"),
        ([verdict(1, A, 4, 5_000, 9_000, 1), TWO], "wrong-verdict", "quote 4 is one of BB"),
        ([verdict(1, A, 2, 1_000_250, 1_000_500, 1), TWO], "wrong-verdict", "middle"),
        ([verdict(1, A, 2, 1_000_500, 1_000_000, 1), TWO], "wrong-verdict", "swapped"),
        ([verdict(1, A, 2, 1_000_000, 1_000_500, 0), TWO], "wrong-verdict", "exactly 500"),
        ([verdict(1, SYMBOLS[1], 2, 1_000_000, 1_000_500, 1), TWO], "wrong-verdict", "symbol BB"),
        ([ONE, TWO, verdict(7, A, 3, 780, 820, 1)], "invented", "not in the input"),
    ],
)
def test_each_mistake_is_named(came, kind, part):
    found = check_merged([messages(STREAM)], log(came), "verdicts")
    first = found.first([kind])
    assert first and part in words(first).summary
    assert first.where["order_id"] in (1, 2, 7) and first.where["symbol"] in ("A", "BB")


def test_a_missing_ratio_clause_is_named():
    stream = [quote(A, 1, 700, 820), order(A, 1)]
    found = check_merged([messages(stream)], log([]), "rejects").first(["lost"])
    assert found and "only the ratio clause rejects" in words(found).summary
    assert (found.where["partition"], found.where["offset"]) == (0, 1)


def test_an_accepted_order_stays_silent_under_rejects():
    stream = [quote(A, 1, 1_000_000, 1_000_100), order(A, 1)]
    answer = verdict(1, A, 1, 1_000_000, 1_000_100, 0)
    assert check_merged([messages(stream)], log([answer]), "rejects").counts == {"invented": 1}
    assert not check_merged([messages(stream)], log([]), "rejects")


def test_padding_must_be_zero():
    row = ONE.copy()
    row["zero"][0, 3] = 0xAB
    found = check_merged([messages(STREAM)], log([row, TWO]), "verdicts")
    assert found.counts == {"malformed": 1}
    assert words(found.first()).actual == "000000ab000000"


def test_bad_input_is_refused_with_its_place():
    strange = messages([order(A, 1), order(A, 1)])
    with pytest.raises(ValueError, match="order_id 1 comes twice"):
        check_merged([strange], log([]), "verdicts")
    other = order(A, 1)
    other["kind"] = 7
    with pytest.raises(ValueError, match=r"partition 0 offset 0: kind 7, expected 1"):
        check_merged([messages([other])], log([]), "verdicts")
    with pytest.raises(ValueError, match="emit: expected 'rejects' or 'verdicts', got 'some'"):
        check_merged([], log([]), "some")


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=9), max_size=5))
def test_symbols_have_steady_codes(batches):
    symbols, known = Symbols(), {}
    for batch in batches:
        words = np.array(batch, np.uint64)
        for word, code in zip(batch, symbols.codes(words).tolist(), strict=True):
            assert known.setdefault(word, code) == code
    assert symbols.words.tolist() == sorted(known, key=known.get)


def test_very_many_symbols():
    words = np.random.default_rng(3).permutation(50_000).astype(np.uint64)
    symbols = Symbols()
    codes = symbols.codes(words)
    assert (symbols.words[codes] == words).all() and len(symbols) == 50_000
    assert (symbols.codes(words) == codes).all()


def test_blocks_skip_orders_that_are_elsewhere():
    rows = [verdict(i, A, 1, 0, 0, 1) for i in (5, 9, 7, 20, 21)]
    found = Answers(log(rows), block=2)
    got = [(p.tolist(), r.tolist()) for p, r, _ in found.of(np.array([7, 20], np.uint64))]
    assert got == [([2, 3], [0, 1])]
    assert found.matched.tolist() == [False, False, True, True, False]
