"""The synthetic market: quotes, orders and their merged stream, each a function of an index.

README.md beside this file gives the formulas. A merged stream starts with one quote
for each symbol, then quote and order alternate. Nothing is carried from record to
record, so any range of any stream can be made alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tickproof.generators.choices import EVENT_TIMES, EventTimes
from tickproof.generators.hashing import MAX_SEED, hashed, key_of, scaled
from tickproof.generators.layouts import BUY, MESSAGE, ORDER, ORDER_KIND, QUOTE, QUOTE_KIND, framed
from tickproof.generators.prices import BLOCK, BLOCK_BITS, PricePaths
from tickproof.generators.spread_rule import MAX_PRICE
from tickproof.generators.symbols import PROBE_SYMBOLS, tickers, with_words, words

#: client_tag of a probe order: this bit and the probe's running number from 0.
PROBE_TAG: Final = 1 << 63
ACCOUNTS: Final = 1000
MAX_SYMBOLS: Final = 3000
_MAX_MESSAGES: Final = 2**32


#: What ids of orders straddle one after the other with ``edges``, after those from 0 on: numbers
#: that shorter or other types do not hold. The last of them come close to 2**64.
_ID_LIMITS: Final = (2**16, 2**32, 2**53, 2**63)
#: What some fields hold with ``edges``, each one time in 16 (sizes) or 64 (fields of orders).
_SIZES: Final = np.array((0, 2**32 - 1, 1), np.uint32)
_QUANTITIES: Final = np.array((0, 2**32 - 1, 1, 2**16), np.uint32)
_PRICES: Final = np.array((0, MAX_PRICE, 1, 99, 2**32, 2**52 + 1), np.int64)
_TAGS: Final = np.array((0, 1, PROBE_TAG - 1), np.uint64)

_QUOTE: Final = with_words(QUOTE)
_ORDER: Final = with_words(ORDER)


@dataclass(frozen=True)
class MarketParams:
    """Parameters that decide every byte of a market.

    messages: records of the stream that is written. rate: messages a second on the
    event_ns axis, which starts at start_ns. hot_share of quotes and orders fall on the
    first hot_symbols (a share, too) of the symbols. One in reject_one_in orders is
    rejected, one in probe_one_in is a probe (0: none). crossed: allow crossed quotes.
    event_times: "rising"; "equal", all start_ns; "backwards", the axis in reverse, so that the
    first is the latest; "limits", 0 or 2**64 - 1, at random. edges: a few quotes are locked,
    crossed, one-sided or of size 0, 1 or the largest, a few orders have such a price or quantity,
    or a client_tag that others have, too, EDGE_SYMBOLS are among the symbols, and the ids of
    orders begin at 0 and jump past limits of numbers. falling_ids: after every other of these
    jumps they fall.
    """

    messages: int
    seed: int = 1
    symbols: int = 350
    rate: int = 1_000_000
    start_ns: int = 1_704_205_800_000_000_000
    hot_share: float = 0.8
    hot_symbols: float = 0.2
    reject_one_in: int = 70_000
    probe_one_in: int = 0
    crossed: bool = False
    event_times: EventTimes = "rising"
    edges: bool = False
    falling_ids: bool = False

    def __post_init__(self) -> None:
        ranges = {
            "messages": (0, _MAX_MESSAGES),
            "seed": (0, MAX_SEED),
            "symbols": (1, MAX_SYMBOLS),
            "rate": (1, 10**9),
            "start_ns": (0, 2**62),
            "reject_one_in": (0, 2**40),
            "probe_one_in": (0, 2**40),
        }
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ValueError(f"{name}: expected a whole number {low} to {high}, got {value!r}")
        for name in ("hot_share", "hot_symbols"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 <= value <= 1:
                raise ValueError(f"{name}: expected a share 0 to 1, got {value!r}")
        for name in ("crossed", "edges", "falling_ids"):
            if type(getattr(self, name)) is not bool:
                raise ValueError(f"{name}: expected true or false, got {getattr(self, name)!r}")
        if self.event_times not in EVENT_TIMES:
            raise ValueError(
                f"event_times: expected one of {', '.join(EVENT_TIMES)}; got {self.event_times!r}"
            )


class Market:
    """Makes ranges of the streams of one market. ``names``: its symbols, by number."""

    def __init__(self, params: MarketParams, names: list[str] | None = None) -> None:
        self.params = params
        if names is None:
            names = tickers(params.seed, params.symbols, params.edges)
        self.names = names
        self._paths = PricePaths(params.seed, params.symbols)
        self._words = words([*self.names, *PROBE_SYMBOLS])
        streams = ("opening", "quotes", "orders", "rejects", "probes", "abnormal", "times")
        self._keys = {stream: key_of(params.seed, stream) for stream in streams}
        self._per_limit, self._first_orders = self._first_order_ids()
        self._hot = min(params.symbols, max(1, round(params.hot_symbols * params.symbols)))
        # With every symbol hot there is nothing cold to choose from.
        every = self._hot == params.symbols
        self._hot_16 = 65536 if every else round(params.hot_share * 65536)

    def _first_order_ids(self) -> tuple[np.uint64, np.ndarray]:
        """Return after how many orders ids jump, and the lowest id after each jump."""
        messages = self.params.messages
        if not self.params.edges:
            return np.uint64(messages + 1), np.array([1], np.uint64)
        each = messages // (2 * len(_ID_LIMITS) + 4) + 1
        firsts = [0]
        for limit in _ID_LIMITS:
            firsts.append(max(limit - each // 2, firsts[-1] + each))
        return np.uint64(each), np.array([*firsts, 2**64 - messages - 1], np.uint64)

    def _order_ids(self, number: np.ndarray) -> np.ndarray:
        last = np.uint64(len(self._first_orders) - 1)
        jumps = np.minimum(number // self._per_limit, last)
        running = number - jumps * self._per_limit
        if self.params.falling_ids:
            falls = (jumps & np.uint64(1) == 1) & (jumps < last)
            running[falls] = self._per_limit - np.uint64(1) - running[falls]
        return self._first_orders[jumps] + running

    def messages(self, start: int, stop: int, out: np.ndarray | None = None) -> np.ndarray:
        """Return merged messages [start, stop) as framed MESSAGE records (in ``out`` if given)."""
        symbols = self.params.symbols
        out = np.empty(stop - start, framed(MESSAGE)) if out is None else out[: stop - start]
        quotes, orders = out.view(_QUOTE), out.view(_ORDER)
        head = max(0, min(stop, symbols) - start)
        if head:
            self._fill_opening(start, quotes[:head])
        a, b = start + head - symbols, stop - symbols
        if a < b:
            odd = a % 2
            self._fill_quotes((a + 1) // 2, quotes[head + odd :: 2])
            self._fill_orders(a // 2, orders[head + 1 - odd :: 2])
        return out

    def quotes(self, start: int, stop: int) -> np.ndarray:
        """Return quotes [start, stop), counted from 0, as framed QUOTE records."""
        out = np.empty(stop - start, _QUOTE)
        head = max(0, min(stop, self.params.symbols) - start)
        if head:
            self._fill_opening(start, out[:head])
        self._fill_quotes(start + head - self.params.symbols, out[head:])
        return out.view(framed(QUOTE))

    def orders(self, start: int, stop: int) -> np.ndarray:
        """Return orders [start, stop), counted from 0, as framed ORDER records."""
        out = np.empty(stop - start, _ORDER)
        self._fill_orders(start, out)
        return out.view(framed(ORDER))

    def rejected(self, start: int, stop: int) -> np.ndarray:
        """Return the numbers (from 0) of the orders in [start, stop) rejected by their quote."""
        chosen = self._one_in(self.params.reject_one_in, "rejects", start, stop)
        return chosen[~self._is_one_in(self.params.probe_one_in, "probes", chosen)]

    def probes(self, start: int, stop: int) -> np.ndarray:
        """Return the numbers (from 0) of the probe orders in [start, stop)."""
        return self._one_in(self.params.probe_one_in, "probes", start, stop)

    def _one_in(self, n: int, stream: str, start: int, stop: int) -> np.ndarray:
        """Return the chosen one of each window of n numbers, where it is in [start, stop)."""
        start = max(start, 0)
        if n == 0 or start >= stop:
            return np.empty(0, np.uint64)
        window = np.arange(start // n, (stop - 1) // n + 1, dtype=np.uint64)
        chosen = window * n + hashed(self._keys[stream], window) % n
        return chosen[(chosen >= start) & (chosen < stop)]

    def _is_one_in(self, n: int, stream: str, numbers: np.ndarray) -> np.ndarray:
        if n == 0:
            return np.zeros(len(numbers), bool)
        return hashed(self._keys[stream], numbers // n) % n == numbers % n

    def _pick(self, h: np.ndarray) -> np.ndarray:
        """Choose symbols from the low 40 bits of hashes: hot or cold, then evenly."""
        hot = (h & 0xFFFF) < self._hot_16
        count = np.where(hot, np.uint64(self._hot), np.uint64(self.params.symbols - self._hot))
        choice = scaled((h >> 16) & 0xFFFFFF, 24, count)
        choice += np.where(hot, np.uint64(0), np.uint64(self._hot))
        return choice.astype(np.int64)

    def _order_symbols(self, orders: np.ndarray) -> np.ndarray:
        """Return the symbols of rejected orders.

        A rejected order right after another one takes over its symbol, so that one
        quote after the two is enough to bring the symbol back to normal.
        """
        n = self.params.reject_one_in
        before = orders - 1
        chained = self._is_one_in(n, "rejects", before) & (orders > 0) & (n > 1)
        chained &= ~self._is_one_in(self.params.probe_one_in, "probes", before)
        return self._pick(hashed(self._keys["orders"], orders - chained))

    def _times(self, slot: np.ndarray) -> np.ndarray:
        match self.params.event_times:
            case "equal":
                slot[:] = 0
            case "backwards":
                # Quotes and orders alone take every other slot.
                np.subtract(2 * self.params.messages + self.params.symbols, slot, out=slot)
            case "limits":
                return np.where(hashed(self._keys["times"], slot) >> 63, np.uint64(2**64 - 1), 0)
        slot *= 10**9
        slot //= self.params.rate
        slot += np.uint64(self.params.start_ns)
        return slot

    def _fill_opening(self, start: int, out: np.ndarray) -> None:
        """Fill the quotes of the preamble: symbol number = quote number."""
        number = np.arange(start, start + len(out), dtype=np.uint64)
        symbol = number.astype(np.int64)
        frac = np.zeros(len(out), np.int64)
        h = hashed(self._keys["opening"], number)
        bid, offer = self._paths.quotes(0, symbol, frac, h)
        self._put_quotes(out, h, symbol, number + 1, self._times(number), bid, offer)

    def _fill_quotes(self, first: int, out: np.ndarray) -> None:
        """Fill quotes that come after the preamble, from number ``first``, block by block."""
        done = 0
        while done < len(out):
            m = first + done
            n = min(len(out) - done, BLOCK - m % BLOCK)
            self._fill_quote_block(m, out[done : done + n])
            done += n

    def _fill_quote_block(self, first: int, out: np.ndarray) -> None:
        symbols = self.params.symbols
        number = np.arange(first, first + len(out), dtype=np.uint64)
        h = hashed(self._keys["quotes"], number)
        symbol = self._pick(h)
        rejected = self.rejected(first - 1, first + len(out))
        here = rejected[rejected >= first]
        after = rejected[rejected < first + len(out) - 1] + 1
        # The quote after a rejected order restores its symbol; another reject there wins.
        symbol[after - first] = self._order_symbols(after - 1)
        symbol[here - first] = self._order_symbols(here)
        frac = (number & np.uint64(BLOCK - 1)).astype(np.int64)
        block = first >> BLOCK_BITS
        bid, offer = self._paths.quotes(block, symbol, frac, h)
        restores = np.zeros(len(out), bool)
        restores[after - first] = True
        crossed, edges = self.params.crossed, self.params.edges
        self._paths.near_misses(symbol, h, ~restores, crossed, edges, bid, offer)
        at = (here - first).astype(np.int64)
        if len(at):
            kinds = hashed(self._keys["abnormal"], here)
            bid[at], offer[at] = self._paths.abnormal(symbol[at], bid[at], offer[at], kinds, edges)
        time = self._times(number * 2 + symbols)
        self._put_quotes(out, h, symbol, number + (symbols + 1), time, bid, offer)

    def _put_quotes(
        self,
        out: np.ndarray,
        h: np.ndarray,
        symbol: np.ndarray,
        quote_id: np.ndarray,
        time: np.ndarray,
        bid: np.ndarray,
        offer: np.ndarray,
    ) -> None:
        out["size"] = QUOTE.itemsize
        payload = out["payload"]
        payload["kind"] = QUOTE_KIND
        payload["zero"] = 0
        payload["symbol"] = self._words[symbol]
        payload["quote_id"] = quote_id
        payload["event_ns"] = time
        payload["bid"] = bid
        payload["offer"] = offer
        payload["bid_size"] = ((h >> 56) & 15) * 100 + 100
        payload["offer_size"] = (h >> 60) * 100 + 100
        if self.params.edges:
            for name, shift in (("bid_size", 56), ("offer_size", 60)):
                _put_edges(payload[name], (h >> shift) & 15, _SIZES)

    def _fill_orders(self, first: int, out: np.ndarray) -> None:
        done = 0
        while done < len(out):
            m = first + done
            n = min(len(out) - done, BLOCK - m % BLOCK)
            self._fill_order_block(m, out[done : done + n])
            done += n

    def _fill_order_block(self, first: int, out: np.ndarray) -> None:
        number = np.arange(first, first + len(out), dtype=np.uint64)
        h = hashed(self._keys["orders"], number)
        symbol = self._pick(h)
        rejected = self.rejected(first, first + len(out))
        symbol[rejected - first] = self._order_symbols(rejected)
        frac = (number & np.uint64(BLOCK - 1)).astype(np.int64)
        out["size"] = ORDER.itemsize
        payload = out["payload"]
        payload["kind"] = ORDER_KIND
        payload["side"] = BUY + (h >> 63)
        payload["zero"] = 0
        payload["price"] = self._paths.mid(first >> BLOCK_BITS, symbol, frac)
        payload["order_id"] = self._order_ids(number)
        payload["event_ns"] = self._times(number * 2 + (self.params.symbols + 1))
        payload["qty"] = ((h >> 57) & 63) * 100 + 100
        payload["account"] = scaled((h >> 40) & 0xFFFF, 16, ACCOUNTS)
        if self.params.edges:
            _put_edges(payload["qty"], (h >> 57) & 63, _QUANTITIES)
            _put_edges(payload["account"], (h >> 34) & 63, _QUANTITIES)
            _put_edges(payload["price"], (h >> 28) & 63, _PRICES)
        # Probes: a symbol without quotes, and a tag that says so.
        probes = self.probes(first, first + len(out))
        running = probes // max(self.params.probe_one_in, 1)
        symbol[probes - first] = self.params.symbols + (running % len(PROBE_SYMBOLS))
        payload["symbol"] = self._words[symbol]
        h >>= 1
        if self.params.edges:
            _put_edges(h, (h >> 50) & 63, _TAGS)
        h[probes - first] = running | np.uint64(PROBE_TAG)
        payload["client_tag"] = h


def _put_edges(column: np.ndarray, drawn: np.ndarray, edges: np.ndarray) -> None:
    """Put the edge of that number in place of what a column holds where one was drawn."""
    at = np.flatnonzero(drawn < len(edges))
    column[at] = edges[drawn[at]]
