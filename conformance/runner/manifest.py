"""run.json: what was asked for, what the input was, how the run ended."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tickproof.conformance import __version__
from tickproof.conformance.engines.process import ProcessInfo
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.history import seal
from tickproof.conformance.history.folder import FORMAT, write_json
from tickproof.conformance.history.input_replay import input_facts, save_plan
from tickproof.conformance.history.provenance import MADE_AT, provenance
from tickproof.conformance.history.run_record import Ended
from tickproof.conformance.scenario import Scenario
from tickproof.generators.partitions import BuiltInput


class Manifest:
    """run.json of one run, written at its start and again at its end."""

    def __init__(
        self, scenario: Scenario, spec: EngineSpec, folder: Path, run_id: str, seed: int
    ) -> None:
        self._folder = folder
        self._facts: dict[str, Any] = {
            "format": FORMAT,
            "kit": __version__,
            "id": run_id,
            "seed": seed,
            "engine": {"name": spec.name, "version": spec.version, "language": spec.language},
            "claims": spec.claims(scenario.app, scenario.params).to_json(),
            "scenario": scenario.to_json(),
            "started_ns": time.monotonic_ns(),
            "started": time.time(),
            MADE_AT: provenance(spec.path),
        }

    def add_input(self, built: BuiltInput) -> None:
        """Add what the input is, and write the file; raises OSError."""
        save_plan(built, self._folder / "input")
        self.add(input=input_facts(built))
        self._write()

    def add(self, **facts: Any) -> None:
        """Add facts, to be written with the next write."""
        self._facts |= facts

    def finish(
        self,
        ended: Ended,
        left: Iterable[ProcessInfo],
        counts: dict[str, int],
        sha256: Mapping[str, str],
    ) -> None:
        """Add how the run ended, write the file, and seal the run; raises OSError.

        sha256: digests that were kept of files while they were written, by name.
        """
        self.add(
            ended=ended.to_json(),
            ended_ns=time.monotonic_ns(),
            left_over=[{"pid": p.pid, "name": p.name} for p in left],
            event_counts=counts,
        )
        self._write()
        seal.write(self._folder, sha256)

    def _write(self) -> None:
        write_json(self._folder / "run.json", self._facts)
