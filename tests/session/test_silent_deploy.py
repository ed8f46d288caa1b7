"""An engine that does not answer deploy is not waited for in every run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import modest_engine
from tickproof.conformance.explain.outcomes import cause_of
from tickproof.conformance.session import tiers
from tickproof.conformance.session.request import Request
from tickproof.conformance.verdicts import Reason, Verdict

#: Answers hello, and deploy as often as it may, over all of its lives.
ENGINE = """
import json, pathlib, sys, time
seen = pathlib.Path(sys.argv[1])
for line in sys.stdin:
    request = json.loads(line)
    answer = {"id": request["id"], "ok": True, "name": "e", "version": "1", "protocol": 1}
    if request["op"] == "deploy":
        before = seen.read_text() if seen.exists() else ""
        seen.write_text(before + ".")
        if len(before) >= int(sys.argv[2]):
            time.sleep(3600)
    print(json.dumps(answer), flush=True)
"""
IDS = ("PR-DEPLOY", "SL-PAYLOAD-SIZES")  # on six runs of passthrough


@pytest.mark.parametrize(("answers", "played"), [(0, 1), (1, 6)])
def test_one_run_waits_where_none_was_deployed(tmp_path, answers, played):
    argv = ("{python}", "-c", ENGINE, str(tmp_path / "seen"), str(answers))
    (tmp_path / "engine.toml").write_text(
        modest_engine.toml("e", argv, startup_timeout_s=1, drain_timeout_s=1)
    )
    request = Request(out=tmp_path / "runs", only=IDS, workers=1)

    outcomes = tiers.run_session(tmp_path / "engine.toml", request, lambda _: None)

    deploy, sizes = (next(one for one in outcomes if one.requirement == id_) for id_ in IDS)
    assert len(list((tmp_path / "runs").glob("*/run.json"))) == played
    if answers:
        assert "not played" not in sizes.actual
        return
    assert (deploy.verdict, deploy.reason) == (Verdict.FAIL, Reason.NO_ANSWER)
    assert deploy.run.endswith("passthrough")
    assert (sizes.verdict, sizes.blocked_by) == (Verdict.BLOCKED, ["PR-DEPLOY"])
    assert "not played: no answer to deploy within" in sizes.actual
    # A run that was not played shows no failure: that is the one that was.
    assert cause_of(sizes) is None and cause_of(replace(sizes, run=deploy.run)) is not None
