"""The two-stream checker against brute force over interleavings, and simulated engines."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checkers.market_cases import PRICES, SYMBOLS, log, order, quote, slow_rejects, verdict
from tickproof.conformance.checkers.timeline import NEVER, Active, Fetched, publish_times
from tickproof.conformance.checkers.two_streams import check_two_streams
from tickproof.conformance.explain.words import words
from tickproof.conformance.history.rows import FETCH, PUBLISH
from tickproof.generators.layouts import ORDER, QUOTE

A, B = SYMBOLS[:2]
GOOD, BAD = PRICES[0], PRICES[1]


def stacked(rows, dtype):
    return np.concatenate([np.zeros(0, dtype), *rows])


def published(quotes: int, orders: int, t_ns: int = 0) -> np.ndarray:
    return np.array([(t_ns, 0, 0, quotes), (t_ns, 1, 0, orders)], PUBLISH)


def check(quotes, orders, came, emit, times=None, **given_):
    options = {
        "freshness_ns": 10**12,
        "publishes": published(len(quotes), len(orders)),
        "fetches": np.zeros(0, FETCH),
    } | given_
    return check_two_streams(
        [stacked(quotes, QUOTE)], [stacked(orders, ORDER)], log(came, times), emit, **options
    )


def explained(quotes, orders, came, emit, choices=None) -> bool:
    """Try every interleaving of one symbol: does one give these verdicts?"""
    n, m = len(quotes), len(orders)
    for places in combinations(range(n + m), m):
        seen = [place - i for i, place in enumerate(places)]  # quotes before each order
        if all(
            any(_fits(quotes, k, i, option, emit) for option in came[i]) for i, k in enumerate(seen)
        ):
            return True
    return False


def _fits(quotes, k, i, named, emit) -> bool:
    """Order i saw k quotes: does its verdict (a number of quotes seen, or None) fit?"""
    if named is not None:
        return named == k
    bid_offer = quotes[k - 1] if k else (0, 0)
    return not slow_rejects(k, *bid_offer)


prices = st.lists(st.sampled_from([GOOD, BAD]), max_size=4)


def verdict_by(symbol, order_id, quotes, k):
    bid, offer = quotes[k - 1] if k else (0, 0)
    return verdict(order_id, symbol, k, bid, offer, slow_rejects(k, bid, offer))


@given(st.data(), prices, st.integers(0, 5), st.sampled_from(["rejects", "verdicts"]))
def test_agrees_with_brute_force(data, quotes, orders, emit):
    rejecting = [k for k in range(len(quotes) + 1) if slow_rejects(k, *((0, 0), *quotes)[k])]
    options = (
        st.sampled_from(rejecting) | st.none() if emit == "rejects" else st.integers(0, len(quotes))
    )
    named = data.draw(st.lists(options, min_size=orders, max_size=orders))
    came = [verdict_by(A, i + 1, quotes, k) for i, k in enumerate(named) if k is not None]
    found = check(
        [quote(A, i + 1, *price) for i, price in enumerate(quotes)],
        [order(A, i + 1) for i in range(orders)],
        came,
        emit,
    )
    assert not set(found.counts) - {"went-back", "must-reject"}
    assert bool(found) == (not explained(quotes, range(orders), [[k] for k in named], emit))


@given(st.data(), prices, st.integers(0, 4), st.booleans())
def test_several_verdicts_of_an_order_need_one_choice(data, quotes, orders, replayed):
    """At-least-once; where orders were fetched again, a reject may have turned to silence."""
    rejecting = [k for k in range(len(quotes) + 1) if slow_rejects(k, *((0, 0), *quotes)[k])]
    one = st.lists(st.sampled_from(rejecting), max_size=3)
    named = data.draw(st.lists(one, min_size=orders, max_size=orders))
    came = [verdict_by(A, i + 1, quotes, k) for i, ks in enumerate(named) for k in ks]
    fetches = [(10, 1, 0, 0, orders)] + [(10**6, 1, 0, 0, orders)] * replayed
    found = check(
        [quote(A, i + 1, *price) for i, price in enumerate(quotes)],
        [order(A, i + 1) for i in range(orders)],
        came,
        "rejects",
        delivery="at-least-once",
        fetches=np.array(fetches, FETCH),
    )
    choices = [[*ks, *([None] if replayed or not ks else [])] for ks in named]
    conflict = bool(set(found.counts) & {"went-back", "must-reject"})
    assert conflict == (not explained(quotes, range(orders), choices, "rejects"))
    assert found.counts["duplicate"] + found.facts["changed"] == sum(
        max(0, len(ks) - 1) for ks in named
    )
    assert "retracted" not in found.counts


@given(st.data())
def test_what_must_be_seen_agrees_with_a_loop(data):
    rows, now = [], 0
    for _ in range(data.draw(st.integers(0, 8))):
        now += data.draw(st.integers(0, 5))
        base = data.draw(st.integers(0, 9))
        rows.append((now, 0, 0, base, base + data.draw(st.integers(1, 4))))
    pauses = data.draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=3))
    pauses = [(start, start + length) for start, length in pauses]
    freshness = data.draw(st.integers(0, 12))
    seen = Fetched(np.array(rows, FETCH), Active(pauses), freshness)
    for order_t in range(0, 40, 3):
        decided = order_t + data.draw(st.integers(0, 20))
        got = seen.must_be_seen(np.array([order_t]), np.array([decided]))[0]
        assert got == slow_bound(rows, pauses, freshness, order_t, decided)


def slow_bound(rows, pauses, freshness, order_t, decided) -> int:
    paused = {t for start, end in pauses for t in range(start, end)}

    def active(t):
        return t - sum(p < t for p in paused)

    bound = 0
    for x in range(20):
        old = [
            i
            for i, (t, _, _, _, end) in enumerate(rows)
            if active(t) <= active(order_t) - freshness and x < end
        ]
        limit = sum(active(t) <= active(order_t) - freshness for t, *_ in rows)
        again = any(
            i >= limit and t <= decided and base <= x for i, (t, _, _, base, _) in enumerate(rows)
        )
        if old and not again:
            bound = max(bound, x + 1)
    return bound


def test_publication_times():
    rows = np.array([(5, 0, 0, 2), (9, 0, 0, 3)], PUBLISH)
    assert publish_times(rows, np.arange(4)).tolist() == [5, 5, 9, NEVER]


class Engine:
    """A simulated engine of one partition that keeps each symbol's order, and may die."""

    def __init__(self, draw, quotes, orders, emit):
        self.draw, self.quotes, self.orders, self.emit = draw, quotes, orders, emit
        self.t, self.lag = 100, 0
        self.ends, self.fetched, self.done = [0, 0], [0, 0], [0, 0]
        self.latest, self.cut = {}, ([0, 0], {})
        self.fetch_t, self.public_t = {}, {}
        self.publishes, self.fetches, self.came, self.times = [], [], [], []

    def step(self, deaths):
        self.t += self.draw(st.integers(1, 3))
        acts = ["publish", "fetch", "do", "do"] + ["cut", "die"] * deaths
        act, s = self.draw(st.sampled_from(acts)), self.draw(st.integers(0, 1))
        if act == "cut":
            self.cut = (list(self.done), dict(self.latest))
        elif act == "die":
            self.done, self.latest = list(self.cut[0]), dict(self.cut[1])
            self.fetched = list(self.done)
        else:
            getattr(self, act)(s, 1 + self.draw(st.integers(0, 2)))

    def publish(self, s, n):
        new = min(self.ends[s] + n, len((self.quotes, self.orders)[s]))
        if new > self.ends[s]:
            for offset in range(self.ends[s], new):
                self.public_t[s, offset] = self.t
            self.ends[s] = new
            self.publishes.append((self.t, s, 0, new))

    def fetch(self, s, n):
        base, end = self.fetched[s], min(self.fetched[s] + n, self.ends[s])
        if end > base:
            for offset in range(base, end):
                self.fetch_t[s, offset] = self.t
            self.fetched[s] = end
            self.fetches.append((self.t, s, 0, base, end))

    def do(self, s, n):
        offset = self.done[s]
        if offset >= self.fetched[s]:
            return
        self.done[s] += 1
        if s == 0:
            row = self.quotes[offset]
            self.latest[bytes(row["symbol"][0])] = row
            return
        row = self.orders[offset]
        symbol = bytes(row["symbol"][0])
        seen = self.latest.get(symbol)
        k = (
            (int(seen["quote_id"][0]), int(seen["bid"][0]), int(seen["offer"][0]))
            if (seen is not None)
            else (0, 0, 0)
        )
        for (stream, q), t in self.fetch_t.items():
            if stream == 0 and q >= self.done[0]:
                self.lag = max(self.lag, self.public_t[1, offset] - t + 1)
        reject = slow_rejects(*k)
        if reject or self.emit == "verdicts":
            self.came.append(verdict(int(row["order_id"][0]), symbol, *k, reject))
            self.times.append(self.t)

    def finish(self):
        self.t += 1
        for s in (0, 1):
            self.publish(s, 99)
            self.fetch(s, 99)
            while self.done[s] < self.fetched[s]:
                self.do(s, 1)


