"""Wrong verdicts of Market Spread: which quote was named, which was due, when that was fetched."""

from __future__ import annotations

import numpy as np

from tickproof.conformance.checkers.expected import find
from tickproof.conformance.checkers.market_rule import ANSWER, RECORD, show_answer, symbol_text
from tickproof.conformance.checkers.timeline import publish_times
from tickproof.conformance.explain.facts import Facts, counted
from tickproof.conformance.explain.recovery import Aftermath
from tickproof.conformance.explain.relations import places, relations
from tickproof.conformance.history.rows import of_partition
from tickproof.generators.layouts import MESSAGE, QUOTE, QUOTE_KIND

__all__ = ["said", "tell"]


def said(facts: Facts, index: int) -> str:
    """Say what a wrong verdict holds, and what was due."""
    m = facts.matching
    text = show_answer(_answers(facts, np.array([index]))[0])
    if m is None or m.due is None or m.answers[index] < 0:
        return f"{text}; there is no such order in the input."
    due = m.due[m.answers[index]]
    if not m.owed[m.answers[index]]:
        return f"{text}; due was no output, because {show_answer(due)}."
    return f"{text}; due was {show_answer(due)}."


def tell(facts: Facts, index: int, near: Aftermath | None) -> list[str]:
    """Say what became of the quote that was due, and what the wrong verdicts share."""
    m = facts.matching
    if m is None:
        return []
    if facts.history.params["inputs"] == "two":
        return _newest(facts, index, near)
    if m.due is None or m.answers[index] < 0:
        return []
    due = m.due[m.answers[index]]
    quotes, where = _quotes(facts, MESSAGE)
    found = []
    hit = np.flatnonzero(quotes["id"] == due["quote_id"]) if int(due["quote_id"]) else []
    if len(hit):
        place = tuple(where[hit[0]].tolist())
        found.append(
            f"Quote {due['quote_id']}, which was due, is offset {place[2]:,} of partition "
            f"{place[1]}: {facts.journey(place, near)}."
        )
    return found + _shared(facts, quotes, where, near)


def _shared(
    facts: Facts, quotes: np.ndarray, where: np.ndarray, near: Aftermath | None
) -> list[str]:
    """Say what all wrong verdicts on merged input have in common about their quotes."""
    m = facts.matching
    assert m is not None and m.due is not None
    wrong = np.flatnonzero(m.wrong & (m.answers >= 0))
    came, due = _answers(facts, wrong), m.due[m.answers[wrong]]
    other = came["quote_id"] != due["quote_id"]
    named = int(((came["quote_id"] == 0) & other).sum())
    if not other.all():
        if other.any():
            return []
        text = "All wrong verdicts name the quote that was due"
        bad = [f for f in ("symbol", "bid", "offer") if (came[f] != due[f]).all()]
        rule = all((came[f] == due[f]).all() for f in ("symbol", "bid", "offer"))
        if rule:
            return [f"{text}, with its prices: only the decision is wrong."]
        return [f"{text}, but not its {' and '.join(bad)}." if bad else f"{text}."]
    if not len(quotes):
        return ["All wrong verdicts name another quote than the latest."]
    at = _find(quotes["id"], due["quote_id"])
    missed = where[np.maximum(at, 0)]
    number = len(wrong)
    if named == number:
        text = f"All wrong verdicts ({number:,}) name no quote"
    else:
        earlier = _earlier(_find(quotes["id"], came["quote_id"]), where, missed)
        which = "an earlier quote" if (earlier | (came["quote_id"] == 0)).all() else "another quote"
        none = f", {named:,} of them none" if named else ""
        text = f"All wrong verdicts ({number:,}) name {which} than the latest{none}"
    if (at < 0).any():
        return [f"{text}."]
    if _one_reply(facts, places(facts, m.answers[wrong]), missed):
        return [
            f"{text}; each of these orders came in the same FETCH reply as the quote that was due, "
            f"behind it ({number:,} of {number:,}): as if the orders of a reply were judged before "
            "its quotes."
        ]
    if near is None:
        return [f"{text}."]
    shares = relations(facts, missed, near)
    if shares["left"] + shares["given-up"] == len(missed):
        return [
            f"{text}, and each quote that was due had been fetched before {facts.name(near)} and "
            "not again: the quotes from before it were not restored."
        ]
    return [f"{text}."]


