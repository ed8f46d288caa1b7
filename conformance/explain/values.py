"""Outputs that are wrong: the first of them, what was due, what all of them share."""

from __future__ import annotations

from functools import singledispatch
from typing import Final

import numpy as np

from tickproof.conformance.apps.app import App
from tickproof.conformance.apps.count import Count
from tickproof.conformance.apps.market_spread import MarketSpread
from tickproof.conformance.checkers.expected import find
from tickproof.conformance.checkers.market_rule import (
    ANSWER,
    RECORD,
    VERDICT_BYTE,
    show_answer,
    symbol_text,
)
from tickproof.conformance.checkers.matching import PLACES, place_of
from tickproof.conformance.checkers.timeline import publish_times
from tickproof.conformance.explain import count_values
from tickproof.conformance.explain.aftermath import Aftermath, relations
from tickproof.conformance.explain.deliveries import alike, shared
from tickproof.conformance.explain.facts import Facts, Part, listed
from tickproof.conformance.history.outputs import UNNUMBERED
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.suites.evidence import ORDER_KINDS
from tickproof.conformance.text import counted, shown
from tickproof.conformance.verdicts import Outcome
from tickproof.generators.layouts import MESSAGE, QUOTE, QUOTE_KIND
from tickproof.generators.spread_rule import RATIO

#: As many partitions are named.
_MOST: Final = 4
#: Kinds of findings about the order of outputs: their values may be right.
_ORDER: Final = (*ORDER_KINDS, "gap")


def tell(facts: Facts, outcome: Outcome) -> Part:
    """Explain an output whose value or place is wrong, by the earliest one there is."""
    m = facts.matching
    where = outcome.evidence.get("where")
    index = int(where.get("index", -1)) if isinstance(where, dict) else -1
    ordered = outcome.reason in _ORDER
    wrong = np.flatnonzero(m.wrong) if m is not None and not ordered else np.empty(0, np.int64)
    if len(wrong):
        index = int(wrong[0])
    if not 0 <= index < len(facts.log):
        return Part()
    t_ns = int(facts.log.t_ns(np.array([index]))[0])
    near = facts.before(t_ns)
    said = [_first(facts, outcome, index, near)]
    said += _answers(facts, index, near)
    point: list[str] = []
    if not len(wrong):
        point += alike(outcome)
    # What explains the output, where something does, says more than the output.
    why: list[str] = []
    if ordered:
        why = shared(facts, near)
    else:
        seen, why = _explained(facts.app, facts, index, near)
        point += seen
    point += why
    plain = facts.app.numbered and not ordered
    head = (*why, *(said[:1] if plain else [_first_seen(outcome, ordered)]))[0]
    if not (why or ordered) and (slip := _slip(facts.app, facts)):
        head, point = f"{head} {slip}", [*point, slip]
    if len(wrong):
        point.append(_all(facts, wrong, near))
    mark = "first output out of order" if ordered else "first wrong output"
    return Part(tuple(said), tuple(point), t_ns, mark, head)


def _first_seen(outcome: Outcome, ordered: bool) -> str:
    """Return the counterexample as a sentence, and how often the run shows it."""
    what = "output out of order" if ordered else "wrong output"
    return " ".join([f"The first {what}: {shown(outcome.actual, 400)}.", *alike(outcome)])


def _answers(facts: Facts, index: int, near: Aftermath | None) -> list[str]:
    """Say which record a wrong output answers, and what became of that."""
    m, count = facts.matching, facts.app.numbered
    if m is None:
        return []
    place = count_values.stands(facts, index, near) if count else None
    by = "By its place among the outputs it answers"
    if place is None:
        if m.answers[index] < 0 or (count and count_values.shifted(facts, near)):
            return []  # where totals are shifted, n names the wrong record
        place = m.place(int(m.answers[index]))
        by = "By its key and n it stands for" if count else "It answers"
    return [f"{by} {facts.told(place, near)}."]


