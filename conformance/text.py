"""Text from an engine, made safe for a terminal and a report."""

from __future__ import annotations


def shown(text: str, limit: int) -> str:
    """Return ``text`` on one line, at most ``limit`` (>= 1) characters, nothing unprintable.

    Control characters, ANSI sequences, bidirectional overrides and lone surrogates come
    out as Python escapes. What was cut off is marked by an ellipsis.
    """
    pieces: list[str] = []
    room = limit
    for char in text:
        piece = char if char.isprintable() else _escaped(char)
        if len(piece) > room:
            return _cut(pieces, limit)
        pieces.append(piece)
        room -= len(piece)
    return "".join(pieces)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _cut(pieces: list[str], limit: int) -> str:
    """Drop whole pieces from the end until the ellipsis fits: half an escape misleads."""
    length = sum(map(len, pieces))
    while pieces and length > limit - 1:
        length -= len(pieces.pop())
    return "".join(pieces) + "…"
