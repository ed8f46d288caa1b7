"""Damage to bytes and to values of JSON, drawn from a seed."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, Final

_INTERESTING: Final = (
    b"", b"\0", b"\xff" * 4, b"\r", b"\n", b"\r\n", b'"', b"{", b"[" * 300, b"\\ud800", b"1e999",
    b"-1", b"NaN", b"9" * 40, b"\xed\xa0\x80", b"=", b".", b",", b"'''", b"\xef\xbb\xbf",
)  # fmt: skip
_VALUES: Final = (
    None, True, -1, 0, 2**31, 2**63, 2**64, 10**40, 1.5, float("nan"), float("inf"), "", "x",
    "\ud800", "../../etc/passwd", "/etc/passwd", "a\0b", "9" * 5000, [], {}, [[]], [None], {"": 1},
    [{}], {"a": [{}]},
)  # fmt: skip


def damaged(draw: random.Random, data: bytes, others: tuple[bytes, ...] = ()) -> bytes:
    """Return the bytes after one to four cuts, repetitions, insertions or changes."""
    for _ in range(draw.randint(1, 4)):
        at, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
        match draw.randrange(6):
            case 0:
                data = data[:at] + data[end:]
            case 1:
                data = data[:end] + data[at:end] + data[end:]
            case 2:
                data = data[:at] + draw.choice(_INTERESTING) + data[at:]
            case 3:
                data = data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
            case 4:
                data = data[:at] + draw.randbytes(draw.randint(1, 8)) + data[at:]
            case 5:
                other = draw.choice(others) if others else data
                data = data[:at] + other[draw.randrange(len(other) + 1) :]
    return data


def twisted(draw: random.Random, value: Any) -> Any:
    """Return a copy of a value of JSON in which something is of another kind, or is gone."""
    root = [copy.deepcopy(value)]
    for _ in range(draw.randint(1, 2)):
        places = list(_places(root))
        holder, key = draw.choice(places)
        if isinstance(holder, dict) and draw.random() < 0.2:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(draw.choice(_VALUES))
    return root[0] if root else {}


def _places(holder: Any) -> Any:
    keys = holder if isinstance(holder, dict) else range(len(holder))
    for key in keys:
        yield holder, key
        if isinstance(holder[key], dict | list):
            yield from _places(holder[key])


def deep(draw: random.Random, opening: bytes) -> bytes:
    """Return a text that is nested far deeper than a parser likes."""
    return opening * draw.choice((50, 1_000, 100_000))


Draw = Callable[[random.Random], Any]
