"""Latencies from run folders, held against a second reckoning that shares no code."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.latency.made_runs import T0, TICK, make_run
from tests.latency.second_reckoning import reckon
from tests.long import few
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history.folder import History
from tickproof.conformance.latency.samples import NEVER, Answers, answers, latencies, timetable
from tickproof.conformance.session.playing import tidy
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import RunFolder
from tickproof.generators.layouts import (
    COUNT_IN,
    COUNT_OUT,
    MESSAGE,
    NUMBER,
    ORDER,
    QUOTE,
    VERDICT,
    opaque,
)
from tickproof.generators.market import PROBE_TAG

CASES = {
    "passthrough": ({"kind": "payloads", "seed": 7, "records": 2000, "size": 100}, {}),
    "passthrough-short": ({"kind": "payloads", "seed": 7, "records": 200, "size": 3}, {}),
    "double": ({"kind": "numbers", "seed": 7, "records": 500}, {}),
    "count-every": (
        {"kind": "keyed", "seed": 7, "records": 2000, "keys": 40, "edge_keys": True},
        {"emit": "every"},
    ),
    "count-some": (
        {"kind": "keyed", "seed": 7, "records": 2000, "keys": 40},
        {"emit": "some"},
    ),
    **{
        f"market-spread-{inputs}-{emit}": (
            {"kind": "market", "seed": 7, "records": 3000, "symbols": 20, "reject_one_in": 90,
             "probe_one_in": 40, "inputs": inputs},
            {"inputs": inputs, "emit": emit},
        )
        for inputs in ("merged", "two") for emit in ("rejects", "verdicts")
    },
}  # fmt: skip


def app_of(case: str) -> str:
    return "market-spread" if case.startswith("market") else case.split("-")[0]


def right_outputs(history) -> np.ndarray:
    """Return what answers all records of the input, by partition, as a sound engine would."""
    if history.app == "passthrough":
        dtype = opaque(history.partitions[0].record_size)
        return np.concatenate(history.inputs(dtype))
    if history.app == "double":
        out = np.concatenate(history.inputs(NUMBER))
        out["x"] = (out["x"].view("<u8") * np.uint64(2)).view("<i8")
        return out
    if history.app == "count":
        rows = [(int(k), 0, 0) for part in history.inputs(COUNT_IN) for k in part["key"]]
        seen: dict[int, int] = {}
        out = np.array(rows, COUNT_OUT)
        for row in out:
            row["n"] = seen[int(row["key"])] = seen.get(int(row["key"]), 0) + 1
        return out
    merged = history.params["inputs"] == "merged"
    parts = history.inputs(MESSAGE, 0) if merged else history.inputs(ORDER, 1)
    orders = np.concatenate([np.array(part).view(ORDER) for part in parts])
    orders = orders[orders["kind"] == 1]
    out = np.zeros(len(orders), VERDICT)  # of all: who emits rejects has invented some
    out["order_id"] = orders["order_id"]
    return out


def same(run) -> Answers:
    """Expect both reckonings to agree, record for record; return what they say."""
    found = answers(run.history())
    rows = reckon(run.folder)
    assert len(found) == len(rows)
    columns = ("intended_ns", "published_ns", "fetched_ns", "arrived_ns", "tagged")
    for name, expected in zip(columns, zip(*rows, strict=True), strict=True):
        np.testing.assert_array_equal(getattr(found, name), expected, name)
    assert found.tagged.dtype == bool
    return found


def made_case(name: str, folder: Path) -> RunFolder:
    recipe, params = CASES[name]
    return make_run(folder, recipe | {"partitions": 3, "tick": 20}, app_of(name), params)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make each case once; its outputs are written anew by each test."""
    runs = {}

    def case(name: str):
        if name not in runs:
            runs[name] = made_case(name, tmp_path_factory.mktemp("run"))
        return runs[name]

    return case


