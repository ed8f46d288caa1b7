"""What is said of a made run is what its folder holds, and its checkers can read it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.test_schedule_file import steps
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.fault_steps import FaultStep
from tickproof.conformance.history.events import (
    EVENTS,
    Deployed,
    Drained,
    EndPublished,
    Exited,
    Started,
)
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.input_replay import recorded_plan, same_input
from tickproof.conformance.history.json_lines import loads
from tickproof.conformance.history.rows import FETCH, HICCUP, TICK
from tickproof.conformance.history.tables import read_table
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import judging
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import LEAST_CLAIMS, RunFolder, given_input
from tickproof.conformance.verdicts import Verdict
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT, NUMBER

RECIPE = {"kind": "keyed", "records": 50, "keys": 5, "partitions": 3, "seed": 5, "tick": 7}
SCENARIO = Scenario("made", "count", {"emit": "every"}, RECIPE)
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
T_NS = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return RunFolder(tmp_path_factory.mktemp("made") / "run", SCENARIO)


def test_a_run_of_which_nothing_is_said_was_completed_and_moved_nothing(tmp_path):
    history = RunFolder(tmp_path, SCENARIO).history()
    assert (history.scenario, history.app, history.params) == ("made", "count", {"emit": "every"})
    assert history.ended.how == "completed"
    assert sum(map(len, history.inputs(COUNT_IN))) == history.input_records == 50
    assert len(history.outputs(COUNT_OUT)) == history.fetched == 0
    assert history.events == history.control == history.faults == history.stderr_tail() == []
    assert same_input(tmp_path, history.record)(tmp_path / "again").records == 50
    assert history.record.scenario == SCENARIO


@given(
    arrivals=st.lists(st.tuples(st.integers(0, 4), T_NS, U64, U64, U32), max_size=6),
    stream=st.integers(0, 2),
)
def test_outputs_are_read_back(run, arrivals, stream):
    counts = [row[0] for row in arrivals]
    payloads = np.zeros(sum(counts), COUNT_OUT)
    payloads["n"] = np.arange(len(payloads))
    names = ("t_ns", "writer", "first_seq", "connection")
    columns = {name: [row[i] for row in arrivals] for i, name in enumerate(names, 1)}
    run.outputs(output_log(payloads, counts, **columns), stream)
    seen = run.history().outputs(COUNT_OUT, stream)
    assert seen.payloads.tolist() == payloads.tolist()
    assert [row[:3] + row[5:6] for row in seen.arrivals.tolist()] == [a[1:] for a in arrivals]


def test_counts_that_do_not_fit_the_payloads_are_refused():
    with pytest.raises(ValueError, match="counts: 3 records, expected 2"):
        output_log(np.zeros(2, COUNT_OUT), [1, 2])


@given(st.lists(st.tuples(T_NS, st.integers(0, 9), st.integers(0, 9), U64, U64), max_size=6))
def test_fetches_are_read_back(run, rows):
    run.tables(fetches=rows)
    assert run.history().fetches.tolist() == rows
    run.tables(fetches=np.array(rows, FETCH))
    assert run.history().fetches.tolist() == rows


def test_a_table_that_no_run_has_is_named(run):
    with pytest.raises(ValueError, match="table fetchs: expected one of fetches, machine"):
        run.tables(fetchs=[])


def _fits(event) -> bool:
    """Whether a line of JSON may hold it: numbers are finite, and have 64 bits at most."""
    try:
        return bool(loads(json.dumps(event.to_row())))
    except ValueError:
        return False


# A step is of one of its kinds.
st.register_type_strategy(FaultStep, steps())
_EVENTS = st.one_of([st.builds(kind) for kind in EVENTS.values()]).filter(_fits)


@given(st.lists(_EVENTS, max_size=5))
def test_events_of_every_kind_are_read_back(run, events):
    run.events(*events)
    history = run.history()
    kinds = {type(event) for event in events}
    assert [one for kind in kinds for one in history.all(kind)] == [
        event for kind in kinds for event in events if type(event) is kind
    ]
    assert sum(history.record.event_counts.values()) == len(events) == len(history.events)


@given(st.lists(st.tuples(T_NS, st.sampled_from(["to", "from"]), st.text()), max_size=5))
def test_control_lines_are_read_back(run, lines):
    run.control(*lines)
    assert [tuple(row.values()) for row in run.history().control] == lines


def test_a_timetable_says_when_ticks_are_due_and_were_published(tmp_path):
    run = RunFolder(tmp_path, SCENARIO)
    due = run.timetable(1_000, 10, late_ns=3, ticks=2)
    assert due.tolist() == [1_000 + 10 * tick for tick in range(8)]
    pace = run.history().record.pace
    assert (pace.t0_ns, pace.tick_ns, pace.ticks) == (1_000, 10, 8)
    assert read_table(tmp_path / "ticks.bin", TICK)["t_ns"].tolist() == [1_003, 1_013]


def test_hiccups_are_read_back_by_core(tmp_path):
    run = RunFolder(tmp_path, SCENARIO)
    run.hiccups(3, [(5, 6)])
    assert run.history().hiccups == {3: np.array([(5, 6)], HICCUP)}


def test_records_can_be_given_instead_of_a_recipe(tmp_path):
    parts = {
        (0, 0): np.array([(1, 5), (2, 6)], COUNT_IN),
        (0, 1): np.zeros(0, COUNT_IN),
        (1, 0): np.array([(3, 7)], COUNT_IN),
    }
    history = RunFolder(tmp_path, SCENARIO, make_input=given_input(parts)).history()
    assert [part.tolist() for part in history.inputs(COUNT_IN)] == [[(1, 5), (2, 6)], []]
    assert [part.tolist() for part in history.inputs(COUNT_IN, 1)] == [[(3, 7)]]
    assert recorded_plan(history).tolist() == [[0, 0, 0], [2, 0, 1]]


def test_a_sealed_run_that_is_cut_is_refused(tmp_path):
    run = RunFolder(tmp_path, SCENARIO, claims={**LEAST_CLAIMS, "delivery": "exactly-once"})
    run.tables(fetches=[(1, 0, 0, 0, 1)])
    run.seal()
    assert run.history().claims.delivery == "exactly-once"
    (tmp_path / "fetches.bin").write_bytes(b"")
    with pytest.raises(HistoryError, match=r"fetches\.bin: changed after it was recorded"):
        History(tmp_path).verify()


@pytest.mark.parametrize(("lost", "verdict"), [(0, Verdict.PASS), (1, Verdict.FAIL)])
def test_the_judges_of_the_kit_decide_over_a_made_run(tmp_path, lost, verdict):
    drawn = draw("double", Context(1))
    run = RunFolder(tmp_path, replace(drawn, recipe=drawn.recipe | {"records": 500}))
    doubled = np.concatenate(run.history().inputs(NUMBER))
    doubled["x"] *= 2
    run.outputs(output_log(doubled[lost:], t_ns=30))
    parts = run.built.partitions
    run.tables(
        publishes=[(10, p.stream, p.partition, p.records) for p in parts],
        fetches=[(20, p.stream, p.partition, 0, p.records) for p in parts],
    )
    run.events(
        Started(t_ns=0, pid=1),
        Deployed(t_ns=5, pid=1),
        EndPublished(t_ns=10, records=500),
        Drained(
            t_ns=40,
            open_acknowledgements=0,
            staged_open=0,
            outputs=len(doubled) - lost,
            ended=True,
            partitions=(),
        ),
        Exited(t_ns=50, returncode=0),
    )
    run.seal()
    found = {one.requirement: one.verdict for one in judging.recheck(tmp_path)}
    assert found["SL-DOUBLE"] is verdict
