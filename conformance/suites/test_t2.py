"""Tier 2: Market Spread without faults."""

from __future__ import annotations

import numpy as np

from tickproof.conformance.checkers.merged import check_merged
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.suites.catalog.fault_free import BOUNDARIES
from tickproof.conformance.suites.evidence import CHANGED, LOSS, VALUES, outputs, values
from tickproof.conformance.suites.judge import NotClaimed, Unknown, decides
from tickproof.conformance.suites.require import require_correct, require_no
from tickproof.conformance.verdicts import DOES_NOT_APPLY, Reason
from tickproof.generators.layouts import MESSAGE, ORDER_KIND, QUOTE, QUOTE_KIND


@decides("MS-MERGED", "market-merged-verdicts")
def test_each_order_meets_the_latest_quote(history: History) -> None:
    require_correct(history)


@decides("MS-REJECTS", "market-merged-rejects")
def test_only_rejected_orders_come_out(history: History) -> None:
    require_correct(history)
    if values(history).facts.get("rejects", 1):
        return
    if history.run["input"]["recipe"]["kind"] == "market-csv":
        # Another run would not show more: the market is what it is.
        raise NotClaimed(f"{DOES_NOT_APPLY}: about orders to reject, which this market lacks")
    raise Unknown(Reason.NOT_SEEN, "orders to reject", "none")


def _boundary(history: History, group: str) -> None:
    """Judge the orders of one group of symbols; the others have tests of their own.

    Only a few findings of a kind are kept, so they must be looked for in this group alone.
    """
    names = [symbol.encode().ljust(8) for symbol in BOUNDARIES[group]]
    inputs = [_orders_of(part, names) for part in history.inputs(MESSAGE)]
    findings = check_merged(inputs, outputs(history), history.params["emit"])
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


@decides("MS-ABSOLUTE-LIMIT", "market-boundaries")
def test_five_cents_reject(history: History) -> None:
    _boundary(history, "absolute")


@decides("MS-RATIO-LIMIT", "market-boundaries")
def test_five_per_cent_reject(history: History) -> None:
    _boundary(history, "ratio")


@decides("MS-NO-QUOTE", "market-boundaries")
def test_no_quote_rejects(history: History) -> None:
    _boundary(history, "no-quote")


@decides("MS-ODD-QUOTES", "market-boundaries")
def test_zero_crossed_and_huge_quotes(history: History) -> None:
    _boundary(history, "odd")


@decides("MS-MERGED", "market-boundaries")
def test_symbols_that_are_nearly_equal_are_not_mixed_up(history: History) -> None:
    _boundary(history, "alike")


@decides("MS-STANDARD-MIX", "market-standard-mix")
def test_one_order_in_seventy_thousand(history: History) -> None:
    require_correct(history)


@decides("MS-TWO-STREAMS", "market-two-verdicts")
def test_some_interleaving_explains_two_streams(history: History) -> None:
    kinds = tuple(kind for kind in VALUES if kind != "stale-quote")
    require_no(history, values(history), (*kinds, *LOSS, *CHANGED))


@decides("MS-FRESHNESS", "market-two-fresh")
def test_old_quotes_are_seen(history: History) -> None:
    _fresh(history)


@decides("MS-FRESHNESS", "market-two-sparse")
def test_a_few_old_quotes_are_seen(history: History) -> None:
    _fresh(history)


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
    due = int(fetched.min()) + int(history.claims["freshness_s"] * 1e9)
    bound = 0
    for partition in history.partitions:
        rows = of_partition(history.publishes, 1, partition["partition"])
        if partition["stream"] == 1 and len(rows):
            early = rows["end"][rows["t_ns"] < due].max(initial=0)
            bound += partition["records"] - int(early)
    return bound


@decides("MS-TWO-REJECTS", "market-two-rejects")
def test_hidden_orders_of_two_streams_were_acceptable(history: History) -> None:
    require_correct(history)
