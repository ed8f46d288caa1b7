"""Samples of a live engine, series of rounds, and the status that they end in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service_level.made_documents import steady_round
from tickproof.conformance.engines.spec import load
from tickproof.conformance.engines.workspace import folder_size
from tickproof.conformance.performance import bench, rounds
from tickproof.conformance.performance.bench_plan import (
    Plan,
    kill_scenario,
    latency_scenario,
    steady_scenario,
)
from tickproof.conformance.performance.engine_samples import EngineSamples, children_cpu_s
from tickproof.conformance.performance.series import Series, Spread
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner.run import play
from tickproof.conformance.suites.judge import Fail

BURN_S = 0.4
#: What the copied adapter does at deploy: a child that takes processor time, and ends.
BURNS = f"""
        import subprocess
        subprocess.run([sys.executable, "-c",
            "import time\\nwhile time.process_time() < {BURN_S}: pass"], check=True)
"""


def burning(folder: Path) -> Path:
    """Write a copy of the minimal engine with a child that burns and ends; its toml."""
    minimal = fixtures() / "engines" / "minimal"
    folder.mkdir()
    source = (minimal / "adapter.py").read_text("utf-8")
    at = 'elif op == "deploy":\n'
    assert source.count(at) == 1
    (folder / "adapter.py").write_text("import sys\n" + source.replace(at, at + BURNS))
    (folder / "engine.toml").write_text((minimal / "engine.toml").read_text("utf-8"))
    return folder / "engine.toml"


def test_processor_time_of_children_that_ended_counts(tmp_path):
    spec = load(burning(tmp_path / "engine"))
    scenario = steady_scenario(spec, "passthrough", Plan(messages=1_000), 0, 2)
    samples, before_s = EngineSamples(), children_cpu_s()
    play(scenario, spec, tmp_path / "run", seed=1, usage=samples.sampler)
    rows, cpu_s = samples.rows(), children_cpu_s() - before_s
    assert cpu_s >= BURN_S
    assert len(rows) >= 2
    assert (rows["cpu_s"][1:] >= rows["cpu_s"][:-1]).all()
    # A tick of the kernel's clock for each process is what may be rounded.
    assert 0 < rows["cpu_s"][-1] <= cpu_s + 0.1
    assert rows["memory"].max() > 2**20
    assert samples.memory_kind == "pss"


def test_a_sampler_that_breaks_says_so(tmp_path, monkeypatch):
    spec = load(fixtures() / "engines" / "minimal")
    monkeypatch.setattr(EngineSamples, "_add", lambda *_: 1 / 0)
    scenario = steady_scenario(spec, "passthrough", Plan(messages=100_000), 0, 2)
    with pytest.raises(ZeroDivisionError):
        play(scenario, spec, tmp_path / "run", seed=1, usage=EngineSamples().sampler)


def test_folder_size_counts_all_files_below(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "x").write_bytes(b"12345")
    (tmp_path / "a" / "b" / "y").write_bytes(b"678")
    (tmp_path / "gone").symlink_to("nowhere")
    assert folder_size(tmp_path) == (8 + len("nowhere"), 3)
    assert folder_size(tmp_path / "none") == (0, 0)


def test_the_spread_is_median_least_and_most_of_the_rounds():
    series = Series("x", rounds=[steady_round(rate) for rate in (3.0, 1.0, None, 9.0)])
    assert series.spread("rate") == Spread(median=3.0, min=1.0, max=9.0)
    assert series.spread("kit_cores") is None
    series.status = "failed"
    assert series.spread("rate") is None


def test_one_wrong_round_takes_the_figures_of_all(tmp_path, monkeypatch):
    right = iter([True, False])

    def judged(_history):
        if not next(right):
            raise Fail("lost", "one", "none")

    monkeypatch.setattr(rounds, "earns_figures", judged)
    spec = load(fixtures() / "engines" / "minimal")
    plan = Plan(apps=("passthrough",), latency=False, kills=(), messages=2_000, rounds=3)
    said = []
    (result,), _ = bench.measure_all(
        [spec], plan, tmp_path, keep=False, announce=lambda what, _: said.append(what)
    )
    (series,) = result.apps
    assert (series.status, series.rounds) == ("failed", [])
    assert series.why == "lost: expected one; got none"
    # The third round is not played, and of the second nothing is kept that can be made again.
    assert [line for line in said if "passthrough-2-2" in line] == []
    assert [path.parent for path in tmp_path.rglob("run.json")] == [Path(series.run)]
    assert not (Path(series.run) / "input").exists()


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (["measured", "not-offered", "not-claimed"], 0),
        (["measured", "failed", "unknown"], 1),
        (["unknown", "measured"], 3),
        (["failed", "kit-error"], 4),
    ],
)
def test_the_worst_series_decides_the_exit_status(statuses, status):
    series = [Series("x", status=one) for one in statuses]
    assert bench.exit_status([bench.EngineResult(None, series[:1], [], series[1:])]) == status


def test_engines_are_asked_for_what_they_offer():
    miniature, minimal = (load(fixtures() / "engines" / name) for name in ("miniature", "minimal"))
    plan = Plan()
    assert steady_scenario(miniature, "count", plan, 0, 2).params == {"emit": "some"}
    assert steady_scenario(minimal, "count", plan, 0, 2).params == {"emit": "every"}
    assert steady_scenario(minimal, "market-spread", plan, 0, 2) is None
    assert kill_scenario(miniature, "worker", plan, 0).params == {"emit": "every"}


def test_rounds_differ_in_input_and_kill_and_engines_do_not():
    miniature, minimal = (load(fixtures() / "engines" / name) for name in ("miniature", "minimal"))
    first, second = (kill_scenario(miniature, "worker", Plan(), n) for n in (0, 1))
    assert first.recipe["seed"] != second.recipe["seed"]
    assert first.faults[0].fraction != second.faults[0].fraction
    assert 0.4 <= first.faults[0].fraction <= 0.6
    assert kill_scenario(minimal, "worker", Plan(), 0).faults == first.faults
    assert kill_scenario(miniature, "engine", Plan(), 0).faults != first.faults


def test_latency_is_measured_at_any_pace():
    miniature = load(fixtures() / "engines" / "miniature")
    for pace in (100, 333, 20_000, 1_000_000):
        scenario = latency_scenario(miniature, Plan(pace=pace, seconds=30.0), 0)
        ticks = scenario.recipe["records"] / scenario.recipe["tick"]
        assert ticks * scenario.pace.tick_us / 1e6 == pytest.approx(30.0, rel=0.01)
        assert (scenario.pace.warm_up_s, scenario.faults) == (6.0, ())


def test_keys_are_those_of_every_run_of_count():
    miniature, plan = load(fixtures() / "engines" / "miniature"), Plan(keys=(77, 5))
    steady = steady_scenario(miniature, "count", plan, 0, 2)
    others = latency_scenario(miniature, plan, 0), kill_scenario(miniature, "worker", plan, 0)
    assert {one.recipe["keys"] for one in (steady, *others)} == {77}
    assert steady_scenario(miniature, "count", plan, 0, 2, 5).recipe["keys"] == 5


def test_count_alone_is_measured_with_each_number_of_keys():
    plan = Plan(apps=("passthrough", "count"), workers=(1, 2), keys=(77, 5))
    assert plan.steady == (
        ("passthrough", 1, 0),
        ("passthrough", 2, 0),
        ("count", 1, 77),
        ("count", 2, 77),
        ("count", 1, 5),
        ("count", 2, 5),
    )


def test_a_long_input_gets_its_time_to_drain():
    spec = load(fixtures() / "engines" / "minimal")
    longer = spec.patient(50_000_000)
    assert longer.timeouts.drain_s >= spec.timeouts.drain_s + 600
    assert longer.timeouts.recovery_s == spec.timeouts.recovery_s
    assert spec.timeouts.drain_s < 600
