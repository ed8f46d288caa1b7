"""The publisher by time, as the log server sees it."""

from __future__ import annotations

from typing import Final, Protocol


class Clock(Protocol):
    """A publisher by time: publisher.Publisher, open_loop.OpenLoop."""

    @property
    def due_ns(self) -> int | None:
        """Time at which something is due next (monotonic), None while nothing is."""

    def prepare(self) -> None:
        """Prepare the calling thread, in which `publish_due` will be called; raises OSError."""

    def publish_due(self) -> None:
        """Publish what is due now."""


class NoClock:
    """Nothing is ever due: somebody else publishes."""

    due_ns: Final = None

    def prepare(self) -> None:
        """Nothing to prepare."""

    def publish_due(self) -> None:
        """Nothing to publish."""
