"""Text from an engine: made safe for a terminal and a report, stack traces cut short."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

#: Uncaught errors of Python and of Java's threads, panics of Go and Rust, errors of Node.
_ERROR: Final = re.compile(
    r"([\w.$]*(Error|Exception|Interrupt)\b.*: .|Exception in thread .*: .|panic: .|"
    r"thread .* panicked at .|Caused by: .)"
)
#: The innermost frame of a trace: where it is, and its line of code.
_KEPT: Final = 2
#: Lines of a block that may come again and again: a message with what is left of its trace.
_LONGEST_BLOCK: Final = 6
_BLANKS: Final = (" ", "\t", "\\t")  # the last one: a tab that was made safe to print


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


def middle_cut(text: str, limit: int) -> str:
    """Return ``text`` in at most ``limit`` (>= 1) characters; an ellipsis stands for its middle.

    Two thirds are kept of the end, which tells paths apart.
    """
    if len(text) <= limit:
        return text
    tail = (limit - 1) * 2 // 3
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def command_line(*words: object, **options: object) -> str:
    """Return a command of the kit as text to paste into a shell.

    An option that is None, False or empty is left out; True is a flag, a list several options.
    """
    line = ["tickproof", *map(str, words)]
    for name, given in options.items():
        for one in given if isinstance(given, list | tuple) else [given]:
            if one is True:
                line.append(f"--{name}")
            elif one is not None and one is not False and one != "":
                line += [f"--{name}", str(one)]
    return shlex.join(line)


def say(text: str) -> None:
    """Print a line of the kit on standard error, before there is any other output."""
    print(f"tickproof: {text}", file=sys.stderr, flush=True)


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return "1 record", "2 records"; ``nouns``: the plural, where it is no plain "s"."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def told_apart(names: Sequence[str], sources: Sequence[object]) -> tuple[list[str], str]:
    """Number the names that occur twice; return all, and a sentence on what each number is.

    sources: the file or folder behind each name. The sentence is "" if no name occurs twice.
    """
    often, seen = Counter(names), Counter[str]()
    found, said = [], []
    for name, source in zip(names, sources, strict=True):
        seen[name] += 1
        found.append(f"{name} #{seen[name]}" if often[name] > 1 else name)
        if often[name] > 1:
            said.append(f"{found[-1]} is {source}")
    return found, "; ".join(said)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _cut(pieces: list[str], limit: int) -> str:
    """Drop whole pieces from the end until the ellipsis fits: half an escape misleads."""
    length = sum(map(len, pieces))
    while pieces and length > limit - 1:
        length -= len(pieces.pop())
    return "".join(pieces) + "…"


def shortened(lines: Iterable[str]) -> list[str]:
    """Return lines of standard error with all frames but the last taken out of each trace.

    A trace is a run of indented lines, as in Python, Java and Rust. What stands around it
    stays: with its last frame and the error below it, a trace keeps three lines. What comes
    several times in a row is there once.
    """
    found: list[str] = []
    marked = (line for line in lines if not line.strip() or line.strip(" ^~"))
    for inside, run in groupby(marked, key=lambda line: line.startswith(_BLANKS)):
        some = list(run)
        if inside and len(some) > _KEPT + 1:
            found.append(f"  ... {len(some) - _KEPT} lines of the trace left out")
            some = some[-_KEPT:]
        found += some
    return list(_once(found))


def _once(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines with each block of them that comes again and again told once."""
    at = 0
    while at < len(lines):
        for size in range(1, _LONGEST_BLOCK + 1):
            block, times = lines[at : at + size], 1
            while lines[at + times * size : at + (times + 1) * size] == block:
                times += 1
            if times > 1:
                yield from (*block, f"  ... {times} times")
                at += times * size
                break
        else:
            yield lines[at]
            at += 1


def error_line(lines: Sequence[str]) -> str:
    """Return the line of standard error that says why a process ended, "" for none.

    That is the last one that names an error, as runtimes do where one is not caught.
    """
    return next((line.strip() for line in reversed(lines) if _ERROR.match(line)), "")
