"""Each app as Python, compiled and decided ahead: the same for every split of its input.

And the same as a slow, obvious oracle that knows dicts and whole numbers only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.playing import Input, Played, Split, compiling, plain, play, splits
from tickproof.generators.numbers import EDGE_KEYS, EDGE_NUMBERS
from tickproof.generators.recipes import build
from tickproof.reference.api import Computation
from tickproof.reference.api.layouts import framed, new
from tickproof.reference.apps import count, double, market_spread
from tickproof.reference.compiler.steps import ahead, applied

SYMBOLS = (b"A       ", b"BRK B   ", b"ZVZZTEST")
#: Bid and offer at the edges of the rule, no quote worth the name, and crossed ones.
EDGE_PRICES = (
    *((0, 0), (1_000_000, 1_000_499), (1_000_000, 1_000_500), (39, 41), (40, 42), (3900, 4100)),
    *((5, 0), (2**53, 0), (0, 2**53), (2**53, 2**53), (2**53 - 499, 2**53), (0, 1)),
)
I64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(
    [n - 2**64 if n >= 2**63 else n for n in EDGE_NUMBERS]
)


def long_lists(elements: st.SearchStrategy) -> st.SearchStrategy:
    """Lists of any length up to 40: hypothesis left alone makes five elements or so."""
    return st.integers(0, 40).flatmap(lambda n: st.lists(elements, min_size=n, max_size=n))


def wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def by_partition(records: np.ndarray, keys: list[int], partitions: int, stream=0) -> Input:
    """Give each key its partition."""
    at = np.array([key % partitions for key in keys], int)
    return {(stream, p): records[at == p] for p in range(partitions)}


# -- double -------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(I64, max_size=30), st.integers(1, 3), splits)
def test_double(numbers, partitions, split):
    records = new(len(numbers), double.NUMBER)
    records["x"] = numbers
    given_ = by_partition(records, list(range(len(numbers))), partitions)
    expected = Counter((wrapped(2 * x),) for x in numbers)
    for at_once in (False, True):
        with compiling(at_once):
            assert Counter(play(double.application(), given_, split).outputs) == expected


def test_a_record_may_have_padding_and_fields_of_any_name():
    layout = framed(("fee", "<u8"), ("", "V3"), ("f9", "<i8"))
    records = new(2, layout)
    records["fee"], records["f9"] = [1, 2], [-3, -4]
    swap = Computation("swap", lambda record: (abs(record.f9), -1), layout)
    assert plain(applied(swap, records)[0]) == [(3, -1), (4, -1)]


# -- count --------------------------------------------------------------------------

keys = st.sampled_from(EDGE_KEYS) | st.integers(0, 4) | st.integers(0, 2**64 - 1)
keyed = long_lists(st.tuples(keys, I64))


def points(records: Input, split: Split) -> tuple[list[dict], list[tuple]]:
    """The oracle: of each batch the points of each key, in order; and the state."""
    state: dict[int, tuple[int, int]] = {}
    batches = []
    for ranges in split.ranges(records):
        batch = defaultdict(list)
        for address, start, end in ranges:
            for _, key, value in records[address][start:end].tolist():
                n, total = state.get(key, (0, 0))
                state[key] = n + 1, wrapped(total + value)
                batch[key].append(state[key])
        batches.append(dict(batch))
    return batches, sorted((key, *point) for key, point in state.items())


def by_key(outputs: list[tuple]) -> dict[int, list[tuple]]:
    """Return the points of each key, in the order in which they came."""
    found = defaultdict(list)
    for key, *point in outputs:
        found[key].append(tuple(point))
    return dict(found)


def values(pairs: list[tuple[int, int]], partitions: int) -> Input:
    records = new(len(pairs), count.VALUE)
    if pairs:
        records["key"], records["value"] = zip(*pairs, strict=True)
    return by_partition(records, [key for key, _ in pairs], partitions)


@settings(deadline=None)
@given(keyed, st.integers(1, 3), splits)
def test_count_every(pairs, partitions, split):
    records = values(pairs, partitions)
    expected, state = points(records, split)
    for at_once in (False, True):
        with compiling(at_once):
            played = play(count.application("every"), records, split)
        assert [by_key(batch) for batch in played.batches] == expected
        assert played.state == state


@settings(deadline=None)
@given(keyed, st.integers(1, 3), splits)
def test_count_some(pairs, partitions, split):
    records = values(pairs, partitions)
    expected, state = points(records, split)
    lasts = [{key: batch[key][-1:] for key in batch} for batch in expected]
    for at_once in (False, True):
        with compiling(at_once):
            played = play(count.application("some"), records, split)
        assert [by_key(batch) for batch in played.batches] == lasts
        assert played.state == state


def test_count_adds_what_was_counted_before():
    records = values([(7, 5), (7, 10), (7, 15)], 1)
    for at_once in (False, True):
        with compiling(at_once):
            played = play(count.application("every"), records, Split(4, batches=3))
        assert played.outputs == [(7, 1, 5), (7, 2, 15), (7, 3, 30)]


# -- market spread ------------------------------------------------------------------

prices = st.sampled_from(EDGE_PRICES) | st.tuples(st.integers(0, 2**53), st.integers(0, 2**53))
#: (is an order, which symbol, bid and offer); ids are counted.
messages = long_lists(st.tuples(st.booleans(), st.integers(0, 2), prices))


def market(rows: list[tuple], partitions: int, two: bool) -> Input:
    """Return the messages by stream and partition; of an order, bid and offer mean nothing."""
    records = new(len(rows), market_spread.MESSAGE)
    for number, (is_order, symbol, (bid, offer)) in enumerate(rows):
        record = records[number]
        record["kind"] = 1 if is_order else 2
        record["symbol"] = int.from_bytes(SYMBOLS[symbol], "little")
        record["id"], record["event_ns"] = number + 1, number
        record["bid"], record["offer"] = bid, offer
    if not two:
        return by_partition(records, [symbol for _, symbol, _ in rows], partitions)
    streams = {}
    for stream, kind in enumerate((2, 1)):
        mine = [row for row in rows if row[0] == bool(stream)]
        keys = [symbol for _, symbol, _ in mine]
        streams |= by_partition(records[records["kind"] == kind], keys, partitions, stream)
    return streams


def verdicts(records: Input, split: Split, emit: str) -> tuple[list[Counter], list[tuple]]:
    """The oracle. In a batch of two streams all quotes come before all orders."""
    quotes: dict[int, tuple[int, int, int]] = {}
    symbols, batches = set(), []
    for ranges in split.ranges(records):
        batch = Counter()
        for address, start, end in ranges:  # ascending: stream 0 first
            for _, kind, _, symbol, number, _, bid, offer, _ in records[address][
                start:end
            ].tolist():
                symbols.add(symbol)
                if kind == 2:
                    quotes[symbol] = number, bid, offer
                    continue
                seen, bid, offer = quotes.get(symbol, (0, 0, 0))
                spread = offer - bid
                rejected = not seen or spread >= 500 or 40 * spread >= bid + offer
                if rejected or emit == "verdicts":
                    batch[number, symbol, seen, bid, offer, int(rejected)] += 1
        batches.append(batch)
    return batches, sorted((symbol, *quotes.get(symbol, (0, 0, 0))) for symbol in symbols)


def in_every_way(application, records: Input, split: Split) -> Iterator[Played]:
    """Play it compiled and as Python, with what is decided ahead and without."""
    for at_once in (False, True):
        with compiling(at_once):
            for combine in (False, True):
                yield play(application, records, split, combine=combine)


def expect_verdicts(application, records: Input, split: Split, emit: str) -> None:
    """Expect the oracle's verdicts of each batch, each once, and its state."""
    expected, state = verdicts(records, split, emit)
    for played in in_every_way(application, records, split):
        assert [Counter(batch) for batch in played.batches] == expected
        # A symbol whose orders were all decided ahead may be unknown here, but its newest quote
        # is always kept.
        assert [row for row in played.state if row[1]] == [row for row in state if row[1]]


