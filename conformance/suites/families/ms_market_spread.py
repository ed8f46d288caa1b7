"""Market Spread without faults."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from tickproof.conformance.checkers.merged import check_merged
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.carriers import (
    MERGED,
    MERGED_REJECTS,
    ON_MERGED,
    TWO,
    TWO_REJECTS,
)
from tickproof.conformance.suites.evidence import CHANGED, LOSS, VALUES, outputs, values
from tickproof.conformance.suites.judge import NotClaimed, Unknown
from tickproof.conformance.suites.require import require_correct, require_no
from tickproof.conformance.suites.requirement import Family, Needs
from tickproof.conformance.suites.scenarios import SILENCES_S, Context, market, scenario
from tickproof.conformance.verdicts import DOES_NOT_APPLY, Reason
from tickproof.generators.layouts import MESSAGE, ORDER_KIND, QUOTE, QUOTE_KIND
from tickproof.generators.spread_rule import DECIMALS, MAX_PRICE, spread_limit

MS: Final = Family("MS", "Market Spread", tier=2)
#: Quotes crossed so deeply that a product of the rule with a factor above 40 leaves 64 bits, or 32.
#: Several depths, for what wraps may come out right by chance.
_DEEP: Final = {f"DEEP{bits}": (2**bits, 0) for bits in (31, 40, 47, 50, 52, 53)}
#: How many symbols are on each side of a drawn boundary.
_DRAWN: Final = 16
#: Symbol -> the quote that its orders meet (None: no quote), by what it is a boundary of.
BOUNDARIES: Final[dict[str, dict[str, tuple[int, int] | None]]] = {
    "absolute": {
        "ABS499": (1_000_000, 1_000_499),
        "ABS500": (1_000_000, 1_000_500),
        "ABS501": (1_000_000, 1_000_501),
    },
    "ratio": {
        # 40 * spread >= bid + offer with a spread below 500: 5 % of the midpoint.
        "RATUNDER": (7_801, 8_200),
        "RATEQUAL": (7_800, 8_200),
        "RATOVER": (7_799, 8_200),
        "RATPENNY": (39, 41),
        "RATSUB": (40, 41),
        "RATHALF": (20, 21),  # rejected only by a midpoint that was rounded
    },
    # An order comes before the first quote of some, too.
    "no-quote": {"NOQUOTE": None, "NOQUOTE2": None, "LATER": (1_000_000, 1_000_100)},
    "odd": {
        "ZERO": (0, 0),
        "CROSSED": (1_000_500, 1_000_000),
        "CROSSLOW": (41, 39),
        "DEEPEST": (2**53, 1),
        **_DEEP,
        "ONESIDED": (0, 100),
        "HUGEOK": (2**53 - 499, 2**53),
        "HUGEREJ": (2**53 - 500, 2**53),
        "WIDE": (0, 2**53),
    },
    # Those of one kind share a partition, where a state can take one for the other.
    "alike": {
        "TWIN": (1_000_000, 1_000_100),
        "Twin": (1_000_000, 1_000_900),
        "twin": (1_000_000, 1_000_200),
        "TWIN.": (1_000_000, 1_000_800),
        "EIGHTCHA": (1_000_000, 1_000_300),
        "EIGHTCHB": (1_000_000, 1_000_700),
    },
}


@scenario(MERGED)
def market_merged_verdicts(context: Context, rng: random.Random) -> Scenario:
    # Event times decide nothing: an engine that sorts or compares them is wrong.
    finer = rng.choice((5, 7, 18)) if context.finer_prices else None
    return market(context, 100_000, event_times="limits", price_decimals=finer, rate=100_000)


@scenario(MERGED)
def market_realistic(context: Context, _rng: random.Random) -> Scenario:
    carrier, records = context.carried_by, context.records(100_000)
    recipe = {"kind": "market-realistic", "records": records, "partitions": 4, "tick": 64}
    return Scenario("", carrier.app, carrier.params, recipe, rate=100_000)


@scenario(*ON_MERGED)
def market_boundaries(context: Context, rng: random.Random) -> Scenario:
    quotes = [
        ["quote", symbol, *prices]
        for group in BOUNDARIES.values()
        for symbol, prices in group.items()
        if prices
    ]
    orders = [["order", symbol] for group in BOUNDARIES.values() for symbol in group]
    rng.shuffle(orders)
    early = [["order", "LATER"]]
    recipe = {
        "kind": "script",
        "rows": early + quotes + orders * 3,
        "inputs": "merged",
        "partitions": 4,
        "tick": 16,
    }
    carrier = context.carried_by
    return Scenario("", carrier.app, carrier.params, recipe)


@scenario(*ON_MERGED)
def market_drawn_boundaries(context: Context, rng: random.Random) -> Scenario:
    # A unit so fine that 64-bit floats do not hold 40 times a spread below the limit, and so
    # coarse that prices leave room for one above it.
    decimals = rng.choice((16, 17)) if context.finer_prices else DECIMALS
    quotes = [
        ["quote", symbol, *prices]
        for symbol, prices in drawn_boundaries(rng, spread_limit(decimals)).items()
    ]
    orders = [["order", symbol] for _, symbol, *_ in quotes]
    rng.shuffle(orders)
    recipe = {
        "kind": "script",
        "rows": quotes + orders,
        "inputs": "merged",
        "price_decimals": decimals,
        "partitions": 4,
        "tick": 16,
    }
    carrier = context.carried_by
    return Scenario("", carrier.app, carrier.params, recipe)


def drawn_boundaries(rng: random.Random, limit: int) -> dict[str, tuple[int, int]]:
    """Return quotes at a limit of the rule and beside it, by symbol: A of the absolute, R of the
    ratio. ``limit``: five cents in the unit of prices.
    """
    made = {}
    for number, beside in itertools.product(range(_DRAWN), (-1, 0, 1)):
        spread = limit + beside
        bid = _up_to(rng, MAX_PRICE - spread)
        made[f"A{number}{beside:+d}"] = bid, bid + spread
        spread = _up_to(rng, min(limit - 1, MAX_PRICE // 21))
        spread = spread | 1 if beside else spread & ~1
        bid = (39 * spread + beside) // 2  # bid + offer = 40 * spread + beside
        made[f"R{number}{beside:+d}"] = bid, bid + spread
    return made


def _up_to(rng: random.Random, most: int) -> int:
    """Draw a whole number from 1 on: of any length in bits, two times of three a long one."""
    return rng.randint(1, most >> rng.choice((0, 0, rng.randrange(most.bit_length()))))


def _boundary(history: History, group: str) -> None:
    """Judge the orders of one group of symbols; the others have tests of their own."""
    _of_symbols(history, lambda symbol: symbol in BOUNDARIES[group])


def _drawn(history: History, letter: str) -> None:
    """Judge the orders at drawn boundaries of one limit."""
    _of_symbols(history, lambda symbol: symbol.startswith(letter))


def _of_symbols(history: History, theirs: Callable[[str], bool]) -> None:
    """Judge the orders of some symbols.

    Only a few findings of a kind are kept, so they must be looked for in this group alone.
    """
    rows = history.record.input.recipe["rows"]
    names = [symbol.encode().ljust(8) for symbol in {row[1] for row in rows} if theirs(symbol)]
    inputs = [_orders_of(part, names) for part in history.inputs(MESSAGE)]
    emit, limit = history.params["emit"], history.spread_limit
    findings = check_merged(inputs, outputs(history), emit, limit=limit)
    for table in (findings.counts, findings.examples):
        table.pop("invented", None)  # outputs of orders of other groups
    require_no(history, findings, tuple(findings.examples))
    require_no(history, values(history), ("invented", "malformed"))


def _orders_of(messages: np.ndarray, symbols: list[bytes]) -> np.ndarray:
    """Return the messages with every order of other symbols made a quote that nobody saw."""
    records = np.array(messages).view(QUOTE)
    other = (records["kind"] == ORDER_KIND) & ~np.isin(records["symbol"], symbols)
    records["kind"][other] = QUOTE_KIND
    records["quote_id"][other] = 0
    return records.view(MESSAGE)


MS.requirement(
    "MS-MERGED",
    "every order of a merged stream gets the right verdict",
    """With inputs "merged" and emit "verdicts", each order gets one verdict, decided by the latest
    quote of its symbol before it in the log.
    If it fails, the finding names the quote that was used: an earlier one is stale state, a later
    one means that a batch was reordered.""",
    clauses="""ms-inputs ms-latest ms-emit-verdicts ms-verdict ms-quote ms-order ms-accept
    ms-quote-silent ms-event-time ms-symbol ms-wire-size ms-spread-limit kafka-quote kafka-order
    kafka-verdict""",
    needs=Needs(app=("market-spread",), inputs=("merged",), emit=("verdicts",)),
    judges={
        market_merged_verdicts: require_correct,
        market_realistic: require_correct,
        market_boundaries: partial(_boundary, group="alike"),
    },
)


@scenario(MERGED_REJECTS)
def market_merged_rejects(context: Context, _rng: random.Random) -> Scenario:
    return market(context, 100_000)


def _only_rejects(history: History) -> None:
    require_correct(history)
    if values(history).facts.get("rejects", 1):
        return
    if history.record.input.recipe["kind"] == "market-csv":
        # Another run would not show more: the market is what it is.
        raise NotClaimed(f"{DOES_NOT_APPLY}: about orders to reject, which this market lacks")
    raise Unknown(Reason.NOT_SEEN, "orders to reject", "none")


MS.requirement(
    "MS-REJECTS",
    "with emit rejects, exactly the rejected orders appear",
    """Each order that must be rejected gives one output, and no accepted order gives any.
    If it fails, see whether verdicts are missing (lost, or accepted wrongly) or too many (rejected
    wrongly, or sent twice).""",
    clauses="ms-emit-rejects ms-quote-silent ms-accept",
    needs=Needs(app=("market-spread",), inputs=("merged",), emit=("rejects",)),
    judges={market_merged_rejects: _only_rejects},
)


MS.requirement(
    "MS-ABSOLUTE-LIMIT",
    "a spread of five cents rejects, just below does not",
    """The absolute limit is decided exactly at its boundary: 500 rejects, 499 does not.
    If it fails, the comparison is > where it should be >=, or prices went through a float.""",
    clauses="ms-reject-absolute ms-prices",
    needs=Needs(app=("market-spread",), inputs=("merged",)),
    judges={
        market_boundaries: partial(_boundary, group="absolute"),
        market_drawn_boundaries: partial(_drawn, letter="A"),
    },
)


MS.requirement(
    "MS-RATIO-LIMIT",
    "a spread of exactly five per cent of the midpoint rejects",
    """The ratio limit, 40 * spread >= bid + offer, is decided exactly at its boundary, for cheap
    symbols too.
    If it fails, the clause is missing, the bid was taken for the midpoint, or a division
    rounded.""",
    clauses="ms-reject-ratio ms-prices",
    needs=Needs(app=("market-spread",), inputs=("merged",)),
    judges={
        market_boundaries: partial(_boundary, group="ratio"),
        market_drawn_boundaries: partial(_drawn, letter="R"),
    },
)


MS.requirement(
    "MS-NO-QUOTE",
    "an order without any quote is rejected",
    """An order for a symbol that had no quote yet is rejected with quote_id, bid and offer 0.
    If it fails, such orders were dropped, held back, or judged by the quote of another symbol.""",
    clauses="ms-reject-no-quote ms-verdict",
    needs=Needs(app=("market-spread",), inputs=("merged",)),
    judges={market_boundaries: partial(_boundary, group="no-quote")},
)


MS.requirement(
    "MS-ODD-QUOTES",
    "zero, crossed and very large quotes follow the rule",
    """A quote of 0 and 0 rejects, a crossed quote accepts, and prices up to 2^53 are exact.
    If it fails, the code divides by the midpoint, compares as unsigned, filters quotes, or uses 32
    bits or a float.""",
    clauses="ms-accept ms-prices ms-reject-ratio",
    needs=Needs(app=("market-spread",), inputs=("merged",)),
    judges={market_boundaries: partial(_boundary, group="odd")},
)


@scenario(MERGED_REJECTS, MERGED)
def market_standard_mix(context: Context, _rng: random.Random) -> Scenario:
    recipe = {"reject_one_in": 70_000, "tick": 1024}
    return market(context, 1_400_000, recipe=recipe)


MS.requirement(
    "MS-STANDARD-MIX",
    "the standard mix, 1 reject in 70,000 orders",
    """In the standard mix, where a reject is rare, every reject is found and no other order is
    rejected.
    If it fails, see the few verdicts in question: an engine that answers nothing at all would miss
    them and little else would show.""",
    clauses="ms-standard-mix ms-emit-rejects",
    needs=Needs(app=("market-spread",), inputs=("merged",)),
    judges={market_standard_mix: require_correct},
)


@scenario(TWO)
def market_two_verdicts(context: Context, _rng: random.Random) -> Scenario:
    # Whatever compares event times goes back from a quote to none, however the streams are read.
    return market(context, 100_000, event_times="limits", rate=100_000)


@scenario(TWO)
def market_two_ends(context: Context, _rng: random.Random) -> Scenario:
    # Most orders are still to come when the last quote has, and END with it.
    recipe = {"symbols": 64, "tick": 16, "ended_stream": 0}
    return market(context, 4_000, recipe=recipe, rate=8_000)


def _some_interleaving(history: History) -> None:
    kinds = tuple(kind for kind in VALUES if kind != "stale-quote")
    require_no(history, values(history), (*kinds, *LOSS, *CHANGED))
    _require_quotes_met(history)


def _require_quotes_met(history: History) -> None:
    """Expect an order that met a quote, where orders were fetched after quotes.

    To decide all orders before the first quote is legal, too, and shows nothing. With emit
    "rejects", an order without an output was accepted, and so met a quote.
    """
    verdicts, fetches = outputs(history).payloads, history.fetches
    orders = sum(part.records for part in history.partitions if part.stream == 1)
    if len(verdicts) < orders or verdicts["quote_id"].any():
        return
    of_orders = fetches["stream"] == 1
    newest = fetches["t_ns"][of_orders].max(initial=0)
    if (fetches["t_ns"][~of_orders] < newest).any():
        raise Unknown(Reason.NOT_SEEN, "an order that met a quote", "none")


MS.requirement(
    "MS-TWO-STREAMS",
    "two streams: verdicts fit some order of quotes and orders",
    """With inputs "two" and emit "verdicts", the verdicts of each symbol fit one interleaving that
    keeps both orders and uses no quote before it was published.
    If it fails with "went back", two threads judge one symbol with different views of its
    quotes; if many verdicts are lost, the END of one stream was taken for that of both.""",
    clauses="""ms-inputs ms-two-interleaving ms-two-no-future ms-latest ms-emit-verdicts
    app-fetched-first log-end-flag""",
    needs=Needs(app=("market-spread",), inputs=("two",), emit=("verdicts",)),
    judges={market_two_verdicts: _some_interleaving, market_two_ends: _some_interleaving},
)


@scenario(TWO)
def market_two_fresh(context: Context, _rng: random.Random) -> Scenario:
    return _silent(context, 100_000, {"records": context.records(40_000)})


@scenario(TWO)
def market_two_sparse(context: Context, _rng: random.Random) -> Scenario:
    # A handful of quotes in each partition: what waits for more of them waits too long.
    recipe = {"records": 120, "symbols": 24, "reject_one_in": 4, "tick": 1}
    return _silent(context, 100, recipe)


def _silent(context: Context, rate: int, recipe: dict[str, Any]) -> Scenario:
    """Return a silence of more than freshness_s: what was quoted before it must be seen after."""
    silence = SILENCES_S[context.profile] if context.profile == "full" else 0.0
    hold = (0.5, max(context.freshness_s + 0.5, silence))
    return market(context, recipe["records"], recipe=recipe, rate=rate, hold=hold)


def _fresh(history: History) -> None:
    require_no(history, values(history), ("stale-quote", *LOSS))
    bound = _bound_orders(history)
    if not bound:
        raise Unknown(
            Reason.NOT_SEEN,
            "orders published freshness_s or more after a quote was fetched",
            "none",
        )


def _bound_orders(history: History) -> int:
    """Count orders that came so late that some quote must have been seen by then."""
    fetched = history.fetches["t_ns"][history.fetches["stream"] == 0]
    if not len(fetched):
        return 0
    due = int(fetched.min()) + history.claims.freshness_ns
    bound = 0
    for partition in history.partitions:
        rows = of_partition(history.publishes, 1, partition.partition)
        if partition.stream == 1 and len(rows):
            early = rows["end"][rows["t_ns"] < due].max(initial=0)
            bound += partition.records - int(early)
    return bound


MS.requirement(
    "MS-FRESHNESS",
    "two streams: quotes are seen within freshness_s",
    """An order sees the quotes of its symbol that were fetched freshness_s or more before it was
    published.
    If it fails, quotes wait in a queue behind orders: read the quotes first in each round, or claim
    a larger freshness_s.""",
    clauses="ms-two-freshness ms-two-fetched toml-apps-freshness",
    needs=Needs(app=("market-spread",), inputs=("two",), emit=("verdicts",)),
    judges={market_two_fresh: _fresh, market_two_sparse: _fresh},
)


@scenario(TWO_REJECTS)
def market_two_rejects(context: Context, _rng: random.Random) -> Scenario:
    return market(context, 100_000, rate=100_000)


def _some_interleaving_of_rejects(history: History) -> None:
    require_correct(history)
    _require_quotes_met(history)


MS.requirement(
    "MS-TWO-REJECTS",
    "emit rejects: orders without output could be accepted",
    """With emit "rejects", each order without an output can have seen a quote that accepts it, in
    order with the outputs around it.
    If it fails, a reject was lost, or an order was never judged.""",
    clauses="ms-emit-rejects ms-two-interleaving",
    needs=Needs(app=("market-spread",), inputs=("two",), emit=("rejects",)),
    judges={market_two_rejects: _some_interleaving_of_rejects},
)
