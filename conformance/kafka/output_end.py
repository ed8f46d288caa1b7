"""Compare how far output was recorded with its end on the broker."""

from __future__ import annotations

import time
from typing import Final

from tickproof.conformance.errors import KitStopped

#: A recorder that is behind and takes nothing for this long has failed.
STALLED_S: Final = 60.0


class OutputEnd:
    """Positions of the recorder in the partitions of the output topic, and their ends.

    The recorder says how far it has read, somebody else asks the broker for the ends.
    """

    def __init__(self, partitions: int) -> None:
        self._read = [0] * partitions
        self._taken = 0
        self._last = self._stable = [0] * partitions
        self._caught_up_at = 0.0
        self._position, self._moved_at = -1, 0.0

    def read(self, partition: int, offset: int, messages: int = 0) -> None:
        """Take note that a partition is recorded up to ``offset``, with that many messages more."""
        self._taken += messages
        self._read[partition] = max(self._read[partition], offset)

    def found(self, asked_at: float, stable: list[int], last: list[int]) -> None:
        """Take the ends that the broker gave when asked at a time (time.monotonic).

        stable: of what is committed; last: of all there is. Raises KitStopped for a recorder that
        stands still before the end.
        """
        self._stable, self._last = stable, last
        position = sum(self._read)
        if not self.behind:
            self._caught_up_at = asked_at
        if position != self._position or not self.behind:
            self._position, self._moved_at = position, time.monotonic()
        elif time.monotonic() > self._moved_at + STALLED_S:
            raise KitStopped(
                f"the recorder of output stands at {position:,} of {sum(stable):,} offsets, and "
                f"has read nothing for {STALLED_S:g} s"
            )

    @property
    def behind(self) -> bool:
        """True if committed output is left to record, as far as the broker was asked."""
        return any(end > read for end, read in zip(self._stable, self._read, strict=True))

    @property
    def hidden(self) -> bool:
        """True if an open transaction hides output from those who read what is committed."""
        return self._stable != self._last

    def caught_up(self, since: float) -> bool:
        """Return True if all that was committed at a time (time.monotonic) is recorded."""
        return self._caught_up_at >= since

    def expect_all(self) -> None:
        """Raise KitStopped if messages are missing that no transaction can have kept back.

        Without transactions each offset is a message.
        """
        if self._taken != sum(self._last):
            raise KitStopped(
                f"{sum(self._last):,} messages of output were produced without transactions; "
                f"{self._taken:,} were recorded"
            )
