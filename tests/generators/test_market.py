import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickproof.generators.choices import EVENT_TIMES
from tickproof.generators.layouts import BUY, ORDER, ORDER_KIND, QUOTE, QUOTE_KIND, SELL, framed
from tickproof.generators.market import PROBE_TAG, Market, MarketParams
from tickproof.generators.prices import BLOCK
from tickproof.generators.spread_rule import FIVE_CENTS, MAX_PRICE
from tickproof.generators.symbols import EDGE_SYMBOLS, PROBE_SYMBOLS, tickers

ONE_IN = st.one_of(st.integers(0, 5), st.integers(6, 400))


def params(**changes) -> MarketParams:
    return MarketParams(**({"messages": 40_000, "seed": 3, "symbols": 40} | changes))


def split(records):
    """Return the quotes and the orders of a merged stream."""
    kinds = records.view(framed(QUOTE))["payload"]["kind"]
    quotes = records.view(framed(QUOTE))["payload"][kinds == QUOTE_KIND]
    return quotes, records.view(framed(ORDER))["payload"][kinds == ORDER_KIND]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "bc7d5bc16fb580ea44006590596c8ce26c43b9d29a2440a458cab1959eff6e13"),
        (
            {"symbols": 3000, "reject_one_in": 7, "probe_one_in": 11},
            "228c2db464eece9a72555d13d5d18fbe56861977605ffe1b939795d6eb73c71d",
        ),
        (
            {"symbols": 1, "reject_one_in": 1, "crossed": True},
            "2e5d4e4cc1c35c2521397aae3a813c107d6466faeea666196984b45456894c87",
        ),
        (
            {"seed": 2**64 - 1, "rate": 7, "start_ns": 0, "hot_share": 0.5},
            "6be02a6cfeaa5fcab713c639f829ccb4ab448984049948dd9b4beb5923f606b7",
        ),
    ],
)
def test_golden_bytes(changes, expected):
    records = Market(params(**changes)).messages(0, 40_000)
    assert hashlib.sha256(records.tobytes()).hexdigest() == expected


@settings(max_examples=40, deadline=None)
@given(
    symbols=st.integers(1, 60),
    reject=ONE_IN,
    probe=ONE_IN,
    cuts=st.lists(st.integers(0, 40_000), min_size=1, max_size=6),
)
def test_bytes_do_not_depend_on_the_chunks(symbols, reject, probe, cuts):
    market = Market(params(symbols=symbols, reject_one_in=reject, probe_one_in=probe))
    whole = market.messages(0, 40_000).tobytes()
    cuts = [0, *sorted(cuts), 40_000]
    pieces = [market.messages(a, b).tobytes() for a, b in itertools.pairwise(cuts)]
    assert b"".join(pieces) == whole


@pytest.mark.parametrize("symbols", [1, 7, 350])
def test_quotes_and_orders_alone_are_those_of_the_merged_stream(symbols):
    market = Market(params(symbols=symbols, reject_one_in=50, probe_one_in=70))
    quotes, orders = split(market.messages(0, 40_000))
    # The market opens with a quote for each symbol; then quotes and orders take turns.
    assert len(quotes) == symbols + (40_000 - symbols + 1) // 2
    assert market.quotes(0, len(quotes))["payload"].tobytes() == quotes.tobytes()
    assert market.orders(0, len(orders))["payload"].tobytes() == orders.tobytes()
    assert market.quotes(5, 900)["payload"].tobytes() == quotes[5:900].tobytes()
    assert market.orders(5, 900)["payload"].tobytes() == orders[5:900].tobytes()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(1, 60), ONE_IN, ONE_IN, st.booleans())
def test_exactly_the_chosen_orders_are_rejected(judge, seed, symbols, reject, probe, crossed):
    market = Market(
        params(
            seed=seed, symbols=symbols, reject_one_in=reject, probe_one_in=probe, crossed=crossed
        )
    )
    verdicts = judge(market.messages(0, 6_000))
    rejected = [order_id - 1 for order_id, _, verdict in verdicts if verdict]
    count = len(verdicts)
    chosen = {*market.rejected(0, count).tolist(), *market.probes(0, count).tolist()}
    assert rejected == sorted(chosen)


