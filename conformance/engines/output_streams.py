"""An engine's output streams, bounded: lines of stdout, the file of stderr."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

#: A longer control line is a protocol failure.
MAX_LINE = 1 << 20
#: So much of an overlong line is kept to be quoted.
QUOTED = 4096
#: So much standard error is kept of a run.
MAX_STDERR = 64 << 20
TAIL_LINES = 32
#: Stands in place of a secret.
MASKED = b"***"

_TAIL_BYTES = 64 << 10


class LineSplitter:
    """Cuts chunks into lines and never holds more than ``limit`` bytes and one chunk."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._held = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield (line without its newline, overlong); of an overlong line, its start."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            yield from self._grow(piece)
            if not self._skipping:
                yield bytes(self._held), False
            self._held.clear()
            self._skipping = False
        yield from self._grow(rest)

    def _grow(self, piece: bytes) -> Iterator[tuple[bytes, bool]]:
        if self._skipping:
            return
        self._held += piece
        if len(self._held) > self._limit:
            yield bytes(self._held[:QUOTED]), True
            self._held.clear()
            self._skipping = True

    def rest(self) -> bytes:
        """Return what came after the last newline."""
        return bytes(self._held)


class Mask:
    """Replaces a secret in a stream of chunks, which may cut it anywhere."""

    def __init__(self, secret: str = "") -> None:
        self._secret = secret.encode()
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return what may be shown; a chunk may end with the beginning of the secret."""
        if not self._secret:
            return chunk
        shown = (self._held + chunk).replace(self._secret, MASKED)
        begun = next(
            (n for n in range(len(self._secret) - 1, 0, -1) if shown.endswith(self._secret[:n])), 0
        )
        self._held = shown[len(shown) - begun :]
        return shown[: len(shown) - begun]

    def rest(self) -> bytes:
        """Return what was held back at the end."""
        held, self._held = self._held, b""
        return held


class StderrLog:
    """Appends to ``path`` up to ``limit`` bytes in all, then says so once and drops.

    secret: is shown as MASKED.
    """

    def __init__(self, path: Path, limit: int = MAX_STDERR, secret: str = "") -> None:
        self._file = path.open("ab", buffering=0)
        self._mask = Mask(secret)
        self._limit = limit
        self._size = self._file.tell()
        self._tail = b""

    def write(self, chunk: bytes) -> None:
        """Keep a chunk; raises OSError when the disk is full."""
        self._keep(self._mask.feed(chunk))

    def _keep(self, chunk: bytes) -> None:
        self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
        room = self._limit - self._size
        # A restarted engine appends to the same file: full before is full now, said already.
        if room <= 0:
            return
        self._size += len(chunk)
        self._file.write(chunk[:room])
        if len(chunk) >= room:
            self._file.write(f"\n[the rest is dropped: more than {self._limit} bytes]\n".encode())

    def tail(self) -> tuple[str, ...]:
        """Return the last lines written, oldest first, not escaped."""
        lines = self._tail.decode("utf-8", "backslashreplace").splitlines()
        return tuple(lines[-TAIL_LINES:])

    def close(self) -> None:
        """Close the file; raises OSError when the disk is full."""
        try:
            self._keep(self._mask.rest())
        finally:
            self._file.close()
