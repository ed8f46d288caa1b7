"""JSON lines: written one at a time from many threads, read back without a torn end."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from tickproof.conformance.history import plain_files

#: The most values and lines that are read at once: each takes up to a hundred bytes.
MAX_VALUES: Final = 4_000_000
_SEPARATORS: Final = (b",", b":", b"[", b"{", b"\n")


class LineFile:
    """Thread-safe writer of a JSON-lines file; each line is on its way to disk at once."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._lock = threading.Lock()
        self._hash = hashlib.sha256()
        #: What stopped the recording (a full disk, say), None while all is well.
        self.failure: OSError | None = None

    def write(self, row: dict[str, Any]) -> None:
        """Write one line; nothing happens after a failure or when closed."""
        line = json.dumps(row, separators=(",", ":")) + "\n"
        with self._lock:
            if self._file.closed or self.failure is not None:
                return
            try:
                self._file.write(line)
            except OSError as error:
                self.failure = error
            else:
                self._hash.update(line.encode())

    @property
    def sha256(self) -> str:
        """Digest of all lines, as hexadecimal digits."""
        with self._lock:
            return self._hash.hexdigest()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            try:
                self._file.close()
            except OSError as error:  # what a full disk did not take is tried once more
                self.failure = self.failure or error


class Tail:
    """The lines that are added to an open file; a line above ``longest`` bytes is dropped."""

    def __init__(self, file: BinaryIO, longest: int = 1 << 20) -> None:
        self._file, self._longest, self._torn = file, longest, b""

    def __iter__(self) -> Iterator[list[bytes]]:
        """Yield the complete lines since the last look, some at a time."""
        while data := self._file.read(self._longest):
            *lines, self._torn = (self._torn + data).split(b"\n")
            if len(self._torn) > self._longest:
                self._torn = b""
            yield lines


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON-lines file; a torn last line is left out."""
    try:
        content = plain_files.read_bytes(path.parent, path.name)
    except FileNotFoundError:
        return []
    return parsed(content, path.name)


def loads(text: str | bytes) -> Any:
    """Return a value of JSON; raises ValueError, also for NaN and numbers beyond 64 bits.

    Nor may it hold more than MAX_VALUES values.
    """
    _require_few(text)
    try:
        return json.loads(text, parse_constant=_refuse, parse_int=_whole, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _require_few(text: str | bytes) -> None:
    """Raise ValueError for more values than memory has room for; marks in strings count, too."""
    if len(text) <= MAX_VALUES:
        return
    content = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    if sum(map(content.count, _SEPARATORS)) > MAX_VALUES:
        raise ValueError(f"expected at most {MAX_VALUES:,} values and lines")


def object_of(line: str) -> dict[str, Any]:
    """Return the object on a control line, an empty one if there is none; numbers of any size."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text[:20]}: expected a finite number of at most 64 bits")


def _whole(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= (number := int(text)) < 2**64:
        _refuse(text)
    return number


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        _refuse(text)
    return number


def parsed(content: bytes, name: str) -> list[dict[str, Any]]:
    """Return the objects of JSON lines; raises ValueError with ``name`` and the line."""
    rows = []
    try:
        _require_few(content)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        if len(line) > plain_files.MAX_DOCUMENT:
            raise ValueError(
                f"{name}, line {number}: expected at most {plain_files.MAX_DOCUMENT:,} bytes"
            )
        try:
            row = loads(line.decode("utf-8", "replace"))
        except ValueError as error:
            if number == len(lines):
                break
            raise ValueError(f"{name}, line {number}: not JSON ({error})") from error
        if not isinstance(row, dict):
            raise ValueError(f"{name}, line {number}: expected an object")
        rows.append(row)
    return rows
