"""The ladder: real runs of the miniature, its words, its document and its page."""

from __future__ import annotations

import json
import shutil
from typing import get_args

import pytest

from tests.long import LONG
from tickproof.conformance.engines import spec
from tickproof.conformance.errors import RequestError
from tickproof.conformance.latency.statistics import Ratio
from tickproof.conformance.performance import ladder, ladder_costs, ladder_report
from tickproof.conformance.performance.ladder_costs import LADDER, Cost, Plan, RungCosts
from tickproof.conformance.performance.rounds import exit_status_of
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
    found = json.loads((tmp_path / ladder.FILE_NAME).read_text())
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
    series = ladder.play(spec.load(toml), PLAN, tmp_path, keep=False, announce=lambda *_: None)
    found = {one.what: one for one in series}
    assert (found[step].status, found[step].rounds) == ("failed", [])
    assert why in found[step].why
    assert {one.status for one in series if one.what != step} == {"not-offered"}
    assert exit_status_of(series) == 1


def test_an_engine_without_a_ladder_is_told_so(tmp_path):
    single = spec.load(fixtures() / "engines" / "single")
    with pytest.raises(RequestError, match=r"single: expected \[apps\.ladder\]"):
        ladder.check(single, PLAN, tmp_path)


def rounds(*microseconds):
    return [{"us_a_record": us, "rate": us and 1e6 / us} for us in microseconds]


def test_a_cost_is_a_ratio_with_an_interval_or_said_not_to_be_shown():
    below, above, same = rounds(1, 1.1, 1.2, 1.3), rounds(2, 2.1, 2.2, 2.3), rounds(1, 1.4, 1.1, 1)
    measured = {"passthrough": below, "decode": above, "compute": above, "state": same}
    decode, compute, state = LADDER[1], LADDER[2], LADDER[5]
    found = ladder_costs.cost(measured, decode, "processor")
    assert found.median == pytest.approx(2150)
    assert ladder_report.said(found, decode).startswith("1.8")
    assert ladder_costs.cost(measured, decode, "clock").rounds == pytest.approx(found.rounds)
    assert (
        ladder_report.said(ladder_costs.cost(measured, compute, "clock"), compute)
        == "no cost shown"
    )
    assert ladder_costs.cost(measured, state, "clock").against.high < 1
    few = ladder_costs.cost(measured | {"decode": rounds(2, 2)}, decode, "processor")
    assert ladder_report.said(few, decode) == "too few rounds"
    assert ladder_costs.cost({"passthrough": rounds(None)}, LADDER[0], "processor") is None


def page():
    """Return the page of a ladder with every kind of row."""
    one = Cost((101.0, 120.5), None)
    more = Cost((1200.0, 1300.0), Ratio(11.0, 9.0, 13.0))
    same = Cost((100.0, 130.0), Ratio(1.0, 0.9, 1.2))
    found = [
        RungCosts(LADDER[0], "measured", processor=one, clock=one),
        RungCosts(LADDER[1], "measured", processor=same, clock=same),
        RungCosts(LADDER[2], "measured", processor=more, clock=more),
        RungCosts(LADDER[3], "failed", "lost: <script>alert(1)</script>", "a/folder"),
        RungCosts(LADDER[4], "not-offered", "not in [apps.ladder]"),
    ]
    facts = {"cpu": "a processor", "cpus": 2}
    return ladder_report.html(spec.load(MINIATURE), PLAN, facts, found)


def test_the_page_says_what_was_measured_and_escapes_the_rest():
    html = page()
    assert "1,250" in html
    assert "no cost shown" in html
    assert "not-offered" in html
    assert "<script>alert" not in html
