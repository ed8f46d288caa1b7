"""The example apps: against a slow, obvious oracle, in every split; then streamed as in batch."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pytest
from chispa import assert_df_equality
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import LONG
from tests.reference.playing import Input, batches, plain, splits
from tests.reference.querying import recorded, running
from tests.reference.served import Served, partition
from tickproof.reference.api import Application
from tickproof.reference.api.layouts import new
from tickproof.reference.apps import circuit_breaker, votes, vwap, word_count
from tickproof.reference.compiler import batch, streaming

LASTS = int(circuit_breaker.LASTS_NS)
#: (symbol, seconds since its last trade, price, volume)
trades = st.lists(
    st.tuples(
        st.sampled_from([b"A", b"BRK B", b"ZVZZTEST"]), st.sampled_from([0, 1, 299, 300, 301]),
        st.sampled_from([900, 909, 910, 1000, 1100]), st.integers(1, 9),
    ),
    max_size=30,
)  # fmt: skip
lines = st.lists(st.text("aBc\N{LATIN SMALL LETTER E WITH ACUTE} ", max_size=30), max_size=12)
letters = st.lists(st.tuples(st.sampled_from([b"a", b"b", b""]), st.integers(0, 2**32 - 1)))

# -- inputs, with each key in one partition; and what comes out, by stream ------------


def of_lines(texts: list[str]) -> Input:
    """Return lines, all in one partition: any word may be in any line."""
    records = new(len(texts), word_count.LINE)
    records["text"] = [text.encode() for text in texts]
    return {(0, 0): records}


def counts(texts: list[str]) -> dict[int, list[tuple]]:
    seen: Counter[bytes] = Counter()
    made = []
    for text in texts:
        for word in text.encode().lower().split():
            seen[word] += 1
            made.append((word, seen[word]))
    return {0: made}


def by_symbol(records: np.ndarray, keys: list[bytes]) -> Input:
    at = np.array([sum(key) % 2 for key in keys], int)
    return {(0, number): records[at == number] for number in range(2)}


def of_votes(given_: list[tuple[bytes, int]]) -> Input:
    records = new(len(given_), votes.VOTES)
    records["letter"], records["votes"] = zip(*given_, strict=True) if given_ else ([], [])
    return by_symbol(records, [letter for letter, _ in given_])


def sums(given_: list[tuple[bytes, int]]) -> dict[int, list[tuple]]:
    total: Counter[bytes] = Counter()
    made = []
    for letter, number in given_:
        total[letter] += number
        made.append((letter, total[letter]))
    return {0: made}


def of_trades(given_: list[tuple]) -> Input:
    records = new(len(given_), vwap.TRADE)
    for record, trade in zip(records, timed(given_), strict=True):
        for name, value in zip(("symbol", "ns", "price", "volume"), trade, strict=True):
            record[name] = value
    return by_symbol(records, [symbol for symbol, *_ in given_])


def timed(given_: list[tuple]) -> list[tuple]:
    """Return the trades with the time of their symbol, in nanoseconds."""
    now: Counter[bytes] = Counter()
    made = []
    for symbol, seconds, *rest in given_:
        now[symbol] += seconds
        made.append((symbol, (now[symbol] + 1) * 10**9, *rest))
    return made


def averages(given_: list[tuple]) -> dict[int, list[tuple]]:
    seen = defaultdict(list)
    made = []
    for symbol, ns, price, volume in timed(given_):
        seen[symbol].append((price, volume))
        exact = Fraction(sum(p * v for p, v in seen[symbol]), sum(v for _, v in seen[symbol]))
        made.append((symbol, ns, price, int(exact)))
    return {0: made}


def halts(given_: list[tuple]) -> dict[int, list[tuple]]:
    until: dict[bytes, int] = {}
    made = []
    for symbol, ns, price, average in averages(given_)[0]:
        if symbol in until and until[symbol] <= ns:
            made.append((symbol, until.pop(symbol), 0))
        if symbol not in until and abs(price - average) * 10 >= average:
            until[symbol] = ns + LASTS
            made.append((symbol, ns, 1))
    return {0: averages(given_)[0], 1: made}


# -- without Spark ------------------------------------------------------------------


def test_a_line_gives_none_or_many():
    assert word_count.split(word_count.Line(b" ")) == []
    assert word_count.split(word_count.Line(b"To be OR not")) == [
        (b"to",),
        (b"be",),
        (b"or",),
        (b"not",),
    ]


def test_a_symbol_halts_and_resumes_once():
    given_ = [(b"A", 0, 1000, 9), (b"A", 1, 1200, 1), (b"A", 299, 1300, 1), (b"A", 1, 1000, 9)]
    made = batch.outputs(circuit_breaker.application(), {0: [*of_trades(given_).values()]})
    halted = 2 * 10**9
    assert plain(made[1]) == [(b"A", halted, 1), (b"A", halted + LASTS, 0)]


def expect(application: Application, records: Input, split, expected: dict[int, list]) -> None:
    """Expect these outputs of rows, in the order of each key, and of batch."""
    streams = [sink.stream for sink in application.sinks]
    made = {stream: [] for stream in streams}
    for found in batches(application, records, split, {}):
        for stream in streams:
            made[stream] += plain(found[stream])
    in_batch = batch.outputs(application, {0: list(records.values())})
    for stream in streams:
        assert ordered(made[stream]) == ordered(plain(in_batch[stream]))
        assert ordered(made[stream]) == ordered(expected[stream])


def ordered(outputs: list[tuple]) -> list[tuple]:
    """Return outputs by key, those of a key as they came."""
    return sorted(outputs, key=lambda output: output[0])


@settings(deadline=None)
@given(lines, splits)
def test_word_count(texts, split):
    expect(word_count.application(), of_lines(texts), split, counts(texts))


@settings(deadline=None)
@given(letters, splits)
def test_votes(given_, split):
    expect(votes.application(), of_votes(given_), split, sums(given_))


@settings(deadline=None)
@given(trades, splits)
def test_vwap(given_, split):
    expect(vwap.application(), of_trades(given_), split, averages(given_))


@settings(deadline=None)
@given(trades, splits)
def test_circuit_breaker(given_, split):
    expect(circuit_breaker.application(), of_trades(given_), split, halts(given_))


# -- streamed -----------------------------------------------------------------------

LINES = ["to be or not to be", "", "that is the question", "To BE that is"] * 15
TRADES = [
    (symbol, seconds, price, 1 + seconds % 7)
    for seconds, price in zip(
        [1, 200, 150, 3] * 30, [1000, 1000, 1200, 700, 1000] * 24, strict=True
    )
    for symbol in (b"A", b"BRK B", b"ZVZZTEST")
]
STREAMED = {
    "word count": (word_count.application(), of_lines(LINES)),
    "votes": (votes.application(), of_votes([(b"%c" % (97 + n % 5), n) for n in range(200)])),
    "vwap": (vwap.application(), of_trades(TRADES)),
    "circuit breaker": (circuit_breaker.application(), of_trades(TRADES)),
}


@LONG
@pytest.mark.parametrize(
    ("application", "records"), [pytest.param(*one, id=name) for name, one in STREAMED.items()]
)
def test_streamed_as_in_batch(spark, tmp_path, application, records):
    parts = [partition(tmp_path / "in", *at, rows) for at, rows in sorted(records.items())]
    sizes = [sink.encoder.itemsize - 4 for sink in application.sinks]
    checkpoint = tmp_path / "checkpoint"
    with Served(tmp_path, parts, *sizes) as served:
        lost = served.lose_a_commit()
        for share in (0.4, 1.0):  # stopped, and gone on
            served.publish(share)
            with running(spark, application, served, checkpoint, streaming, max_records=60) as run:
                run.until(served.ends)
        assert served.released == served.ends and lost
        for sink in application.sinks:
            made = recorded(spark, application, served, sink.stream)
            expected = batch.run(spark, application, served.files, sink.stream)
            assert expected.count() > 0
            assert_df_equality(made, expected, ignore_row_order=True, ignore_nullable=True)
