"""Exact decimal text to scaled integers, a whole column at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tickproof.generators.csv_table import Fields

#: Longest number that is read; a longer one is bad.
MAX_CHARS: Final = 64
_TOP: Final = (2**64 - 1) // 10


@dataclass(frozen=True)
class Decimals:
    """Parsed column: value = round-half-even(|text| * 10**decimals), as uint64.

    bad: not a plain decimal number. huge: beyond 2**64 - 1. inexact: rounding changed
    it. Where bad or huge, the value means nothing.
    """

    value: np.ndarray
    negative: np.ndarray
    bad: np.ndarray
    huge: np.ndarray
    inexact: np.ndarray


def parse(fields: Fields, decimals: int) -> Decimals:
    """Parse ``[+-]digits[.digits]``; with 0 decimals a point is bad."""
    n = len(fields.starts)
    value, huge = np.zeros(n, np.uint64), np.zeros(n, bool)
    point, digits = np.zeros(n, bool), np.zeros(n, np.int64)
    places, next_digit = np.zeros(n, np.int64), np.zeros(n, np.uint8)
    sticky = np.zeros(n, bool)
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
        point |= is_point
        digits += is_digit
        places += is_digit & point
        take = is_digit & (places <= decimals)
        huge |= take & ((value > _TOP) | ((value == _TOP) & (digit > 5)))
        np.copyto(value, value * 10 + digit, where=take)
        np.copyto(next_digit, digit, where=is_digit & (places == decimals + 1))
        sticky |= is_digit & (places > decimals + 1) & (digit != 0)
    bad |= digits == 0
    power = np.uint64(10) ** (decimals - np.minimum(places, decimals)).astype(np.uint64)
    huge |= value > np.uint64(2**64 - 1) // power
    value *= power
    up = (next_digit > 5) | ((next_digit == 5) & (sticky | (value % 2 == 1)))
    huge |= up & (value == 2**64 - 1)
    value += up
    return Decimals(value, sign & (first == ord("-")), bad, huge, (next_digit > 0) | sticky)