def _find(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return where each wanted id stands in ``ids``, -1 for nowhere."""
    order = np.argsort(ids, kind="stable")
    at, known = find(ids[order], wanted)
    return np.where(known, order[at], -1)


def _earlier(at: np.ndarray, where: np.ndarray, due: np.ndarray) -> np.ndarray:
    """Return which named quotes, by their place in ``where``, stand before the due ones."""
    came = where[np.maximum(at, 0)]
    return (at >= 0) & (came[:, :2] == due[:, :2]).all(axis=1) & (came[:, 2] < due[:, 2])


def _one_reply(facts: Facts, orders: np.ndarray, quotes: np.ndarray) -> bool:
    """Whether each order was first fetched in a reply that held its quote, too."""
    for partition in np.unique(orders[:, 1]).tolist():
        mine = orders[:, 1] == partition
        if (quotes[mine, 1] != partition).any():
            return False
        rows = of_partition(facts.history.fetches, 0, partition)
        reach = np.maximum.accumulate(rows["end"].astype(np.int64))
        first = np.searchsorted(reach, orders[mine, 2], side="right")
        if len(first) and first.max() >= len(rows):
            return False
        if (rows["base"][first].astype(np.int64) > quotes[mine, 2]).any():
            return False
    return True


def _newest(facts: Facts, index: int, near: Aftermath | None) -> list[str]:
    """On two streams: name the newest quote of the symbol that was fetched before an output."""
    answer = _answers(facts, np.array([index]))[0]
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
    place = tuple(where[newest].tolist())
    text = (
        f"Of {counted(len(seen), 'quote')} of {symbol_text(answer['symbol'])} fetched before it, "
        f"the newest is quote {quotes['id'][newest]} (offset {place[2]:,} of partition "
        f"{place[1]}, stream {place[0]}): {facts.journey(place, near)}."
    )
    found = [text]
    if int(answer["quote_id"]) == 0:
        found.append("The verdict names no quote at all.")
    return found


def _quotes(facts: Facts, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return all quotes as RECORD rows, and (stream, partition, offset) of each."""
    records, places = [np.empty(0, RECORD)], [np.empty((0, 3), np.int64)]
    numbers = [p["partition"] for p in facts.history.partitions if p["stream"] == 0]
    for partition, array in zip(numbers, facts.history.inputs(dtype, 0), strict=True):
        some = np.array(array).view(RECORD)
        at = np.flatnonzero(some["kind"] == QUOTE_KIND)
        records.append(some[at])
        place = np.stack([np.zeros(len(at), np.int64), np.full(len(at), partition), at], axis=1)
        places.append(place)
    return np.concatenate(records), np.concatenate(places)


def _fetched_before(facts: Facts, where: np.ndarray, t_ns: int) -> np.ndarray:
    """Return a mask of the records that were fetched before a time."""
    rows = facts.history.fetches
    rows = rows[rows["t_ns"] <= t_ns]
    found = np.zeros(len(where), bool)
    for partition in np.unique(where[:, 1]).tolist():
        some = rows[(rows["stream"] == 0) & (rows["partition"] == partition)]
        mine = where[:, 1] == partition
        # "Published" of these rows is the reach of all fetches so far.
        reach = np.zeros(len(some), [("t_ns", "<i8"), ("end", "<u8")])
        reach["t_ns"], reach["end"] = some["t_ns"], np.maximum.accumulate(some["end"])
        found[mine] = publish_times(reach, where[mine, 2]) <= t_ns
    return found


def _answers(facts: Facts, index: np.ndarray) -> np.ndarray:
    return np.array(facts.log.payloads[index]).view(ANSWER)
