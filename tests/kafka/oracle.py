"""What each app has to say of its input, the slow and obvious way."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

Record = dict[str, Any]
Keyed = tuple[bytes, Record]
SYMBOLS = ["AAPL", "IBM", "F", "GE"]


def numbers(count: int, rng: random.Random) -> list[Keyed]:
    """Return input of count, a tenth as many keys."""
    keys = [rng.randrange(count // 10) for _ in range(count)]
    return [(b"%d" % key, {"k": key, "v": rng.randrange(-1000, 1000)}) for key in keys]


def points(records: list[Keyed]) -> list[Record]:
    """Return each point of count."""
    totals: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    found = []
    for _, record in records:
        n, total = totals[record["k"]]
        totals[record["k"]] = n, total = n + 1, total + record["v"]
        found.append({"k": record["k"], "n": n, "total": total})
    return found


def last_points(records: list[Keyed]) -> list[Record]:
    """Return the last point of each key."""
    return list({point["k"]: point for point in points(records)}.values())


def market(count: int, rng: random.Random) -> list[Keyed]:
    """Return quotes and orders, merged."""
    found = []
    for number in range(1, count + 1):
        symbol = rng.choice(SYMBOLS)
        if rng.random() < 0.5:
            bid = rng.randrange(1_000, 20_000)
            prices = {"bid": bid, "offer": bid + rng.choice([100, 499, 500, 600])}
            record = {"kind": "quote", "symbol": symbol, "quote_id": number, "event_ns": number}
            record |= prices | {"bid_size": 1, "offer_size": 1}
        else:
            record = {"kind": "order", "side": "buy", "symbol": symbol, "order_id": number}
            record |= {"event_ns": number, "price": 1, "qty": 1, "account": 1, "client_tag": 0}
        found.append((symbol.encode(), record))
    return found


def verdicts(records: list[Keyed]) -> list[Record]:
    """Return the verdict of each order."""
    quotes: dict[str, tuple[int, int, int]] = {}
    found = []
    for _, record in records:
        symbol = record["symbol"]
        if record["kind"] == "quote":
            quotes[symbol] = record["quote_id"], record["bid"], record["offer"]
            continue
        number, bid, offer = quotes.get(symbol, (0, 0, 0))
        wide = number == 0 or offer - bid >= 500 or 40 * (offer - bid) >= bid + offer
        verdict = {"order_id": record["order_id"], "symbol": symbol, "quote_id": number}
        found.append(verdict | {"bid": bid, "offer": offer, "verdict": int(wide)})
    return found


def counted(records: list[Record]) -> Counter[tuple[tuple[str, Any], ...]]:
    """Return how often each record is there."""
    return Counter(tuple(sorted(record.items())) for record in records)
