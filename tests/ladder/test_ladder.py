"""The ladder: real runs of the miniature, its words, its document and its page."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from typing import get_args

import numpy as np
import pytest

from tests.long import LONG
from tests.service_level.made_documents import MACHINE, steady_round
from tickproof.conformance.engines import interruption, spec
from tickproof.conformance.errors import RequestError
from tickproof.conformance.latency.statistics import Ratio
from tickproof.conformance.performance import ladder, ladder_report
from tickproof.conformance.performance.document import EngineName
from tickproof.conformance.performance.ladder_costs import (
    LADDER,
    Cost,
    Ladder,
    Parameters,
    Plan,
    StepCosts,
    clock_ns,
    cost,
    processor_ns,
)
from tickproof.conformance.performance.series import exit_status_of
from tickproof.conformance.report import style
from tickproof.conformance.resources import fixtures
from tickproof.conformance.scenario import Step

MINIATURE = fixtures() / "engines" / "miniature"
PLAN = Plan(messages=20_000, rounds=1)


def test_every_step_has_its_rung_and_stands_on_one_below():
    assert tuple(rung.step for rung in LADDER) == get_args(Step)
    below = set()
    for rung in LADDER:
        assert (rung.before in below) or (rung.before is None and not below)
        below.add(rung.step)


@LONG
def test_the_miniature_gives_the_right_answer_at_every_step(tmp_path, capsys):
    status = ladder.ladder(
        spec.load(MINIATURE), PLAN, tmp_path, keep=False, console=style.console()
    )
    assert status == 0, capsys.readouterr().out
    found = json.loads((tmp_path / Ladder.FILE_NAME).read_text())
    assert [one["status"] for one in found["steps"]] == ["measured"] * len(LADDER)
    assert all(one["clock"]["median_ns"] > 0 for one in found["steps"])
    kept = {one["step"]: one["rounds"][0]["state_bytes"]["end"] for one in found["steps"]}
    durable = ("checkpoint", "exactly-once", "audit")
    assert {step for step, size in kept.items() if size} == set(durable)
    assert "exactly-once" in (tmp_path / "report.html").read_text()
    assert not list((tmp_path / "runs").rglob("output"))


@pytest.mark.parametrize(
    ("old", "new", "step", "why"),
    [
        ('records["value"] * np.uint64(2))', 'records["value"] * np.uint64(3))', "compute",
         "one of the expected payloads"),
        ("plain(totals, totalled, durable=True)", "plain(totals, totalled)", "checkpoint",
         "state_dir"),
    ],
)  # fmt: skip
def test_a_step_that_is_not_done_has_no_figures(tmp_path, old, new, step, why):
    engine = tmp_path / "engine"
    shutil.copytree(MINIATURE, engine)
    code = (engine / "ladder.py").read_text()
    assert old in code
    (engine / "ladder.py").write_text(code.replace(old, new))
    toml = engine / "engine.toml"
    others = toml.read_text().partition("[apps.ladder]")[0]
    toml.write_text(f'{others}[apps.ladder]\nstep = ["{step}"]')
    engine = spec.load(toml)
    series = ladder.steps_of(engine)
    ladder.play(engine, series, PLAN, tmp_path, keep=False, announce=lambda *_: None)
    found = {one.what: one for one in series}
    assert (found[step].status, found[step].rounds) == ("failed", [])
    assert why in found[step].why
    assert {one.status for one in series if one.what != step} == {"not-offered"}
    assert exit_status_of(series) == 1


def test_an_engine_without_a_ladder_is_told_so(tmp_path):
    single = spec.load(fixtures() / "engines" / "single")
    with pytest.raises(
        RequestError, match=r"with \[apps\.ladder\] and its steps .*; single has none"
    ):
        ladder.check(single, PLAN, tmp_path)


def rounds(*microseconds):
    return [steady_round(us and 1e6 / us, us_a_record=us) for us in microseconds]


def test_a_cost_is_a_ratio_with_an_interval_or_said_not_to_be_shown():
    below, above, same = rounds(1, 1.1, 1.2, 1.3), rounds(2, 2.1, 2.2, 2.3), rounds(1, 1.4, 1.1, 1)
    measured = {"passthrough": below, "decode": above, "compute": above, "state": same}
    decode, compute, state = LADDER[1], LADDER[2], LADDER[5]
    found = cost(measured, decode, processor_ns)
    assert found.median_ns == pytest.approx(2150)
    assert ladder_report.said(found, decode.before).startswith("1.8")
    assert cost(measured, decode, clock_ns).rounds_ns == pytest.approx(found.rounds_ns)
    assert ladder_report.said(cost(measured, compute, clock_ns), compute.before) == "no cost shown"
    assert cost(measured, state, clock_ns).to_step_before.high < 1
    few = cost(measured | {"decode": rounds(2, 2)}, decode, processor_ns)
    assert ladder_report.said(few, decode.before) == "too few rounds"
    assert cost({"passthrough": rounds(None)}, LADDER[0], processor_ns) is None


def cost_of(*rounds_ns, to=None):
    return Cost(median_ns=float(np.median(rounds_ns)), rounds_ns=rounds_ns, to_step_before=to)


def page():
    """Return the page of a ladder with every kind of row."""
    costs = [
        cost_of(101.0, 120.5),
        cost_of(100.0, 130.0, to=Ratio(1.0, 0.9, 1.2)),
        cost_of(1200.0, 1300.0, to=Ratio(11.0, 9.0, 13.0)),
        None,
        None,
    ]
    more = [{}] * 3 + [
        {"status": "failed", "why": "lost: <script>alert(1)</script>", "run": "a/folder"},
        {"status": "not-offered", "why": "not in [apps.ladder]"},
    ]
    steps = [
        StepCosts(**{**asdict(rung), "status": "measured", **facts, "processor": one, "clock": one})
        for rung, one, facts in zip(LADDER, costs, more, strict=False)
    ]
    engine = EngineName(name="miniature", version="1")
    parameters = Parameters(**asdict(PLAN))
    return ladder_report.html(
        Ladder(machine=MACHINE, parameters=parameters, engine=engine, steps=tuple(steps))
    )


def test_what_was_measured_before_an_interrupt_is_reported(tmp_path, monkeypatch, capsys):
    played = []

    def sampled(self, series, *_):
        if len(played) == len(LADDER) + 1:
            raise KeyboardInterrupt
        played.append(series.what)
        series.rounds.append(steady_round(1e6, us_a_record=1.0))

    monkeypatch.setattr(ladder.Rounds, "sampled", sampled)
    two = Plan(messages=20_000, rounds=2)
    with pytest.raises(KeyboardInterrupt, match="11 runs reported in"):
        ladder.ladder(spec.load(MINIATURE), two, tmp_path, keep=False, console=style.console())
    open_ = ", ".join(f"{one.step} 1 of 2" for one in LADDER if one.step != played[-1])
    said = f"{interruption.words()}; rounds measured: {open_}"
    assert said in capsys.readouterr().out
    assert said in (tmp_path / "report.html").read_text()
    found = json.loads((tmp_path / Ladder.FILE_NAME).read_text())
    assert found["interrupted"] == interruption.words()
    assert sorted(len(one["rounds"]) for one in found["steps"]) == [1] * 9 + [2]


def test_the_page_says_what_was_measured_and_escapes_the_rest():
    html = page()
    assert "1,250" in html
    assert "no cost shown" in html
    assert "not-offered" in html
    assert "<script>alert" not in html