market_rows = st.lists(
    st.tuples(st.booleans(), st.sampled_from([A, B]), st.sampled_from(PRICES)), max_size=10
)


@settings(deadline=None)
@given(
    st.data(),
    market_rows,
    st.sampled_from(["rejects", "verdicts"]),
    st.booleans(),
    st.integers(1, 6),
)
def test_a_right_engine_gives_no_finding(data, rows, emit, deaths, group_rows):
    quotes = [quote(s, i + 1, *p) for i, (is_q, s, p) in enumerate(rows) if is_q]
    orders = [order(s, i + 1) for i, (is_q, s, _) in enumerate(rows) if not is_q]
    engine = Engine(data.draw, quotes, orders, emit)
    for _ in range(data.draw(st.integers(0, 20))):
        engine.step(deaths)
    engine.finish()
    found = check(
        quotes,
        orders,
        engine.came,
        emit,
        engine.times,
        freshness_ns=engine.lag,
        group_rows=group_rows,
        publishes=np.array(engine.publishes, PUBLISH),
        fetches=np.array(engine.fetches, FETCH),
        delivery="at-least-once" if deaths else "exactly-once",
    )
    assert not set(found.counts) - ({"duplicate"} if deaths else set()), found.examples


QUOTES = [quote(A, 1, *BAD), quote(B, 2, *BAD), quote(A, 3, *BAD), quote(A, 4, *BAD)]
ORDERS = [order(A, 1), order(B, 2), order(A, 3)]
RIGHT = [verdict(1, A, 1, *BAD, 1), verdict(2, B, 2, *BAD, 1), verdict(3, A, 3, *BAD, 1)]