def _first(facts: Facts, outcome: Outcome, index: int, near: Aftermath | None) -> str:
    """Say when the first wrong output came, what it says and what was due."""
    t_ns = int(facts.log.t_ns(np.array([index]))[0])
    writer, seq = facts.log.writer_seq(np.array([index]))
    number = "unnumbered" if int(seq[0]) == UNNUMBERED else f"seq {int(seq[0]):,}"
    what = "output out of order" if outcome.reason in _ORDER else "wrong output"
    head = f"The first {what} came {facts.since(t_ns, near)} (writer {int(writer[0])}, {number}): "
    m = facts.matching
    if m is None or not m.wrong[index]:
        return f"{head}{shown(outcome.actual, 300)}; due was {shown(outcome.expected, 160)}."
    return head + _said(facts.app, facts, index)


@singledispatch
def _said(app: App, facts: Facts, index: int) -> str:
    """Say what a wrong output holds, and what was due."""
    return f"{app.words(facts.log.payloads[index])}, which is no payload that was due."


@_said.register
def _said_of_point(app: Count, facts: Facts, index: int) -> str:
    return count_values.said(facts, index)


@singledispatch
def _explained(
    app: App, facts: Facts, index: int, near: Aftermath | None
) -> tuple[list[str], list[str]]:
    """Say what was seen of a wrong output, and what explains all wrong outputs."""
    return [], []


@_explained.register
def _explained_point(
    app: Count, facts: Facts, index: int, near: Aftermath | None
) -> tuple[list[str], list[str]]:
    return [], count_values.tell(facts, index, near)


def _all(facts: Facts, wrong: np.ndarray, near: Aftermath | None) -> str:
    """Count the wrong outputs, and say on which side of the fault they lie."""
    are = "is" if len(wrong) == 1 else "are"
    head = f"{counted(len(wrong), 'output')} of {len(facts.log):,} {are} wrong"
    if near is None or len(wrong) == 1:
        return f"{head}."
    return f"{head}, none of them before {facts.name(near)}{_partitions(facts, wrong)}."


def _partitions(facts: Facts, wrong: np.ndarray) -> str:
    """Say of which partitions of the input wrong outputs are, if they are not of all."""
    m = facts.matching
    if m is None or (m.answers[wrong] < 0).any():
        return ""
    places, counts = np.unique(
        m.places(m.answers[wrong])[["stream", "partition"]], return_counts=True
    )
    rows = zip(places, counts.tolist(), strict=True)
    some = [(facts.partition(int(at["stream"]), int(at["partition"])), n) for at, n in rows]
    if not 1 <= len(some) < min(len(facts.history.partitions), _MOST + 1):
        return ""
    return ": " + listed([f"{n:,} of {name}" for name, n in some])


# -- verdicts of Market Spread ---------------------------------------------------------------


@_said.register
def _said_of_verdict(app: MarketSpread, facts: Facts, index: int) -> str:
    m = facts.matching
    text = app.words(facts.log.payloads[index])
    if m is None or m.due is None or m.answers[index] < 0:
        return f"{text}; there is no such order in the input."
    due = m.due[m.answers[index]]
    if not m.owed[m.answers[index]]:
        return f"{text}; due was no output, because {show_answer(due)}."
    return f"{text}; due was {show_answer(due)}."


@_explained.register
def _explained_verdict(
    app: MarketSpread, facts: Facts, index: int, near: Aftermath | None
) -> tuple[list[str], list[str]]:
    """Say what became of the quote that was due, and what the wrong verdicts share.

    The second list explains them all, and is empty where nothing does.
    """
    m = facts.matching
    if m is None:
        return [], []
    if not app.merged:
        return _newest(facts, index, near), []
    if m.due is None or m.answers[index] < 0:
        return [], []
    due = m.due[m.answers[index]]
    quotes, where = _quotes(facts, MESSAGE)
    found = []
    hit = np.flatnonzero((quotes["id"] == due["quote_id"]) & (due["quote_id"] != 0))
    if len(hit):
        place = place_of(where[hit[0]])
        found.append(
            f"Quote {due['quote_id']}, which was due, is offset {place.offset:,} of partition "
            f"{place.partition}: {facts.journey(place, near)}."
        )
    said, explains = _shared(facts, quotes, where, near)
    return (found, said) if explains else (found + said, [])


