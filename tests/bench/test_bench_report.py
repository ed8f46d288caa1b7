"""What is printed of a bench: figures, ratios, notes where a figure is weak or missing."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from tests.service_level.made_documents import MACHINE, steady_round
from tickproof.conformance.performance.bench import EngineResult, document
from tickproof.conformance.performance.bench_document import LatencyRound
from tickproof.conformance.performance.bench_plan import Plan
from tickproof.conformance.performance.bench_report import show
from tickproof.conformance.performance.series import Series, Spread

ENGINE = SimpleNamespace(name="toy", version="1", language="none")


def shown(apps, kills=(), latency=(), width=100, **options):
    plan = Plan(apps=(), latency=bool(latency), kills=tuple(one.what for one in kills), **options)
    found = document([EngineResult(ENGINE, list(apps), list(latency), list(kills))], plan, MACHINE)
    console = Console(file=io.StringIO(), width=width)
    show(console, found)
    return found.engines[0], " ".join(console.file.getvalue().split())


def test_figures_are_shown_with_their_units_and_ratio():
    engine, text = shown(
        [
            Series("passthrough", rounds=[steady_round(4e6)]),
            Series("count", rounds=[steady_round(3e6)]),
        ]
    )
    assert [row.to_passthrough for row in engine.apps] == [1.0, 0.75]
    assert "toy passthrough 4.00 1.00 0.500 2.50 4.00" in text
    assert "toy passthrough 12.3 1.50 - 0.100 0.250 1.50G 999B - 4.88K" in text
    assert "more --messages" not in text


def test_two_engines_of_one_name_are_numbered_and_named_by_their_files():
    both = [
        EngineResult(ENGINE, [Series("count", rounds=[steady_round(3e6)])], [], [], f"{one}.toml")
        for one in "ab"
    ]
    console = Console(file=io.StringIO(), width=100)
    show(console, document(both, Plan(latency=False, kills=()), MACHINE))
    text = console.file.getvalue()
    assert "toy #1 is a.toml; toy #2 is b.toml" in text
    assert "\ntoy #2 count" in text


def test_several_numbers_of_workers_show_what_doubling_them_gives():
    series = [
        Series(app, workers=workers, rounds=[steady_round(rate)])
        for app, workers, rate in (
            ("passthrough", 1, 2e6),
            ("passthrough", 2, 3e6),
            ("passthrough", 3, 4e6),
            ("count", 1, 1e6),
            ("count", 2, 2e6),
        )
    ]
    engine, text = shown(series, workers=(1, 2, 3))
    assert [row.to_half for row in engine.apps] == [None, 1.5, None, None, 2.0]
    assert [row.to_passthrough for row in engine.apps] == [1, 1, 1, 0.5, 2e6 / 3e6]
    assert "1 and 2 and 3 workers" in text
    assert "toy passthrough, 2 workers 3.00 1.00 0.500 2.50 3.00 1.50" in text
    alone, text = shown([Series("count", rounds=[steady_round(3e6)])])
    assert alone.apps[0].to_half is None
    assert "of half" not in text


def test_several_numbers_of_keys_show_what_each_costs():
    series = [
        Series(app, workers=workers, keys=keys, rounds=[steady_round(rate)])
        for app, workers, keys, rate in (
            ("passthrough", 2, 0, 4e6),
            ("count", 2, 350, 3e6),
            ("count", 2, 1_000_000, 1e6),
            ("count", 4, 350, 6e6),
        )
    ]
    engine, text = shown(series, keys=(350, 1_000_000), workers=(2, 4))
    assert [row.to_passthrough for row in engine.apps] == [1, 0.75, 0.25, None]
    assert [row.to_half for row in engine.apps] == [None, None, None, 2.0]
    assert "toy count, 1,000,000 keys, 2 workers 1.00 0.250" in text
    assert "toy passthrough, 2 workers 4.00" in text
    assert "keys" not in shown(series[:2], keys=(350,))[1]


def test_a_note_says_which_of_several_rates_is_coarse():
    series = [
        Series("count", keys=keys, rounds=[steady_round(4e6, steps=steps)])
        for keys, steps in ((350, 9), (10_000, 3))
    ]
    _, text = shown(series, keys=(350, 10_000))
    assert text.count("RELEASEs of a partition") == 1
    assert "toy, count, 10,000 keys: RELEASEs of a partition after the warm-up: only 3" in text


def test_several_rounds_show_the_smallest_and_the_largest():
    rounds = [steady_round(rate) for rate in (2e6, 9e6, 1e6)]
    engine, text = shown([Series("passthrough", rounds=rounds)], rounds=3)
    assert engine.apps[0].rate == Spread(median=2e6, min=1e6, max=9e6)
    assert "2.00 [1.00 9.00]" in text


@pytest.mark.parametrize(
    ("figures", "note"),
    [
        (steady_round(4e6, steps=3), "RELEASEs of a partition after the warm-up: only 3"),
        (steady_round(4e6, "fetch", steps=1), "RELEASEs of a partition after the warm-up: only 1"),
        (steady_round(None), "nothing was left to do after the warm-up"),
    ],
)
def test_a_rate_that_is_coarse_or_missing_is_told(figures, note):
    assert note in shown([Series("count", rounds=[figures])])[1]


def test_a_machine_that_was_busy_with_something_else_is_told():
    busy = [steady_round(4e6), steady_round(4e6, other_cores=0.7)]
    _, text = shown([Series("count", rounds=busy)])
    assert "Other programs kept up to 0.700 of 2 processors busy" in text
    assert "Something else" not in shown([Series("count", rounds=busy[:1])])[1]


def test_no_line_is_longer_than_80_columns_and_no_heading_splits_a_word():
    series = [Series("market-spread", rounds=[steady_round(4e6), steady_round(5e6)])]
    engine = SimpleNamespace(name="minimal", version="1", language="none")
    console = Console(file=io.StringIO(), width=80)
    plan = Plan(apps=(), latency=False, kills=(), rounds=2)
    show(console, document([EngineResult(engine, series, [], [])], plan, MACHINE))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert any("passthrough" in line.split() for line in lines)
    assert not any("pass- " in line for line in lines)


def test_no_figure_is_cut_off_on_a_narrow_terminal():
    series = [Series("market-spread", rounds=[steady_round(4e6), steady_round(5e6)])]
    assert "…" not in shown(series, width=60, rounds=2)[1]


def test_an_engine_that_never_releases_is_not_coarse():
    assert (
        "RELEASEs" not in shown([Series("count", rounds=[steady_round(4e6, "fetch", steps=0)])])[1]
    )


def test_without_a_rate_of_passthrough_there_is_no_ratio():
    engine, _ = shown(
        [
            Series("passthrough", status="failed", why="lost: one"),
            Series("count", rounds=[steady_round(3e6)]),
        ]
    )
    assert [row.to_passthrough for row in engine.apps] == [None, None]


def test_latency_is_shown_beside_its_pace():
    rounds = [LatencyRound(seed=1, answers=9, p50=0.25, p99=1.5, max=at) for at in (2.0, 4.0, 3.0)]
    _, text = shown([], latency=[Series("latency", "passthrough", rounds=rounds)], rounds=3)
    assert "Latency at 20,000 records a second, in seconds" in text
    assert "toy passthrough 0.250 [0.250 0.250] 1.50 [1.50 1.50] 3.00 [2.00 4.00]" in text
    failed = Series("latency", "count", status="failed", why="lost: one", run="out/runs/toy")
    assert "toy, latency: failed: lost: one" in shown([], latency=[failed])[1]


def test_what_went_wrong_and_what_is_not_claimed_is_told():
    kills = [
        Series("worker", "count", status="failed", why="lost: a point", run="out/runs/toy"),
        Series("engine", status="not-claimed", why="claims to survive: no death"),
    ]
    _, text = shown([Series("count", rounds=[steady_round(3e6)])], kills)
    assert "toy worker, count failed" in text
    assert "toy engine not-claimed" in text
    assert "toy, kill of worker: failed: lost: a point run kept in out/runs/toy" in text
    assert "kill of engine" not in text
