"""Which output answers which input, and when an offset was fetched first: whole arrays."""

from __future__ import annotations

from typing import Final

import numpy as np

from tickproof.conformance.checkers.arrays import hash_records, mix, pieces
from tickproof.conformance.checkers.symbols import order_by

_NEVER: Final = -1
#: Words that are matched at once, about.
_PART: Final = 1 << 16
#: Offsets that are noted at once.
_PIECE: Final = 1 << 22


def payload_words(payloads: np.ndarray) -> np.ndarray:
    """Return a u64 for each payload; different payloads have different ones.

    Exact for up to 8 bytes; for longer ones up to a chance of n^2 / 2^65 for n payloads.
    """
    found = [hash_records(piece) for _, piece in pieces(payloads)]
    return np.concatenate([np.empty(0, np.uint64), *found])


def first_arrivals(asked: np.ndarray, came: np.ndarray, t_ns: np.ndarray) -> np.ndarray:
    """Return when each of the words ``asked`` (u64) came first (int64), -1: never.

    ``came`` arrived at ``t_ns``, in order. Where a word is asked for k times, the k-th of
    them gets its k-th arrival.
    """
    found = np.full(len(asked), _NEVER, np.int64)
    # In parts that fit into a cache, whatever the words are like.
    bits = min(16, max(1, len(asked) // _PART).bit_length() - 1)
    asked_order, asked_ends = _parts(asked, bits)
    came_order, came_ends = _parts(came, bits)
    for part in range(1 << bits):
        mine = asked_order[asked_ends[part] : asked_ends[part + 1]]
        its = came_order[came_ends[part] : came_ends[part + 1]]
        found[mine] = _first_arrivals(asked[mine], came[its], t_ns[its])
    return found


def _parts(words: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions by part, in each part in their order, and where the parts end."""
    codes = (mix(words) >> np.uint64(48)).astype(np.uint16) >> np.uint16(16 - bits)
    return np.argsort(codes, kind="stable"), _heads(codes, 1 << bits)


def _first_arrivals(asked: np.ndarray, came: np.ndarray, t_ns: np.ndarray) -> np.ndarray:
    if not len(asked) or not len(came):
        return np.full(len(asked), _NEVER, np.int64)
    order = np.argsort(asked)
    words = asked[order]
    again = words[1:][words[1:] == words[:-1]]
    if len(again):
        return _with_repeats(asked, came, t_ns, np.unique(again))
    by_word = np.argsort(came)
    came, t_ns = came[by_word], t_ns[by_word]
    heads = np.flatnonzero(np.concatenate(([True], came[1:] != came[:-1])))
    first, seen = np.minimum.reduceat(t_ns, heads), came[heads]
    place = np.minimum(np.searchsorted(seen, words), len(seen) - 1)
    found = np.empty(len(asked), np.int64)
    found[order] = np.where(seen[place] == words, first[place], _NEVER)
    return found


def _with_repeats(
    asked: np.ndarray, came: np.ndarray, t_ns: np.ndarray, repeated: np.ndarray
) -> np.ndarray:
    """Do as _first_arrivals, ``repeated`` (ascending) being the words asked for repeatedly."""
    here, there = np.isin(asked, repeated), np.isin(came, repeated)
    found = np.empty(len(asked), np.int64)
    found[~here] = _first_arrivals(asked[~here], came[~there], t_ns[~there])
    found[here] = _first_arrivals(
        _numbered(asked[here], repeated), _numbered(came[there], repeated), t_ns[there]
    )
    return found


def _numbered(words: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return u64 that tell a word, and the how manieth of its kind each one is."""
    codes = np.searchsorted(known, words)
    ranks = _ranks(codes, len(known))
    return codes.astype(np.uint64) << np.uint64(32) | ranks.astype(np.uint64)


def _ranks(codes: np.ndarray, count: int) -> np.ndarray:
    """Return for each code below ``count`` how many equal ones stand before it."""
    heads = _heads(codes, count)
    order = order_by(codes, count)
    found = np.empty(len(codes), np.int64)
    found[order] = np.arange(len(codes)) - heads[codes[order]]
    return found


def _heads(codes: np.ndarray, count: int) -> np.ndarray:
    """Return where each code begins once they are sorted, and at last their number."""
    return np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=count))))


def nth_arrivals(
    asked: np.ndarray, keys: np.ndarray, n: np.ndarray, t_ns: np.ndarray, *, every: bool
) -> np.ndarray:
    """Return when each input of app count was answered first (int64), -1: never.

    asked: the key of each input, of one key in log order. keys, n, t_ns: the outputs in
    order of arrival. every: an input is answered by an output of its own n, else by one of
    its own or a higher n.
    """
    found = np.full(len(asked), _NEVER, np.int64)
    if not len(asked) or not len(keys):
        return found
    ascending = np.sort(asked)
    known = ascending[np.concatenate(([True], ascending[1:] != ascending[:-1]))]
    codes = np.searchsorted(known, asked)
    heads = _heads(codes, len(known))
    # Sorted by key, input i of a key stands at the key's head + i: an output tells its place.
    out = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    fits = (known[out] == keys) & (n >= 1) & (n <= np.diff(heads)[out].astype(np.uint64))
    out, t_ns = out[fits], t_ns[fits]
    place = heads[out] + n[fits].astype(np.int64) - 1
    first = np.full(len(asked), _NEVER, np.int64)
    if every:
        # Backwards, because the last assignment to a repeated index is the one that stays.
        first[place[::-1]] = t_ns[::-1]
    elif len(place):
        by_key = order_by(out, len(known))
        covered = np.maximum.accumulate(place[by_key])
        which = np.minimum(np.searchsorted(covered, np.arange(len(asked))), len(covered) - 1)
        # What covers an input may be an output of a key further on: then its own has none.
        owner = np.repeat(np.arange(len(known)), np.diff(heads))
        own = (out[by_key][which] == owner) & (covered[which] >= np.arange(len(asked)))
        first = np.where(own, t_ns[by_key][which], _NEVER)
    found[order_by(codes, len(known))] = first
    return found


def first_covers(rows: np.ndarray, records: int) -> np.ndarray:
    """Return when each offset below ``records`` was fetched first (int64), -1: never.

    ``rows``: FETCH rows of one partition in time order. They may leave gaps, and come back.
    """
    found = np.full(records, _NEVER, np.int64)
    if not len(rows):
        return found
    base = np.minimum(rows["base"], records).astype(np.int64)
    sizes = np.maximum(np.minimum(rows["end"], records).astype(np.int64) - base, 0)
    ends = np.cumsum(sizes)
    cuts = np.unique(np.searchsorted(ends, np.arange(0, int(ends[-1]) + 1, _PIECE), "right"))
    # Backwards, so that the earliest stays; a bounded number of offsets at a time.
    for start, end in reversed(list(zip(cuts, [*cuts[1:], len(rows)], strict=True))):
        size = sizes[start:end]
        heads = np.cumsum(size) - size
        offsets = np.repeat(base[start:end] - heads, size) + np.arange(int(size.sum()))
        found[offsets[::-1]] = np.repeat(rows["t_ns"][start:end], size)[::-1]
    return found