@singledispatch
def _slip(app: App, facts: Facts) -> str:
    """Say which slip in the app's rule gives every output as it came, "" for none."""
    return ""


@_slip.register
def _slip_in_decision(app: MarketSpread, facts: Facts) -> str:
    came, limit = _verdicts(facts, np.arange(len(facts.log))), facts.history.spread_limit
    bid, offer, named = came["bid"], came["offer"], came["quote_id"] != 0
    spread = offer - bid
    absolute, ratio = spread >= limit, RATIO * spread >= bid + offer
    rejected = came["tail"] & VERDICT_BYTE == 1
    wrong = rejected != (absolute | ratio | ~named)
    number = int(wrong.sum())
    slips = {
        f"the spread is exactly {limit}: `>` in place of `>=`": (spread > limit) | ratio,
        f"{RATIO} * spread is exactly bid + offer: `>` in place of `>=`": absolute
        | (RATIO * spread > bid + offer),
        "only the ratio clause rejects: it is missing": absolute,
        "only the absolute clause rejects: it is missing": ratio,
    }
    fits = [slip for slip, by in slips.items() if (rejected == (by | ~named)).all()]
    if not number or len(fits) != 1:
        return ""  # where two would give the same verdicts, neither is known to be the one
    these = f"each of the {number:,} wrong verdicts" if number > 1 else "the wrong verdict"
    return f"In {these}, {fits[0]}; all others follow the rule."


def _shared(
    facts: Facts, quotes: np.ndarray, where: np.ndarray, near: Aftermath | None
) -> tuple[list[str], bool]:
    """Say what all wrong verdicts on merged input share about their quotes.

    Returns whether that explains them, too.
    """
    m = facts.matching
    assert m is not None and m.due is not None
    wrong = np.flatnonzero(m.wrong & (m.answers >= 0))
    came, due = _verdicts(facts, wrong), m.due[m.answers[wrong]]
    other = came["quote_id"] != due["quote_id"]
    named = int(((came["quote_id"] == 0) & other).sum())
    if not other.all():
        if other.any():
            return [], False
        text = "All wrong verdicts name the quote that was due"
        bad = [f for f in ("symbol", "bid", "offer") if (came[f] != due[f]).all()]
        rule = all((came[f] == due[f]).all() for f in ("symbol", "bid", "offer"))
        if rule:
            return [f"{text}, with its prices: only the decision is wrong."], False
        return [f"{text}, but not its {' and '.join(bad)}." if bad else f"{text}."], False
    if not len(quotes):
        return ["All wrong verdicts name another quote than the latest."], False
    number = len(wrong)
    told = _rows_of(quotes["id"], came["quote_id"])
    if ((told >= 0) & (quotes["symbol"][told] != due["symbol"])).all():
        return [f"All wrong verdicts ({number:,}) name a quote of another symbol."], True
    at = _rows_of(quotes["id"], due["quote_id"])
    missed = where[np.maximum(at, 0)]
    if named == number:
        text = f"All wrong verdicts ({number:,}) name no quote"
    else:
        earlier = _earlier(_rows_of(quotes["id"], came["quote_id"]), where, missed)
        which = "an earlier quote" if (earlier | (came["quote_id"] == 0)).all() else "another quote"
        none = f", {named:,} of them none" if named else ""
        text = f"All wrong verdicts ({number:,}) name {which} than the latest{none}"
    if (at < 0).any():
        return [f"{text}."], False
    if _one_reply(facts, m.places(m.answers[wrong]), missed):
        return [
            f"{text}; each of these orders came in the same FETCH reply as the quote that was due, "
            f"behind it ({number:,} of {number:,}): as if the orders of a reply were judged before "
            "its quotes."
        ], True
    if near is None:
        return [f"{text}."], False
    shares = relations(facts.history, missed, near)
    if shares["left"] + shares["given-up"] == len(missed):
        return [
            f"{text}, and each quote that was due had been fetched before {facts.name(near)} and "
            "not again: the quotes from before it were not restored."
        ], True
    return [f"{text}."], False