emits = st.sampled_from(["rejects", "verdicts"])


@settings(deadline=None)
@given(messages, emits, st.integers(1, 3), splits)
def test_market_spread_merged(rows, emit, partitions, split):
    records = market(rows, partitions, two=False)
    expect_verdicts(market_spread.merged(emit), records, split, emit)


@settings(deadline=None)
@given(messages, emits, st.integers(1, 3), splits)
def test_market_spread_two_streams(rows, emit, partitions, split):
    records = market(rows, partitions, two=True)
    expect_verdicts(market_spread.two_streams(emit), records, split, emit)


@pytest.mark.parametrize(
    ("bid", "offer", "rejected"),
    [
        (1_000_000, 1_000_499, 0),
        (1_000_000, 1_000_500, 1),
        (39, 41, 1),
        (40, 42, 0),
        (0, 0, 1),
        (1_000_500, 1_000_000, 0),
    ],
)
def test_the_rule_at_its_edges(bid, offer, rejected):
    records = market([(False, 0, (bid, offer)), (True, 0, (9, 9))], 1, two=False)
    symbol = int.from_bytes(SYMBOLS[0], "little")
    for played in in_every_way(market_spread.merged("verdicts"), records, Split(0)):
        assert played.outputs == [(2, symbol, 1, bid, offer, rejected)]