def test_exactly_the_chosen_orders_are_rejected_across_blocks(judge):
    market = Market(params(reject_one_in=2, probe_one_in=9))
    first = 2 * BLOCK - 3000
    verdicts = judge(market.messages(0, first + 6000))
    rejected = [order_id - 1 for order_id, _, verdict in verdicts if verdict]
    count = len(verdicts)
    chosen = {*market.rejected(0, count).tolist(), *market.probes(0, count).tolist()}
    assert rejected == sorted(chosen)


@pytest.mark.parametrize("one_in", [1, 2, 3, 70_000])
def test_every_whole_window_holds_one_reject(one_in):
    market = Market(params(reject_one_in=one_in))
    windows = market.rejected(0, 30 * one_in) // one_in
    assert windows.tolist() == list(range(30))


def test_probes_are_tagged_numbered_and_without_quotes():
    market = Market(params(probe_one_in=100))
    quotes, orders = split(market.messages(0, 40_000))
    probes = orders[orders["client_tag"] >= PROBE_TAG]
    assert (probes["client_tag"] - PROBE_TAG).tolist() == list(range(len(probes)))
    assert len(probes) in (len(orders) // 100, len(orders) // 100 + 1)
    names = {symbol.decode().rstrip() for symbol in probes["symbol"].tolist()}
    assert names == set(PROBE_SYMBOLS)
    assert not names & {symbol.decode().rstrip() for symbol in quotes["symbol"].tolist()}


def test_rejects_meet_every_clause_and_its_boundary():
    market = Market(params(reject_one_in=10))
    records = market.messages(0, 40_000)
    quotes = records.view(framed(QUOTE))["payload"]
    orders = records.view(framed(ORDER))["payload"]
    slots = 40 + 2 * market.rejected(0, (40_000 - 40) // 2).astype(np.int64)
    before = quotes[slots]
    assert (before["symbol"] == orders["symbol"][slots + 1]).all()
    spread, total = before["offer"] - before["bid"], before["bid"] + before["offer"]
    absolute, relative = spread >= 500, 40 * spread >= total
    assert (absolute | relative).all()
    assert (spread == 500).any() and (spread > 500).any()
    assert (relative & ~absolute & (40 * spread == total) & (total > 0)).any()
    assert (relative & ~absolute & (40 * spread > total)).any()
    assert (total == 0).any()


def test_normal_quotes_come_close_to_a_reject_and_never_reach_it():
    quotes, _ = split(Market(params(reject_one_in=0)).messages(0, 40_000))
    spread, total = quotes["offer"] - quotes["bid"], quotes["bid"] + quotes["offer"]
    assert (quotes["bid"] > 0).all() and (spread > 0).all()
    assert not ((spread >= 500) | (40 * spread >= total)).any()
    assert (spread == 499).any()
    assert (40 * (spread + 1) >= total).any()
    ordinary = (quotes["bid"] > 10_000) & (spread != 499)
    assert (quotes["bid"][ordinary] % 100 == 0).all()
    assert set((spread[ordinary] // 100).tolist()) == {1, 2, 3}


def test_crossed_quotes_only_where_asked_for():
    for crossed in (False, True):
        quotes, _ = split(Market(params(crossed=crossed)).messages(0, 40_000))
        assert (quotes["offer"] < quotes["bid"]).any() == crossed


def test_prices_move_and_return():
    market = Market(params(symbols=1, reject_one_in=0))
    mids = np.concatenate(
        [market.quotes(a, a + 2)["payload"]["bid"] for a in range(1, 300 * BLOCK, BLOCK)]
    )
    middle = (mids.max() + mids.min()) / 2
    crossings = np.count_nonzero(np.diff(mids > middle))
    assert mids.max() > 1.02 * mids.min()
    assert mids.max() < 1.25 * mids.min()
    assert crossings >= 2


def test_ids_times_and_fields():
    market = Market(params(rate=3, start_ns=10**18))
    records = market.messages(0, 40_000)
    times = records.view(framed(QUOTE))["payload"]["event_ns"]
    assert times.tolist() == [10**18 + i * 10**9 // 3 for i in range(40_000)]
    quotes, orders = split(records)
    assert quotes["quote_id"].tolist() == list(range(1, len(quotes) + 1))
    assert orders["order_id"].tolist() == list(range(1, len(orders) + 1))
    assert set(orders["side"].tolist()) == {BUY, SELL}
    assert (records["size"] == 52).all()
    assert (quotes["zero"] == 0).all() and (orders["zero"] == 0).all()
    assert orders["account"].max() < 1000 and (orders["qty"] > 0).all()
    assert (orders["client_tag"] < PROBE_TAG).all()


def test_hot_symbols_take_their_share():
    _, orders = split(Market(params(symbols=50)).messages(0, 40_000))
    _, counts = np.unique(orders["symbol"], return_counts=True)
    hottest = np.sort(counts)[::-1][:10].sum() / len(orders)
    assert 0.78 < hottest < 0.82


@pytest.mark.parametrize("hot", [{"hot_symbols": 1.0}, {"hot_share": 0}, {"hot_symbols": 0}])
def test_ends_of_the_shares(hot):
    _, orders = split(Market(params(**hot)).messages(0, 40_000))
    count = len(np.unique(orders["symbol"]))
    assert count == (32 if hot == {"hot_share": 0} else 40)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("messages", -1),
        ("symbols", 0),
        ("symbols", 3001),
        ("rate", 0),
        ("rate", 1.5),
        ("seed", -1),
        ("hot_share", 1.1),
        ("hot_symbols", "much"),
        ("reject_one_in", -1),
        ("probe_one_in", None),
        ("crossed", 1),
        ("start_ns", True),
        ("event_times", "sideways"),
    ],
)
def test_a_wrong_parameter_is_named(key, value):
    with pytest.raises(ValueError, match=f"^{key}: expected"):
        params(**{key: value})


def test_tickers_are_distinct_short_and_stable():
    names = tickers(1, 3000)
    assert len(set(names)) == 3000
    assert all(2 <= len(name) <= 5 and name.isalpha() and name.isupper() for name in names)
    assert (
        tickers(1, 10)
        == names[:10]
        == ["WFER", "LBF", "ONKCO", "COOAC", "GD", "EZ", "RAPH", "ASDP", "TU", "LZB"]
    )


def event_times(kind, messages=1_000):
    market = Market(params(messages=messages, event_times=kind))
    streams = (market.messages(0, messages), market.quotes(0, messages), market.orders(0, messages))
    return [one.view(framed(QUOTE))["payload"]["event_ns"] for one in streams]


def test_event_times_of_each_kind():
    for times in event_times("equal"):
        assert set(times.tolist()) == {MarketParams.start_ns}
    for times in event_times("backwards"):
        assert (np.diff(times.astype(np.int64)) < 0).all() and times.min() >= MarketParams.start_ns
    for times in event_times("limits"):
        assert set(times.tolist()) == {0, 2**64 - 1}
        assert 0.4 < (times == 0).mean() < 0.6


@pytest.mark.parametrize("kind", EVENT_TIMES)
@given(a=st.integers(0, 500), b=st.integers(0, 500))
@settings(max_examples=10, deadline=None)
def test_event_times_change_nothing_else_and_do_not_depend_on_the_chunks(kind, a, b):
    a, b = sorted((a, b))
    market = Market(params(messages=500, event_times=kind))
    whole = market.messages(0, 500).copy()
    pieces = [market.messages(*ends).tobytes() for ends in ((0, a), (a, b), (b, 500))]
    assert b"".join(pieces) == whole.tobytes()
    plain = Market(params(messages=500)).messages(0, 500)
    for records in (whole, plain):
        records.view(framed(QUOTE))["payload"]["event_ns"] = 0
    assert whole.tobytes() == plain.tobytes()


def test_the_longest_axis_backwards_fits():
    longest = MarketParams(
        messages=2**32, rate=1, start_ns=2**62, symbols=3_000, event_times="backwards"
    )
    quotes = Market(longest).quotes(0, 2)["payload"]["event_ns"].tolist()
    assert quotes[0] - quotes[1] == 10**9 and quotes[0] > 2**63


def test_edges_are_visited_and_the_same_orders_are_rejected():
    usual, edges = (
        Market(params(messages=40_000, reject_one_in=50, edges=e)) for e in (False, True)
    )
    assert expected_rejects(edges) == expected_rejects(usual) != []

    messages = edges.messages(0, 40_000)
    quotes = messages.view(framed(QUOTE))["payload"]
    quotes = quotes[quotes["kind"] == QUOTE_KIND]
    orders = messages.view(framed(ORDER))["payload"]
    orders = orders[orders["kind"] == ORDER_KIND]
    bid, offer = quotes["bid"], quotes["offer"]
    locked = (bid == offer) & (bid > 0)  # 0 and 0 is another edge, which rejects
    assert {False, True} == set((bid[locked] == MAX_PRICE).tolist())
    for one in (bid > offer, (bid > 0) & (offer == 0), (bid == 0) & (offer > 0)):
        assert one.any()
    for column in (quotes["bid_size"], orders["qty"], orders["account"]):
        assert {0, 1, 2**32 - 1} <= set(column.tolist())
    assert {0, 1, 2**32, MAX_PRICE} <= set(orders["price"].tolist())
    tags = orders["client_tag"].tolist()
    assert {0, 2**63 - 1} <= set(tags) and len(set(tags)) < len(tags)
    assert len(set(orders["order_id"].tolist())) == len(orders)
    assert int(orders["order_id"].max()) > 2**53
    assert b"NA      " in set(quotes["symbol"].tolist())


def expected_rejects(market):
    """Return which orders the rule rejects, by reading the merged stream record by record."""
    latest, found, number = {}, [], 0
    messages = market.messages(0, 40_000)
    for quote in messages.view(framed(QUOTE))["payload"]:
        if quote["kind"] == QUOTE_KIND:
            latest[quote["symbol"]] = int(quote["bid"]), int(quote["offer"])
            continue
        bid, offer = latest.get(quote["symbol"], (0, 0))
        if offer - bid >= FIVE_CENTS or 40 * (offer - bid) >= bid + offer:
            found.append(number)
        number += 1
    return found


@pytest.mark.parametrize("seed", range(1, 9))
def test_ids_of_orders_pass_all_limits_whatever_the_seed(seed):
    ids = Market(params(messages=4_000, seed=seed, edges=True)).messages(0, 4_000)
    ids = ids.view(framed(ORDER))["payload"]
    ids = ids["order_id"][ids["kind"] == ORDER_KIND]
    assert ids[0] == 0
    assert (np.diff(ids.astype(object)) > 0).all()
    assert all(ids[at - 1] == limit - 1 and ids[at] == limit
               for limit in (2**16, 2**32, 2**53, 2**63)
               for at in [np.searchsorted(ids, np.uint64(limit))])  # fmt: skip
    assert ids[-1] > 2**64 - 4_000


@pytest.mark.parametrize("messages", [1_000, 4_000, 4_001])
def test_some_ids_fall_and_are_the_same_ids_but_for_their_order(messages):
    def ids(**more):
        made = Market(params(messages=messages, edges=True, **more)).messages(0, messages)
        orders = made.view(framed(ORDER))["payload"]
        return orders["order_id"][orders["kind"] == ORDER_KIND].astype(object)

    rising, falling = ids(), ids(falling_ids=True)
    assert len(set(falling)) == len(falling)
    steps = np.diff(falling)
    assert (steps > 0).any() and (steps < 0).sum() > len(rising) // 5
    assert falling[0] == 0 and falling[-1] == rising[-1]
    whole = Market(params(messages=messages, edges=True, falling_ids=True))
    parts = [whole.messages(0, 50), whole.messages(50, messages)]
    assert np.array_equal(np.concatenate(parts), whole.messages(0, messages))


def test_edge_symbols_stand_at_the_same_places_however_many_there_are():
    names = tickers(1, 3000, edges=True)
    assert len(set(names)) == 3000
    assert set(EDGE_SYMBOLS) < set(names)
    assert tickers(1, 40, edges=True) == names[:40]