def _rows_of(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return where each wanted id stands in ``ids``, -1 for nowhere."""
    order = np.argsort(ids, kind="stable")
    at, known = find(ids[order], wanted)
    return np.where(known, order[at], -1)


def _earlier(at: np.ndarray, where: np.ndarray, due: np.ndarray) -> np.ndarray:
    """Return which named quotes, by their place in ``where``, stand before the due ones."""
    came = where[np.maximum(at, 0)]
    same = came[["stream", "partition"]] == due[["stream", "partition"]]
    return (at >= 0) & same & (came["offset"] < due["offset"])


def _one_reply(facts: Facts, orders: np.ndarray, quotes: np.ndarray) -> bool:
    """Whether each order was first fetched in a reply that held its quote, too."""
    for partition in np.unique(orders["partition"]).tolist():
        mine = orders["partition"] == partition
        if (quotes["partition"][mine] != partition).any():
            return False
        rows = of_partition(facts.history.fetches, 0, partition)
        reach = np.maximum.accumulate(rows["end"].astype(np.int64))
        first = np.searchsorted(reach, orders["offset"][mine], side="right")
        if len(first) and first.max() >= len(rows):
            return False
        if (rows["base"][first].astype(np.int64) > quotes["offset"][mine]).any():
            return False
    return True


def _newest(facts: Facts, index: int, near: Aftermath | None) -> list[str]:
    """On two streams: name the newest quote of the symbol that was fetched before an output."""
    answer = _verdicts(facts, np.array([index]))[0]
    quotes, where = _quotes(facts, QUOTE)
    mine = np.flatnonzero(quotes["symbol"] == answer["symbol"])
    if not len(mine):
        return [f"There is no quote of {symbol_text(answer['symbol'])} in the input."]
    t_ns = int(facts.log.t_ns(np.array([index]))[0])
    fetched = _fetched_before(facts, where[mine], t_ns)
    seen = mine[fetched]
    if not len(seen):
        return []
    newest = int(seen[-1])
    place = place_of(where[newest])
    text = (
        f"Of {counted(len(seen), 'quote')} of {symbol_text(answer['symbol'])} fetched before it, "
        f"the newest is quote {quotes['id'][newest]} (offset {place.offset:,} of partition "
        f"{place.partition}, stream {place.stream}): {facts.journey(place, near)}."
    )
    found = [text]
    if int(answer["quote_id"]) == 0:
        found.append("The verdict names no quote at all.")
    return found


def _quotes(facts: Facts, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return all quotes as RECORD rows, and their PLACES."""
    records, places = [np.empty(0, RECORD)], [np.empty(0, PLACES)]
    numbers = [p.partition for p in facts.history.partitions if p.stream == 0]
    for partition, array in zip(numbers, facts.history.inputs(dtype, 0), strict=True):
        some = np.array(array).view(RECORD)
        at = np.flatnonzero(some["kind"] == QUOTE_KIND)
        records.append(some[at])
        places.append(np.zeros(len(at), PLACES))
        places[-1]["partition"], places[-1]["offset"] = partition, at
    return np.concatenate(records), np.concatenate(places)


def _fetched_before(facts: Facts, where: np.ndarray, t_ns: int) -> np.ndarray:
    """Return a mask of the records that were fetched before a time."""
    rows = facts.history.fetches
    rows = rows[rows["t_ns"] <= t_ns]
    found = np.zeros(len(where), bool)
    for partition in np.unique(where["partition"]).tolist():
        some = of_partition(rows, 0, partition)
        mine = where["partition"] == partition
        # "Published" of these rows is the reach of all fetches so far.
        reach = np.zeros(len(some), [("t_ns", "<i8"), ("end", "<u8")])
        reach["t_ns"], reach["end"] = some["t_ns"], np.maximum.accumulate(some["end"])
        found[mine] = publish_times(reach, where["offset"][mine]) <= t_ns
    return found


def _verdicts(facts: Facts, index: np.ndarray) -> np.ndarray:
    return np.array(facts.log.payloads[index]).view(ANSWER)