def test_an_order_without_a_quote_is_rejected():
    records = market([(True, 0, (9, 9)), (False, 0, (40, 42)), (True, 1, (9, 9))], 1, two=False)
    first, second = (int.from_bytes(symbol, "little") for symbol in SYMBOLS[:2])
    for played in in_every_way(market_spread.merged("rejects"), records, Split(0)):
        assert sorted(played.outputs) == [(1, first, 0, 0, 0, 1), (3, second, 0, 0, 0, 1)]


def test_what_is_decided_ahead_leaves_only_what_the_state_must_see():
    rows = [(False, 0, (40, 42))] * 50 + [(True, 0, (9, 9))] * 50 + [(True, 1, (9, 9))] * 3
    (records,) = market(rows, 1, two=False).values()
    step = market_spread.merged("verdicts").pipelines[0].stages[1].steps[0]
    rest, decided = ahead(step, "symbol", records)
    assert rest["id"].tolist() == [50, 101, 102, 103]
    assert decided["order_id"].tolist() == list(range(51, 101))


# -- the kit's own inputs -----------------------------------------------------------


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Build an input once; returns its records by address, seen as the app's."""
    built: dict[str, Input] = {}

    def make(layout, **recipe) -> Input:
        name = repr(recipe)
        if name not in built:
            made = build(recipe | {"seed": 7}, tmp_path_factory.mktemp("input"))
            built[name] = {
                (part.stream, part.partition): np.fromfile(part.path, layout)
                for part in made.partitions
            }
        return built[name]

    return make


@settings(max_examples=15, deadline=None)
@given(split=splits, emit=emits, symbols=st.sampled_from([1, 3, 350]))
def test_market_spread_over_a_market_of_the_kit(inputs, split, emit, symbols):
    records = inputs(
        market_spread.MESSAGE,
        kind="market",
        records=3000,
        symbols=symbols,
        crossed=True,
        probe_one_in=10,
        reject_one_in=20,
        partitions=3,
    )
    expect_verdicts(market_spread.merged(emit), records, split, emit)


@settings(max_examples=15, deadline=None)
@given(split=splits, emit=emits)
def test_market_spread_over_two_streams_of_the_kit(inputs, split, emit):
    records = inputs(
        market_spread.MESSAGE,
        kind="market",
        records=3000,
        symbols=5,
        crossed=True,
        probe_one_in=10,
        reject_one_in=20,
        partitions=2,
        inputs="two",
    )
    expect_verdicts(market_spread.two_streams(emit), records, split, emit)


@settings(max_examples=15, deadline=None)
@given(split=splits, keys=st.sampled_from([1, 20, 1000]))
def test_count_over_keys_of_the_kit(inputs, split, keys):
    records = inputs(
        count.VALUE,
        kind="keyed",
        records=3000,
        keys=keys,
        edge_keys=keys > 1,
        wrap=True,
        partitions=3,
    )
    expected, state = points(records, split)
    every = play(count.application("every"), records, split)
    assert [by_key(batch) for batch in every.batches] == expected
    some = play(count.application("some"), records, split)
    assert [by_key(b) for b in some.batches] == [
        {k: p[-1:] for k, p in b.items()} for b in expected
    ]
    assert every.state == some.state == state
