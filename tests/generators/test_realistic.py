"""The habits of real markets that the realistic one is held to; generators/README.md has them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickproof.generators.realistic import SESSION_NS, START_NS, RealisticParams, all_names, make
from tickproof.generators.recipes import build, complete
from tickproof.generators.spread_rule import rejects

SEEDS = (1, 2, 3)
each_seed = pytest.mark.parametrize("seed", SEEDS)


@dataclass(frozen=True)
class Seen:
    """A market as arrays of plain fields; in ``meets`` the number of the quote of each order."""

    params: RealisticParams

    @cached_property
    def market(self):
        return make(self.params)

    @property
    def quotes(self) -> np.ndarray:
        return self.market.quotes["payload"]

    @property
    def orders(self) -> np.ndarray:
        return self.market.orders["payload"]

    @cached_property
    def two_sided(self) -> np.ndarray:
        return (self.quotes["bid"] > 0) & (self.quotes["offer"] > 0)

    @cached_property
    def meets(self) -> list[int | None]:
        last: dict[int, int] = {}
        met: list[int | None] = []
        for at in self.market.order.tolist():
            if at < len(self.quotes):
                last[int(self.quotes["symbol"][at])] = at
            else:
                met.append(last.get(int(self.orders["symbol"][at - len(self.quotes)])))
        return met


@cache
def seen(seed: int) -> Seen:
    return Seen(RealisticParams(200_000, seed))


def test_the_same_bytes_on_every_machine() -> None:
    market = make(RealisticParams(20_000, 7))
    digest = hashlib.sha256(market.messages(0, 20_000).tobytes()).hexdigest()
    assert digest == "472713f3aaa5bd56e664bcc556fffeb4a1688421609bb63dd5fa280c0431b938"


@each_seed
def test_arrivals_come_in_bursts_and_most_at_open_and_close(seed: int) -> None:
    at = (seen(seed).market.times - np.uint64(START_NS)).astype(np.int64)
    gaps = np.diff(at)
    assert gaps.min() >= 0
    # A Poisson process has 1 for both.
    assert gaps.std() > 2 * gaps.mean()
    seconds = np.bincount(at // 10**9)
    assert seconds.var() > 10 * seconds.mean()
    thirds = np.histogram(at, 13, (0, SESSION_NS))[0]
    assert min(thirds[0], thirds[-1]) > 2.5 * thirds[5:8].mean()


@each_seed
def test_a_few_symbols_have_most_of_the_market(seed: int) -> None:
    _, counts = np.unique(seen(seed).quotes["symbol"], return_counts=True)
    counts = np.sort(counts)[::-1]
    assert 0.3 < counts[:10].sum() / counts.sum() < 0.6
    assert len(counts) > 300
    assert len(seen(seed).quotes) / len(seen(seed).orders) == pytest.approx(4, rel=0.05)


@each_seed
def test_prices_stand_on_ticks(seed: int) -> None:
    quotes = seen(seed).quotes[seen(seed).two_sided]
    dear = np.minimum(quotes["bid"], quotes["offer"]) > 10_000
    assert not (quotes["bid"][dear] % 100).any()
    assert not (quotes["offer"][dear] % 100).any()
    assert (quotes["bid"][~dear] % 100).any()


@each_seed
def test_few_quotes_are_locked_crossed_or_one_sided(seed: int) -> None:
    quotes, both = seen(seed).quotes, seen(seed).two_sided
    spread = (quotes["offer"] - quotes["bid"])[both]
    assert 0.003 < (spread == 0).mean() < 0.01
    assert 0.0005 < (spread < 0).mean() < 0.005
    for side, other in (("bid", "offer"), ("offer", "bid")):
        gone = (quotes[side] == 0) & (quotes[other] > 0)
        assert 0.001 < gone.mean() < 0.006
        assert not quotes[f"{side}_size"][quotes[side] == 0].any()


@each_seed
def test_large_moves_follow_large_moves_and_directions_do_not(seed: int) -> None:
    of = seen(seed)
    symbols, counts = np.unique(of.quotes["symbol"], return_counts=True)
    near, far = [], []
    for symbol in symbols[np.argsort(counts)[-20:]]:
        own = of.quotes[(of.quotes["symbol"] == symbol) & of.two_sided]
        moves = np.diff(np.log((own["bid"] + own["offer"]).astype(float)))
        sizes = np.abs(moves) - np.abs(moves).mean()
        near.append((sizes[:-10] * sizes[10:]).mean() / sizes.var())
        far.append((moves[:-10] * moves[10:]).mean() / moves.var())
    assert np.mean(near) > 0.03
    assert abs(np.mean(far)) < 0.01


@each_seed
def test_a_halt_lasts_and_its_orders_meet_no_market(seed: int) -> None:
    of = seen(seed)
    neither = (of.quotes["bid"] == 0) & (of.quotes["offer"] == 0)
    halted = np.unique(of.quotes["symbol"][neither])
    assert len(halted)
    for symbol in halted:
        at = of.quotes["event_ns"][neither & (of.quotes["symbol"] == symbol)]
        others = of.quotes["event_ns"][~neither & (of.quotes["symbol"] == symbol)]
        assert int(at.max() - at.min()) < 35 * 60 * 10**9
        assert not ((others > at.min()) & (others < at.max())).any()
    met = [at for at in of.meets if at is not None and neither[at]]
    assert met


@each_seed
def test_a_symbol_that_changes_never_comes_back(seed: int) -> None:
    of = seen(seed)
    names = all_names(of.params)
    changed = 0
    for old, new in zip(names[: of.params.symbols], names[of.params.symbols :], strict=True):
        word = {name: int.from_bytes(name.encode().ljust(8), "little") for name in (old, new)}
        times = {name: of.quotes["event_ns"][of.quotes["symbol"] == word[name]] for name in word}
        if len(times[new]):
            changed += 1
            assert not len(times[old]) or times[old].max() < times[new].min()
    assert changed


@each_seed
def test_some_orders_are_rejected_and_some_are_not(seed: int) -> None:
    of = seen(seed)
    met = np.array([-1 if at is None else at for at in of.meets])
    quotes = of.quotes[met]
    rejected = rejects(quotes["bid"], quotes["offer"], np.where(met < 0, 0, quotes["quote_id"]))
    assert 0.1 < rejected.mean() < 0.7
    assert (met < 0).any()


@settings(max_examples=25, deadline=None)
@given(
    records=st.integers(0, 300),
    seed=st.integers(0, 2**192 - 1),
    symbols=st.integers(1, 3_000),
    per_order=st.integers(1, 1000),
)
def test_any_size_gives_a_market_in_order(records, seed, symbols, per_order) -> None:
    market = make(RealisticParams(records, seed, symbols, per_order))
    assert len(market.quotes) + len(market.orders) == len(market.order) == records
    assert np.array_equal(np.sort(market.order), np.arange(records))
    assert not records or market.times.min() >= START_NS
    assert np.all(market.times[1:] >= market.times[:-1])
    messages = market.messages(0, records)
    assert np.array_equal(messages[records // 2 :], market.messages(records // 2, records))
    assert market.quotes["payload"]["bid"].min(initial=0) >= 0


@pytest.mark.parametrize(
    ("key", "value"), [("records", -1), ("symbols", 0), ("symbols", 3_001), ("quotes_per_order", 0)]
)
def test_a_wrong_parameter_is_named(key: str, value: int) -> None:
    with pytest.raises(ValueError, match=key):
        RealisticParams(**({"records": 10} | {key: value}))


def test_a_recipe_makes_it_on_two_streams_and_for_clients_of_kafka(tmp_path) -> None:
    recipe = {"kind": "market-realistic", "seed": 3, "records": 5_000, "partitions": 3}
    built = build(recipe | {"inputs": "two", "partitioner": "murmur2"}, tmp_path)
    assert built.records == 5_000
    assert len(built.partitions) == 6
    with pytest.raises(ValueError, match="skew: expected keys that can be chosen"):
        complete(recipe | {"skew": 0.5, "partitioner": "murmur2"})
