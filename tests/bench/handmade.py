"""Histories made by hand, with as much in them as the figures of a bench need."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tickproof.conformance.history.events import Drained, Event
from tickproof.conformance.history.rows import FETCH, RELEASE


@dataclass
class Made:
    """Stands for a History.

    fetched: (t, partition, base, end). released: (t, partition, offset).
    """

    records: list[int]
    fetched: list[tuple[int, int, int, int]]
    released: list[tuple[int, int, int]]
    drained: int | None
    folder: Path = Path("made")
    cache: dict[str, Any] = field(default_factory=dict)

    @property
    def partitions(self) -> list[dict[str, Any]]:
        return [
            {"stream": 0, "partition": p, "records": n, "record_size": 52}
            for p, n in enumerate(self.records)
        ]  # fmt: skip

    @property
    def input_records(self) -> int:
        return sum(self.records)

    @property
    def fetches(self) -> np.ndarray:
        return np.array([(t, 0, p, base, end) for t, p, base, end in self.fetched], FETCH)

    @property
    def releases(self) -> np.ndarray:
        return np.array([(t, 0, p, offset) for t, p, offset in self.released], RELEASE)

    def all(self, kind: type[Event]) -> list[Event]:
        assert kind is Drained
        return [] if self.drained is None else [Event(t_ns=self.drained)]
