"""A failure that a search has found outlasts what ends the search."""

from __future__ import annotations

import io
import json
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext

import pytest
from rich.console import Console

from tickproof.conformance.engines import spec
from tickproof.conformance.explore import search
from tickproof.conformance.explore.engine import EngineSubject
from tickproof.conformance.explore.subject import Attempt
from tickproof.conformance.faults import schedule_file
from tickproof.conformance.resources import fixtures
from tickproof.conformance.verdicts import Outcome, Verdict


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BrokenProcessPool("a process died")])
def test_what_cuts_shrinking_short_loses_nothing(tmp_path, monkeypatch, error):
    subject = EngineSubject(spec.load(fixtures() / "engines" / "miniature" / "engine.toml"), 1, 1)
    scenario = next(subject.drawn())

    class Once:
        """Attempts of which the first fails, and the next cannot be made."""

        parallel, searched = 1, False

        def __init__(self, runs):
            self.runs = runs

        def each(self, *_):
            if self.searched:
                raise error
            self.searched = True
            run = self.runs / "00001"
            run.mkdir()
            found = Outcome("EO-SCHEDULE", Verdict.FAIL, reason="LOST", run=str(run))
            yield Attempt(scenario, found, 1, 0, 1.0, kind="LOST")

        def all(self, *_):
            raise error

    monkeypatch.setattr(subject, "attempts", lambda runs, _: nullcontext(Once(runs)))
    asked = search.Search(tmp_path / "explore", tmp_path / "regressions", 10, 10, 1, 3, "again")
    with pytest.raises(type(error)):
        search.explore(subject, asked, Console(file=io.StringIO()))
    (saved,) = (tmp_path / "regressions").iterdir()
    assert schedule_file.load(saved)
    written = json.loads((tmp_path / "explore" / "explore.json").read_text())
    assert written["failure"]["confidence"] == "1 of 1"
    assert (tmp_path / "explore" / "failed").is_dir()
