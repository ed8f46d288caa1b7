"""Spark and the local checkers give one verdict, with one counterexample."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.long import LONG
from tests.spark_check.damage import damaged
from tests.suites import cases, cases_fault_free
from tests.suites import tampering as t
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history.folder import History
from tickproof.conformance.session.judging import recheck
from tickproof.conformance.spark_check import blocks, history, values
from tickproof.conformance.spark_check.history import ScaledHistory, opener
from tickproof.conformance.suites import evidence
from tickproof.conformance.verdicts import Verdict

#: A scenario of each judged family, and what shows in it.
SCENARIOS = (
    "passthrough", "double", "count-edges", "tiny-payloads", "empty-partitions", "count",
    "count-hot-key", "count-some", "count-engine-death-backlog", "market-merged-verdicts",
    "market-merged-rejects", "market-two-verdicts", "market-two-rejects", "market-two-after-accept",
)  # fmt: skip
#: (scenario, change, what the judges must say of it): one of each kind of finding.
CHANGED = [
    ("passthrough-drain-first", t.changed_again, "conflict"),
    ("empty-input", t.invent, "invented"),
    ("count", cases.UNKNOWN_KEY[0], "unknown-key"),
    ("count-edges", t.empty_input, "NOT_SEEN"),
    ("market-merged-verdicts", cases.WRONG_VERDICT[0], "wrong-verdict"),
    ("market-merged-rejects", t.drop_all, "lost"),
    ("market-two-verdicts", cases.unknown_quote, "unknown-quote"),
    ("market-two-fresh", cases_fault_free.stale, "stale-quote"),
    ("market-two-rejects", t.drop_all, "must-reject"),
    ("count", t.ahead, "ahead-of-fetch"),
]  # fmt: skip
CHANGED_TOO = [
    ("passthrough", t.ahead, "ahead-of-fetch"),
    ("market-merged-verdicts", t.ahead, "ahead-of-fetch"),
    ("market-two-verdicts", t.ahead, "ahead-of-fetch"),
    ("passthrough", t.drop_all, "lost"),
    ("passthrough-drain-first", t.gap, "gap"),
    ("count", t.changed_again, "conflict"),
    ("count", cases.BEYOND[0], "beyond-input"),
    ("count", t.engine_failure, "TIMEOUT"),
    ("double", t.empty_input, "NOT_SEEN"),
    ("count-slow-acks", t.late, "EARLY_DRAIN"),
    ("count-engine-death", t.no_fault, "KILL_MISSED"),
    ("market-merged-verdicts", t.alter(where=12), "wrong-verdict"),
    ("market-merged-verdicts", t.alter(where=10), "invented"),
    ("market-merged-verdicts", cases.unknown_quote, "wrong-verdict"),
    ("market-boundaries", cases_fault_free.wrong_in("ratio"), "wrong-verdict"),
    ("market-two-verdicts", t.alter(where=12), "wrong-verdict"),
    ("market-two-verdicts", cases_fault_free.before_all_quotes, "from-the-future"),
]  # fmt: skip

pytestmark = pytest.mark.usefixtures("many_parts")


@pytest.fixture
def copy_of(recorded, tmp_path):
    def copy(scenario):
        folder = tmp_path / "run"
        shutil.copytree(recorded.run(scenario), folder, copy_function=os.link)
        t.unsealed(folder)
        return folder

    return copy


def agree(folder, spark):
    """Expect one verdict of both ways; return it, and the findings, which must be one, too."""
    t.sealed(folder)
    local, scaled = History(folder), ScaledHistory(folder, spark)
    for judge in (evidence.values, evidence.sequences):
        assert judge(scaled) == judge(local)
    outcomes = recheck(folder, lambda _: scaled)
    assert list(map(dict_of, outcomes)) == list(map(dict_of, recheck(folder)))
    return outcomes, evidence.whole(local)


def dict_of(outcome) -> dict:
    return outcome.to_json() | {"seconds": 0}


def few(cases):
    """Give every third case each day, the others where all are asked for."""
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=[LONG] * (number % 3 > 0))
        for number, one in enumerate(cases)
    ]


@pytest.mark.parametrize("scenario", few(SCENARIOS[::2]))
def test_sound_history(recorded, spark, scenario):
    outcomes, found = agree(recorded.run(scenario), spark)
    assert found.checked > 0
    assert {outcome.verdict for outcome in outcomes} <= {Verdict.PASS, Verdict.UNKNOWN}


@pytest.mark.parametrize(
    ("scenario", "change", "reason"),
    [*few(CHANGED), *(pytest.param(*one, marks=LONG) for one in CHANGED_TOO)],
)
def test_changed_history(copy_of, spark, scenario, change, reason):
    folder = copy_of(scenario)
    change(folder)
    outcomes, _ = agree(folder, spark)
    assert reason in {outcome.reason for outcome in outcomes}


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(one, marks=[LONG] * (one not in SCENARIOS[1::8])) for one in SCENARIOS],
)
def test_history_with_much_damage(copy_of, spark, scenario):
    folder = copy_of(scenario)
    damaged(seed=1)(folder)
    outcomes, found = agree(folder, spark)
    assert found
    assert Verdict.FAIL in {outcome.verdict for outcome in outcomes}


@LONG
def test_outputs_are_led_to_their_orders_only_where_symbols_are_wrong(copy_of, spark, monkeypatch):
    led = []
    by_order = values.by_order
    monkeypatch.setattr(values, "by_order", lambda *a: led.append(1) or by_order(*a))
    folder = copy_of("market-merged-verdicts")
    cases.WRONG_VERDICT[0](folder)
    agree(folder, spark)
    assert not led
    for at in range(-9, 0):  # nine outputs name other symbols: some go to other parts
        t.alter(at, where=12)(folder)
    agree(folder, spark)
    assert led


# -- what the driver holds -----------------------------------------------------------------


@LONG
@pytest.mark.parametrize("scenario", ["count-edges", "market-merged-verdicts", "double"])
def test_driver_reads_no_input(copy_of, spark, monkeypatch, scenario):
    folder = copy_of(scenario)
    damaged(3)(folder)
    t.sealed(folder)
    local = recheck(folder)

    def refuse(*_):
        raise AssertionError("read in the driver")

    monkeypatch.setattr(ScaledHistory, "inputs", refuse)
    assert list(map(dict_of, recheck(folder, opener(spark)))) == list(map(dict_of, local))


def test_test_that_needs_the_input_in_one_process_is_unknown_where_it_is_large(
    recorded, spark, monkeypatch
):
    monkeypatch.setattr(history, "DRIVER_BYTES", 0)
    outcomes = recheck(recorded.run("market-boundaries"), opener(spark))
    assert {(outcome.verdict, outcome.reason) for outcome in outcomes} == {
        (Verdict.UNKNOWN, "NOT_AT_SCALE")
    }
    assert "without --spark" in outcomes[0].actual


# -- damaged folders -----------------------------------------------------------------------


@LONG
def test_input_that_is_gone_is_made_again_and_taken_away(copy_of, spark):
    folder = copy_of("double")
    t.sealed(folder)
    before = [dict_of(outcome) for outcome in recheck(folder)]
    shutil.rmtree(folder / "input")
    assert [dict_of(outcome) for outcome in recheck(folder, opener(spark))] == before
    assert not (folder / "input").exists()


def test_input_that_is_cut_is_an_error_and_no_verdict(copy_of, spark):
    folder = copy_of("double")
    path = sorted((folder / "input").glob("*.log"))[0]
    data = path.read_bytes()
    t.fresh(path).write_bytes(data[:-100])
    t.sealed(folder)
    with pytest.raises(HistoryError, match=rf"{path.name}: "):
        recheck(folder, opener(spark))


def test_torn_end_of_the_output_counts_as_not_recorded(copy_of, spark):
    folder = copy_of("count")
    path = folder / "output" / "s0.log"
    data = path.read_bytes()
    t.fresh(path).write_bytes(data[:-1000])
    _, found = agree(folder, spark)
    assert found.counts["lost"] > 0


@LONG
def test_error_in_a_part_is_raised_as_it_was_there(copy_of, spark, monkeypatch):
    folder = copy_of("count")
    t.run_json(folder, lambda run: run["scenario"]["params"].update(emit="sometimes"))
    t.sealed(folder)
    local = {outcome.actual for outcome in recheck(folder)}
    assert {outcome.actual for outcome in recheck(folder, opener(spark))} == local
    assert "emit: expected 'every' or 'some', got 'sometimes'" in local


@LONG
def test_records_larger_than_a_slice(copy_of, spark, monkeypatch):
    monkeypatch.setattr(blocks, "SLICE_BYTES", 4 << 20)
    folder = copy_of("large-payloads")
    damaged(seed=1)(folder)
    outcomes, _ = agree(folder, spark)
    assert outcomes[0].reason == "invented"


def test_blocks_are_many(recorded, spark):
    """The other tests here prove little if each history is one slice and one part."""
    for scenario in ("count", "passthrough", "market-two-verdicts"):
        files = ScaledHistory(recorded.run(scenario), spark).files()
        assert len(blocks.slices(files.sources, blocks.SLICE_BYTES)) > len(files.sources)
        assert files.parts > 1
