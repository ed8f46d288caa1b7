"""The words of a checker's finding: what was expected, what came, and what is wrong with it."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

from tickproof.conformance.checkers.count_diagnosis import Diagnosis
from tickproof.conformance.checkers.findings import (
    AheadOfFetch,
    AnswerAgain,
    AnswerToNothing,
    Finding,
    MalformedVerdict,
    MissingNumber,
    MissingPayload,
    MissingPoint,
    MissingReject,
    MissingVerdict,
    NumberAgain,
    NumberGap,
    Payload,
    Point,
    PointAgain,
    QuoteBefore,
    QuoteOfLater,
    QuoteOfNone,
    StaleQuote,
    StrangePoint,
    SurplusPayload,
    WrongTotal,
    WrongVerdict,
)
from tickproof.conformance.checkers.market_rule import show_answer, symbol_text
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Outcome
from tickproof.generators.spread_rule import RATIO


def got(outcome: Outcome) -> str:
    """Return what a requirement expected and what it got, as a sentence."""
    return f"Expected: {outcome.expected}. Got: {outcome.actual}."


def ending(history: History, when: str = "") -> str:
    """Return how the engine ended a run, and what the log had refused it last."""
    refused = history.all(events.Refused)[-1:]
    why = (f"; the log had refused {asked(row)}: {shown(row.text, 200)}" for row in refused)
    return f"{shown(history.ended.message, 500)}{when}{''.join(why)}"


def asked(row: events.Refused) -> str:
    """Return what a request that got an error is called: its op, if that could be read."""
    return shown(row.op, 20) if row.op != "?" else "a frame"


class Words(NamedTuple):
    """A finding in words; summary: a sentence that says what is wrong."""

    expected: str
    actual: str
    summary: str


@singledispatch
def words(finding: Finding) -> Words:
    """Return a finding in words; TypeError for a class that has none."""
    raise TypeError(f"no words for {type(finding).__name__}")


def _payload(payload: Payload) -> str:
    """Return a payload as text; bytes in hex, cut after 64 of them."""
    if isinstance(payload, Point):
        return f"key {payload.key} {_point(payload)}"
    if isinstance(payload, bytes):
        return payload[:64].hex() + (f"... ({len(payload)} bytes)" if len(payload) > 64 else "")
    return show_answer(payload)


# -- any app ---------------------------------------------------------------------------------


@words.register
def _ahead(finding: AheadOfFetch) -> Words:
    early = finding.early_ns
    how = "though a record that it comes from was never fetched"
    if early is not None:
        how = f"{early / 1e6:,.3f} ms before the first FETCH of a record it comes from"
    due = "every record fetched before an output that comes from it"
    text = f"output {finding.where['index']} arrived {how}"
    return Words(due, _payload(finding.payload), text)


@words.register
def _gap(finding: NumberGap) -> Words:
    seq = finding.where["seq"]
    text = (
        f"writer {finding.where['writer']} seq {seq} came, but {finding.next} is the next number "
        "of this writer"
    )
    return Words(f"seq {finding.next}", f"seq {seq}", text)


@words.register
def _number_again(finding: NumberAgain) -> Words:
    where, changed = finding.where, finding.first != finding.again
    text = (
        f"writer {where['writer']} seq {where['seq']} came twice with "
        f"{'another' if changed else 'the same'} payload: first at output {where['first_index']}, "
        f"again at output {where['index']}"
    )
    if changed:
        return Words(f"once: {_payload(finding.first)}", f"again: {_payload(finding.again)}", text)
    return Words("once", "twice", text)


@words.register
def _missing_payload(finding: MissingPayload) -> Words:
    due = _payload(finding.payload)
    text = f"expected record {finding.where['record']} has no output of its own: {due}"
    return Words(due, "no output", text)


@words.register
def _surplus_payload(finding: SurplusPayload) -> Words:
    payload, head = _payload(finding.payload), f"output {finding.where['index']}"
    if finding.kind == "duplicate":
        text = f"{head} repeats a payload more often than it was expected: {payload}"
        return Words("no further output", payload, text)
    return Words(
        "one of the expected payloads", payload, f"{head} is no expected payload: {payload}"
    )


@words.register
def _missing_number(finding: MissingNumber) -> Words:
    text = f"no output has number {finding.number}, though one with a higher number came"
    return Words(f"n {finding.number}", "a number above it", text)


# -- app count -------------------------------------------------------------------------------


def _point(point: Point) -> str:
    return f"n={point.n} total={point.total}"


@words.register
def _missing_point(finding: MissingPoint) -> Words:
    where, due = finding.where, _point(finding.point)
    what = "is the key's last point, and it is missing" if finding.last else "is missing"
    place = f"(input partition {where['partition']} offset {where['offset']})"
    return Words(due, "no output", f"{_payload(finding.point)} {what} {place}")


@words.register
def _wrong_total(finding: WrongTotal) -> Words:
    point = finding.point
    terms = f" ({'+'.join(map(str, finding.terms))})" if finding.terms else ""
    due = _point(point._replace(total=finding.due)) + terms
    text = f"{_payload(point)}: expected {due}; it is {diagnosis(finding.why, point.n)}"
    return Words(due, _point(point), text)


def diagnosis(why: Diagnosis, n: int) -> str:
    """Return what a wrong total of ``n`` values is, after "it is"."""
    several = why.last > why.first
    which = f"values {why.first} to {why.last}" if several else f"value {why.first}"
    match why.kind:
        case "rounded":
            return "the sum in 64-bit floating point: rounded"
        case "cut":
            return "the lowest 32 bits of the sum"
        case "other":
            return f"the total after {why.last} values, not after {n}"
        case "again":
            return f"{f'the sum of {which}' if several else f'{which} alone'}: the key began again"
        case "tail":
            return f"the sum of values {why.first} to {why.last} only"
        case "none":
            return "explained by no single mistake"
    figure = "" if why.value is None else f" (= {why.value})"
    if why.kind == "twice":
        return f"{which}{figure} applied {'and counted ' if why.counted else ''}twice"
    return f"{which}{figure} {'neither applied nor counted' if why.counted else 'left out'}"


@words.register
def _point_again(finding: PointAgain) -> Words:
    where, point = finding.where, finding.point
    earlier = _point(point._replace(total=finding.total))
    text = (
        f"{_payload(point)} at output {where['index']} after {earlier} at output "
        f"{where['first_index']}"
    )
    return Words(f"{earlier}, once", _point(point), text)


@words.register
def _strange_point(finding: StrangePoint) -> Words:
    bound = finding.bound
    due, what = {
        "unknown-key": ("a key of the input", "no input record has this key"),
        "beyond-input": (f"n from 1 to {bound}", f"the input holds {bound} records of this key"),
        "step-back": (f"n at least {bound}", f"n={bound} came before it"),
        "skipped-order": (f"n={bound + 1} next", f"the highest before it is n={bound}"),
    }[finding.kind]
    return Words(due, _point(finding.point), f"{_payload(finding.point)}: {what}")


# -- Market Spread ---------------------------------------------------------------------------


@words.register
def _missing_verdict(finding: MissingVerdict) -> Words:
    due, order = finding.due, f"order {finding.where['order_id']}"
    if due is None:
        text = f"{order} of {finding.where['symbol']} has no verdict"
        return Words("a verdict", "no output", text)
    text = f"{order} has no verdict; {clause(due, finding.limit)}"
    return Words(show_answer(due), "no output", text)


@words.register
def _missing_reject(finding: MissingReject) -> Words:
    where, reach = finding.where, "to the end of the stream"
    if finding.before:
        later, quote = finding.before
        reach = f"up to quote {quote}, which the later order {later} saw,"
    text = (
        f"order {where['order_id']} of {where['symbol']}: no quote that it may have seen {reach} "
        "accepts it"
    )
    return Words("a reject", "no output, as if accepted", text)


@words.register
def _malformed(finding: MalformedVerdict) -> Words:
    tail = finding.tail.hex()
    text = f"output {finding.where['index']}: the 7 bytes after the verdict are {tail}"
    return Words("7 zero bytes", tail, text)


@words.register
def _answer_again(finding: AnswerAgain) -> Words:
    where = finding.where
    text = (
        f"order {where['order_id']}: output {where['first_index']}, and again output "
        f"{where['index']}"
    )
    return Words(f"{show_answer(finding.first)}, once", show_answer(finding.answer), text)


@words.register
def _answer_to_nothing(finding: AnswerToNothing) -> Words:
    order = finding.where["order_id"]
    text = f"output {finding.where['index']} answers order {order}, which is not in the input"
    return Words("an order of the input", show_answer(finding.answer), text)


@words.register
def _quote_of_later(finding: QuoteOfLater) -> Words:
    late = finding.published - finding.arrived
    text = f"{_by(finding)} was published {late} ns after the verdict arrived"
    due = f"a quote published by {finding.arrived} ns"
    return Words(due, show_answer(finding.answer), text)


@words.register
def _quote_before(finding: QuoteBefore) -> Words:
    after = finding.after
    text = (
        f"{_by(finding)} stands before quote {after['quote_id']}, which the earlier order "
        f"{after['order_id']} of the symbol saw"
    )
    return Words(f"quote {after['quote_id']} or a later one", show_answer(finding.answer), text)


@words.register
def _quote_of_none(finding: QuoteOfNone) -> Words:
    symbol = symbol_text(finding.due["symbol"])
    text = f"{_by(finding)} is no quote of {symbol}"
    return Words(f"a quote of {symbol}", show_answer(finding.answer), text)


@words.register
def _stale_quote(finding: StaleQuote) -> Words:
    due = finding.due["quote_id"]
    text = (
        f"{_by(finding)} is {finding.behind} quotes behind: quote {due} was fetched long enough "
        "before the order was published"
    )
    return Words(f"quote {due} or a later one", show_answer(finding.answer), text)


def _by(finding: QuoteOfLater | QuoteBefore | QuoteOfNone | StaleQuote) -> str:
    return f"output {finding.where['index']}: quote {finding.answer['quote_id']}"


@words.register
def _wrong_verdict(finding: WrongVerdict) -> Words:
    due, answer = finding.due, finding.answer
    expected = show_answer(due)
    if finding.unasked:
        expected = f"no output: {expected}"
    text = f"output {finding.where['index']}: {_difference(finding)}"
    return Words(expected, show_answer(answer), text)


def _difference(finding: WrongVerdict) -> str:
    """Say how a verdict differs from the one that is due."""
    due, answer, named = finding.due, finding.answer, finding.named
    if answer["symbol"] != due["symbol"]:
        return f"symbol {symbol_text(answer['symbol'])} instead of {symbol_text(due['symbol'])}"
    if answer["quote_id"] != due["quote_id"]:
        if answer["quote_id"] == 0:
            return f"no quote named, though quote {due['quote_id']} came before the order"
        if named is None:
            return f"quote {answer['quote_id']} does not exist"
        if named.symbol != int(due["symbol"]):
            return f"quote {answer['quote_id']} is one of {symbol_text(named.symbol)}"
        order = int(finding.where["partition"]), int(finding.where["offset"])
        if (named.partition, named.offset) > order:
            return f"future quote: {answer['quote_id']} came after the order"
        return f"stale quote: {answer['quote_id']} came before {due['quote_id']}"
    bid, offer = int(due["bid"]), int(due["offer"])
    for field in ("bid", "offer"):
        if answer[field] != due[field]:
            middle = " (the middle of bid and offer)" * (int(answer[field]) == (bid + offer) // 2)
            swapped = " (bid and offer swapped)" * (
                (int(answer["bid"]), int(answer["offer"])) == (offer, bid)
            )
            return (
                f"{field} {answer[field]}{swapped or middle}, but quote {due['quote_id']} has "
                f"{field} {due[field]}"
            )
    return clause(due, finding.limit)


def clause(due: Any, limit: int) -> str:
    """Say which clause of the rule decides on a quote; limit: five cents in the unit of prices."""
    bid, offer = int(due["bid"]), int(due["offer"])
    spread = offer - bid
    absolute, ratio = spread >= limit, RATIO * spread >= bid + offer
    if int(due["quote_id"]) == 0:
        return "no quote was seen, so it must be rejected"
    if spread == limit and not RATIO * spread > bid + offer:
        return f"the spread is exactly {limit}"
    if RATIO * spread == bid + offer and not spread > limit:
        return f"{RATIO} * spread is exactly bid + offer"
    if ratio and not absolute:
        return f"only the ratio clause rejects ({RATIO} * {spread} >= {bid + offer})"
    if absolute and not ratio:
        return f"only the absolute clause rejects (spread {spread} >= {limit})"
    ratios = f"{RATIO} * {spread} {'>=' if ratio else '<'} {bid + offer}"
    if absolute:
        return f"both clauses reject: spread {spread} >= {limit}, {ratios}"
    return f"neither clause rejects: spread {spread} < {limit}, {ratios}"
