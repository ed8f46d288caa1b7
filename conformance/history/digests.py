"""SHA-256 of what is recorded, kept while it is written: what changes later does not pass."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

#: Bytes that are hashed at once.
BLOCK: Final = 1 << 20
#: Blocks that may wait to be hashed: who writes faster for long waits for them.
WAITING: Final = 16


class BlockDigest:
    """The digest of a long file: whole blocks are hashed in a thread beside the writer."""

    def __init__(self) -> None:
        self._hash = self._kept = hashlib.sha256()
        self._block = bytearray()
        self._waiting: deque[Future[None]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="digest")

    def update(self, data: bytes | memoryview) -> None:
        """Add what was written."""
        self._block += data
        if len(self._block) >= BLOCK:
            self._hash_block()

    def mark(self) -> None:
        """Remember what was added so far, for `go_back`."""
        self._hash_block()
        self._in_turn(self._keep)

    def go_back(self) -> None:
        """Forget what was added since the last `mark`."""
        self._block = bytearray()
        self._in_turn(self._restore)

    def _hash_block(self) -> None:
        block, self._block = self._block, bytearray()
        if len(block) >= BLOCK:
            self._submit(lambda: self._hash.update(block))
        elif block:
            self._in_turn(lambda: self._hash.update(block))

    def _keep(self) -> None:
        self._kept = self._hash.copy()

    def _restore(self) -> None:
        self._hash = self._kept.copy()

    def _in_turn(self, work: Callable[[], None]) -> None:
        """Do what takes no time: at once, or in the thread after what waits there."""
        if self._waiting and not self._waiting[-1].done():
            self._submit(work)
        else:
            work()

    def _submit(self, work: Callable[[], None]) -> None:
        self._waiting.append(self._thread.submit(work))
        while len(self._waiting) > WAITING or (self._waiting and self._waiting[0].done()):
            self._waiting.popleft().result()

    def hexdigest(self) -> str:
        """Return the digest of all that was added."""
        for waiting in self._waiting:
            waiting.result()
        self._waiting.clear()
        whole = self._hash.copy()
        whole.update(self._block)
        return whole.hexdigest()

    def close(self) -> None:
        """End the thread; `hexdigest` may still be asked."""
        self._thread.shutdown()