def changed(i: int, **fields) -> list[np.ndarray]:
    rows = [row.copy() for row in RIGHT]
    for name, value in fields.items():
        rows[i][name] = value
    return rows


def padded() -> list[np.ndarray]:
    rows = [row.copy() for row in RIGHT]
    rows[0]["zero"][0, 0] = 1
    return rows


@pytest.mark.parametrize(
    ("came", "kinds"),
    [
        (RIGHT, {}),
        (RIGHT[::-1], {}),
        (RIGHT[:2], {"lost": 1}),
        ([*RIGHT, RIGHT[1]], {"duplicate": 1}),
        ([*RIGHT, verdict(3, A, 4, *BAD, 1)], {"retracted": 1}),
        ([*RIGHT, verdict(9, A, 4, *BAD, 1)], {"invented": 1}),
        (changed(0, verdict=0), {"wrong-verdict": 1}),
        (changed(0, bid=5), {"wrong-verdict": 1}),
        (changed(0, symbol=B), {"wrong-verdict": 1}),
        (changed(0, quote_id=2), {"unknown-quote": 1}),
        (changed(0, quote_id=77), {"unknown-quote": 1}),
        (changed(0, quote_id=4), {"went-back": 1}),
        (changed(2, quote_id=0, bid=0, offer=0), {"went-back": 1}),
        (padded(), {"malformed": 1}),
    ],
)
def test_mutations_of_a_right_history(came, kinds):
    assert check(QUOTES, ORDERS, came, "verdicts").counts == kinds


