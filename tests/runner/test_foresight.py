"""An engine that knows its input before it is published to it: no judge passes its run."""

from __future__ import annotations

import pytest

from tests.suites.test_judges import DECIDED_EARLY
from tickproof.conformance.engines.spec import load
from tickproof.conformance.history.folder import History
from tickproof.conformance.runner.run import play
from tickproof.conformance.suites.catalog import JUDGES, draw
from tickproof.conformance.suites.judge import Fail
from tickproof.conformance.suites.scenarios import Context


@pytest.mark.parametrize("name", ["Foresees", "Polite"])
def test_output_made_of_the_kits_own_files_fails(sessions, tmp_path, name):
    (tmp_path / "input").mkdir()
    of_another_run = (tmp_path / "input" / "s0p0.log").open("wb")
    play(draw("passthrough", Context(seed=3)), load(sessions.rogue(name)), tmp_path / "run", seed=3)
    of_another_run.close()
    history = History(tmp_path / "run")
    assert history.ended.how == "completed"
    for id_, judge in JUDGES["passthrough"]:
        if name == "Polite" or f"{id_}:passthrough" in DECIDED_EARLY:
            judge(history)
            continue
        with pytest.raises(Fail) as failure:
            judge(history)
        assert failure.value.code == "ahead-of-fetch"
