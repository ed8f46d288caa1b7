"""Runs made by hand, with as much in them as the figures of a bench need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tickproof.conformance.history.events import Drained
from tickproof.conformance.scenario import App, Scenario
from tickproof.conformance.testing.run_folder import RunFolder, given_input
from tickproof.generators.layouts import opaque


@dataclass
class Moves:
    """How the partitions of a run moved, in nanoseconds and records.

    records: of each partition. fetched: (t, partition, base, end). released: (t, partition,
    offset). drained: when drain was answered.
    """

    records: list[int]
    fetched: list[tuple[int, int, int, int]]
    released: list[tuple[int, int, int]]
    drained: int | None

    def run(
        self, folder: Path, app: App = "passthrough", inputs: Mapping[int, np.ndarray] | None = None
    ) -> RunFolder:
        """Write a run that moved so; ``inputs``: partition -> payloads, of zeros if not given."""
        given = inputs or {p: np.zeros(n, opaque(52)) for p, n in enumerate(self.records)}
        parts = {(0, partition): payloads for partition, payloads in given.items()}
        run = RunFolder(folder, Scenario("made", app, {}, {}), make_input=given_input(parts))
        run.tables(
            fetches=[(t, 0, *row) for t, *row in self.fetched],
            releases=[(t, 0, *row) for t, *row in self.released],
        )
        if self.drained is not None:
            run.events(
                Drained(
                    t_ns=self.drained,
                    open_acknowledgements=0,
                    staged_open=0,
                    outputs=0,
                    ended=True,
                    partitions=(),
                )
            )
        return run