def test_silence_must_be_explained():
    only = [RIGHT[0], RIGHT[2]]
    found = check(QUOTES, ORDERS, only, "rejects")
    assert found.counts == {"must-reject": 1}
    first = found.first()
    assert first and first.where == {"order_id": 2, "symbol": "BB", "partition": 0, "offset": 1}
    between = [quote(A, 1, *BAD), quote(A, 2, *GOOD), quote(A, 3, *BAD)]
    orders = [order(A, 1), order(A, 2), order(A, 3)]
    last = verdict(3, A, 3, *BAD, 1)
    assert not check(between, orders, [verdict(1, A, 1, *BAD, 1), last], "rejects")
    back = check(between, orders, [verdict(3, A, 1, *BAD, 1)], "rejects").first(["must-reject"])
    assert back and "the later order 3 saw" in words(back).summary
    loud = check(between, orders[:1], [verdict(1, A, 2, *GOOD, 0)], "rejects")
    assert loud.counts == {"invented": 1}


def test_the_future_and_the_past_are_told_apart():
    times = [100, 100, 100]
    late = np.array([(0, 0, 0, 2), (0, 1, 0, 3), (101, 0, 0, 4)], PUBLISH)
    found = check(QUOTES, ORDERS, RIGHT, "verdicts", times, publishes=late)
    assert found.counts == {"from-the-future": 1}
    assert "published 1 ns after" in words(found.first()).summary
    rows = np.array([(10, 0, 0, 0, 4)], FETCH)
    options = {"publishes": published(4, 3, 60), "freshness_ns": 50, "fetches": rows}
    found = check(QUOTES, ORDERS, RIGHT, "verdicts", times, **options)
    assert found.counts == {"stale-quote": 2}
    assert words(found.first()).expected == "quote 4 or a later one"
    options["freshness_ns"] = 51
    assert not check(QUOTES, ORDERS, RIGHT, "verdicts", times, **options)
    options["freshness_ns"] = 50
    assert not check(QUOTES, ORDERS, RIGHT, "verdicts", times, pauses=[(20, 21)], **options)
    options["fetches"] = np.array([(10, 0, 0, 0, 4), (90, 0, 0, 0, 4)], FETCH)
    assert not check(QUOTES, ORDERS, RIGHT, "verdicts", times, **options)


def test_two_verdicts_of_an_order_at_least_once():
    came = [*RIGHT, verdict(3, A, 4, *BAD, 1)]
    found = check(QUOTES, ORDERS, came, "verdicts", delivery="at-least-once")
    assert not found and found.facts["changed"] == 1


def test_records_never_published_are_not_missed():
    early = np.array([(0, 0, 0, 4), (0, 1, 0, 2)], PUBLISH)
    assert not check(QUOTES, ORDERS, RIGHT[:2], "verdicts", publishes=early)


def test_bad_calls_and_input_are_refused():
    with pytest.raises(ValueError, match="delivery: expected 'at-least-once' or"):
        check([], [], [], "rejects", delivery="none")
    with pytest.raises(ValueError, match="order_id 1 comes twice"):
        check([], [order(A, 1), order(A, 1)], [], "rejects")
    with pytest.raises(ValueError, match="quote_id 1 comes twice"):
        check([QUOTES[0], QUOTES[0]], ORDERS, RIGHT, "rejects")


def test_partitions_are_kept_apart():
    parts = [stacked(QUOTES, QUOTE), stacked([quote(B[:1] + A[1:], 9, *BAD)], QUOTE)]
    orders = [stacked(ORDERS, ORDER), stacked([order(B[:1] + A[1:], 9)], ORDER)]
    came = [*RIGHT, verdict(9, B[:1] + A[1:], 9, *BAD, 1)]
    publishes = np.array([(0, s, p, 9) for s in (0, 1) for p in (0, 1)], PUBLISH)
    options = {"freshness_ns": 1, "publishes": publishes, "fetches": np.zeros(0, FETCH)}
    assert not check_two_streams(parts, orders, log(came), "verdicts", **options)
    lost = check_two_streams(parts, orders, log(RIGHT), "verdicts", **options)
    assert lost.counts == Counter(lost=1)
    assert lost.first().where["partition"] == 1
