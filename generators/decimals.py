"""Exact decimal text to scaled integers, a whole column at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tickproof.generators.csv_table import Fields

#: Longest number that is read; a longer one is bad.
MAX_CHARS: Final = 64
#: A larger exponent makes zero of every number, or is beyond 64 bits.
_MOST_EXPONENT: Final = 100
_TOP: Final = (2**64 - 1) // 10


@dataclass(frozen=True)
class Decimals:
    """Parsed column: value = round-half-even(|text| * 10**decimals), as uint64.

    bad: not a decimal number. huge: beyond 2**64 - 1. places: decimal places of the number,
    without zeros at the end; more than ``decimals``: rounding changed the value. Where bad or
    huge, the value means nothing.
    """

    value: np.ndarray
    negative: np.ndarray
    bad: np.ndarray
    huge: np.ndarray
    places: np.ndarray


def parse(fields: Fields, decimals: int) -> Decimals:
    """Parse ``[+-]digits[.digits][e[+-]digits]``; with 0 decimals a point or an e is bad."""
    n = len(fields.starts)
    value, huge = np.zeros(n, np.uint64), np.zeros(n, bool)
    point, digits, scientific = np.zeros(n, bool), np.zeros(n, np.int64), np.zeros(n, bool)
    places, next_digit = np.zeros(n, np.int64), np.zeros(n, np.uint8)
    sticky, last = np.zeros(n, bool), np.zeros(n, np.int64)
    first = fields.data[fields.starts]
    sign = (fields.lengths > 0) & ((first == ord("-")) | (first == ord("+")))
    bad = fields.lengths > MAX_CHARS
    longest = int(min(fields.lengths.max(initial=0), MAX_CHARS))
    for at in range(longest):
        inside = at < fields.lengths
        char = fields.data[np.where(inside, fields.starts + at, 0)]
        digit = char - np.uint8(ord("0"))
        is_digit = inside & (digit < 10)
        is_point = inside & (char == ord("."))
        good = is_digit | (is_point & ~point & (decimals > 0)) | (sign & (at == 0))
        bad |= inside & ~good
        scientific |= inside & ((char == ord("e")) | (char == ord("E")))
        point |= is_point
        digits += is_digit
        places += is_digit & point
        take = is_digit & (places <= decimals)
        huge |= take & ((value > _TOP) | ((value == _TOP) & (digit > 5)))
        np.copyto(value, value * 10 + digit, where=take)
        np.copyto(next_digit, digit, where=is_digit & (places == decimals + 1))
        sticky |= is_digit & (places > decimals + 1) & (digit != 0)
        np.copyto(last, places, where=is_digit & (digit != 0))
    bad |= digits == 0
    power = np.uint64(10) ** (decimals - np.minimum(places, decimals)).astype(np.uint64)
    huge |= value > np.uint64(2**64 - 1) // power
    value *= power
    up = (next_digit > 5) | ((next_digit == 5) & (sticky | (value % 2 == 1)))
    huge |= up & (value == 2**64 - 1)
    value += up
    found = Decimals(value, sign & (first == ord("-")), bad, huge, last)
    rows = np.flatnonzero(scientific & (fields.lengths <= MAX_CHARS))
    if len(rows) and decimals:
        _put_scientific(found, fields.of_rows(rows), rows, decimals)
    return found


def _put_scientific(found: Decimals, fields: Fields, rows: np.ndarray, decimals: int) -> None:
    """Parse fields that hold an e, and put what they are into ``rows`` of a column."""
    head, tail = fields.split(b"eE")
    exponent = parse(tail, 0)
    # An integer and a power of ten: as many decimals as the longest needs.
    shift = int(parse(head, 1).places.max())
    number = parse(head, max(shift, 1))
    beyond = exponent.huge | (exponent.value > _MOST_EXPONENT)
    power = np.where(beyond, _MOST_EXPONENT, exponent.value).astype(np.int64)
    power = np.where(exponent.negative, -power, power)
    value, huge = _scaled(number.value, power + (decimals - max(shift, 1)))
    found.value[rows] = value
    found.huge[rows] = huge | number.huge
    found.bad[rows] = number.bad | exponent.bad
    found.places[rows] = np.where(number.value == 0, 0, np.maximum(number.places - power, 0))


def _scaled(value: np.ndarray, power: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return round-half-even(value * 10**power) as uint64, and a mask of those that do not fit."""
    up = np.uint64(10) ** np.clip(power, 0, 19).astype(np.uint64)
    huge = (value > 0) & ((power > 19) | (value > np.uint64(2**64 - 1) // up))
    down = np.uint64(10) ** np.clip(-power, 0, 19).astype(np.uint64)
    whole, rest = np.divmod(value, down)
    half = down - rest
    whole += (rest > half) | ((rest == half) & (whole % 2 == 1) & (down > 1))
    return np.where(power < -19, 0, whole * up), huge