@pytest.mark.parametrize("case", CASES)
def test_a_sound_run_is_answered_whole_with_known_latencies(made, case):
    run = made(case)
    out = right_outputs(run.history())
    late = T0 + 3_600_000_000
    times = late + np.arange(len(out)) * 1_000
    run.outputs(output_log(out, t_ns=times))
    run.tables(
        fetches=[
            (T0 + 50 * number, p.stream, p.partition, 0, p.records)
            for number, p in enumerate(run.built.partitions)
        ]
    )
    found = same(run)
    assert found.answered.all() and len(found) > 30
    assert (found.fetched_ns != NEVER).all()
    assert (latencies(found) == found.arrived_ns - found.intended_ns).all()
    assert (np.diff(found.intended_ns) >= 0).all()
    assert (found.published_ns - found.intended_ns == 70_000).all()
    if "every" in case or case == "passthrough":
        assert sorted(found.arrived_ns) == times.tolist()


@pytest.mark.parametrize("case", few(CASES, 3))
@given(data=st.data())
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_output_gives_the_same_in_both_reckonings(made, case, data):
    """Outputs missing, twice, of nobody, in any order and batches; fetches with gaps."""
    run = made(case)
    history = run.history()
    out = right_outputs(history)
    seed = data.draw(st.integers(0, 2**32), "seed")
    draw = np.random.default_rng(seed)
    picked = draw.integers(0, len(out), data.draw(st.integers(0, 2 * len(out)), "outputs"))
    if data.draw(st.booleans(), "in order"):
        picked.sort()
    chosen = out[picked]
    strange = draw.random(len(chosen)) < 0.1
    junk = draw.integers(0, 256, (int(strange.sum()), out.itemsize), np.uint8)
    chosen[strange] = junk.view(out.dtype)[:, 0]
    if history.app == "count":
        chosen["n"][strange & (draw.random(len(chosen)) < 0.5)] = draw.integers(0, 300)
    ends = np.unique(draw.integers(0, len(chosen) + 1, len(chosen) // 3))
    batches = np.diff(np.concatenate(([0], ends, [len(chosen)])))
    batches = batches[batches > 0]
    times = np.cumsum(draw.integers(0, 10**6, len(batches))) + T0
    run.outputs(output_log(chosen, batches, t_ns=times))
    rows = []
    for number in range(data.draw(st.integers(0, 30), "fetches")):
        part = history.partitions[draw.integers(len(history.partitions))]
        base, end = sorted(draw.integers(0, part.records + 1, 2).tolist())
        rows.append((T0 + number, part.stream, part.partition, base, end))
    run.tables(fetches=rows)
    same(run)


def test_measured_orders_are_those_that_the_contract_of_each_app_names(made):
    def sizes(case):
        found = same(made(case))
        return len(found), int(found.tagged.sum())

    # 3,000 messages with 20 symbols: 1,490 orders, a probe in 40.
    assert sizes("market-spread-merged-verdicts") == (1490, 37)
    assert sizes("market-spread-two-verdicts") == (1490, 37)
    assert sizes("market-spread-two-rejects") == (37, 37)
    rejects, probes = sizes("market-spread-merged-rejects")
    assert probes == 37 and 37 + 14 <= rejects <= 37 + 17


def test_the_tag_is_that_of_the_generator(made):
    history = made("market-spread-two-verdicts").history()
    orders = history.inputs(ORDER, 1)
    tags = np.concatenate([part["client_tag"] for part in orders])
    assert int((tags >= np.uint64(PROBE_TAG)).sum()) == 37
    assert history.inputs(QUOTE, 0)


def test_the_first_arrival_counts_not_the_duplicate(tmp_path):
    recipe = {"kind": "payloads", "seed": 1, "records": 3, "size": 8}
    run = make_run(tmp_path / "run", recipe)
    (part,) = run.history().inputs(opaque(8))
    run.outputs(output_log(part[[1, 0, 1, 0]], t_ns=[T0 + 10, T0 + 20, T0 + 30, T0 + 40]))
    assert same(run).arrived_ns.tolist() == [T0 + 20, T0 + 10, NEVER]


def test_doubles_that_are_equal_are_answered_one_after_another(tmp_path):
    """0 and -2^63 have the same double: two outputs, one for each."""
    run = make_run(tmp_path / "run", {"kind": "numbers", "seed": 1, "records": 16}, "double")
    (part,) = run.history().inputs(NUMBER)
    zeros = np.flatnonzero((part["x"] == 0) | (part["x"] == -(2**63)))
    assert len(zeros) == 2
    run.outputs(output_log(np.zeros(2, NUMBER), t_ns=[T0 + 1, T0 + 2]))
    assert same(run).arrived_ns[zeros].tolist() == [T0 + 1, T0 + 2]


def test_offsets_fetched_out_of_turn_keep_their_own_times(tmp_path):
    """Tasks of a batch engine read the ends of a range before its beginning."""
    recipe = {"kind": "payloads", "seed": 1, "records": 6, "size": 8, "tick": 2}
    run = make_run(tmp_path / "run", recipe)
    run.tables(fetches=[(30, 0, 0, 4, 6), (40, 0, 0, 0, 3), (50, 0, 0, 2, 6)])
    assert same(run).fetched_ns.tolist() == [40, 40, 40, 50, 30, 30]


def test_ticks_that_a_run_did_not_reach_were_never_published(tmp_path):
    recipe = {"kind": "payloads", "seed": 1, "records": 6, "size": 8, "tick": 2}
    found = same(make_run(tmp_path / "run", recipe, ticks=1))
    assert found.published_ns.tolist() == [T0 + 70_000] * 2 + [NEVER] * 4
    assert found.intended_ns.tolist() == [T0, T0, *[T0 + TICK] * 2, *[T0 + 2 * TICK] * 2]


def test_a_slice_of_time_and_a_mask(tmp_path):
    recipe = {"kind": "payloads", "seed": 1, "records": 6, "size": 8, "tick": 2}
    found = answers(make_run(tmp_path / "run", recipe).history())
    assert len(found.due(T0 + TICK, T0 + 2 * TICK)) == 2
    assert len(found.where(found.intended_ns > T0)) == 4
    assert len(found.where(found.answered)) == 0


def test_a_tidied_input_is_made_again_with_its_plan(tmp_path):
    run = made_case("count-every", tmp_path)
    out = right_outputs(run.history())
    run.outputs(output_log(out, t_ns=T0 + 1_000 * np.arange(len(out))))
    run.seal()
    expected = answers(run.history())
    again = run.history()
    tidy(again)
    assert not (tmp_path / "input").exists()
    np.testing.assert_array_equal(answers(again).arrived_ns, expected.arrived_ns)
    assert run.history().record == again.record


def test_an_input_that_is_made_otherwise_today_is_refused_and_not_kept(made, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(made("passthrough").folder, copy)
    shutil.rmtree(copy / "input")
    history = History(copy)
    history.record.input.partitions[1].sha256 = "0" * 64
    with pytest.raises(HistoryError, match=r"s0p1\.log: made again, it has other bytes"):
        answers(history)
    assert not (copy / "input").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pace": None}, r"run\.json: .*pace: expected an object"),
        ({"pace": {"t0_ns": 1.5, "tick_ns": 1, "ticks": 10}}, r"pace\.t0_ns: .*integer"),
        ({"pace": {"t0_ns": 1, "tick_ns": 5, "ticks": 11}}, "11 ticks of 5 ns, expected 10"),
        ({"pace": {"t0_ns": 1, "tick_ns": 0, "ticks": 10}}, r"pace\.tick_ns: .*greater than 0"),
    ],
)
def test_a_run_without_a_timetable_is_refused(tmp_path, change, message):
    recipe = {"kind": "payloads", "seed": 1, "records": 10, "size": 8, "tick": 1}
    run = make_run(tmp_path / "run", recipe)
    run.facts(**change)
    with pytest.raises(HistoryError, match=message):
        timetable(run.history())


def test_more_ticks_than_planned_are_refused(tmp_path):
    recipe = {"kind": "payloads", "seed": 1, "records": 10, "size": 8, "tick": 1}
    history = make_run(tmp_path / "run", recipe, ticks=11).history()
    with pytest.raises(HistoryError, match=r"ticks\.bin: 11 ticks, expected at most 10"):
        timetable(history)
