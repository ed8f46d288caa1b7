"""Curves of a run: against sums made record by record, and round faults that were carried out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickproof.conformance.fault_steps import KillEngineStep, PauseStep
from tickproof.conformance.history.events import FiredFault, Recovered, Started
from tickproof.conformance.report import svg, timeline
from tickproof.conformance.report.run_curves import AFTER_S, BEFORE_S, RunCurves
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import RunFolder, given_input
from tickproof.generators.layouts import opaque

RECORDS = 40
S = 10**9


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Make a run of passthrough in two partitions, of ``RECORDS`` records each."""

    def make(**parts):
        scenario = Scenario("made", "passthrough", {}, {})
        records = {(0, number): np.zeros(RECORDS, opaque(8)) for number in (0, 1)}
        run = RunFolder(
            tmp_path_factory.mktemp("run") / "run", scenario, make_input=given_input(records)
        )
        run.facts(started_ns=0, ended_ns=10 * S)
        run.events(Started(t_ns=0, pid=1), *parts.pop("events", ()))
        if "outputs" in parts:
            times = np.array(parts.pop("outputs"), np.int64)
            run.outputs(output_log(np.zeros(len(times), opaque(8)), t_ns=times))
        run.tables(**parts)
        return RunCurves(run.history())

    return make


STEPS = {
    "kill": KillEngineStep("fetched"),
    "pause": PauseStep("fetched", target="engine", seconds=1.0),
}


def fault(at_s, do="kill"):
    return FiredFault(
        t_ns=int(at_s * S),
        struck_ns=int(at_s * S),
        step=STEPS[do],
        moment="fetched",
        text="SIGKILL",
        outputs=0,
        pids=(),
        partitions=(),
    )


#: When each of the records of a partition comes, ascending.
TIMES = st.lists(st.integers(1, 10 * S - 1), min_size=RECORDS, max_size=RECORDS).map(sorted)


@settings(max_examples=25, deadline=None)
@given(TIMES, TIMES, st.integers(1, 50), st.floats(0, 4), st.floats(5, 10))
def test_curves_are_sums_over_their_spans(made, published, answered, spans, from_s, to_s):
    rows = [(t, 0, 0, number + 1) for number, t in enumerate(published)]
    run = made(publishes=rows, outputs=answered)

    curves = run.over(from_s, to_s, spans)

    width = (to_s - from_s) / spans
    for number, (low, high) in enumerate(zip(curves.edges_s, curves.edges_s[1:], strict=False)):
        came = sum(low < t / 1e9 <= high for t in published)
        assert curves.published[number] * width == pytest.approx(came)
        done = sum(low < t / 1e9 <= high for t in answered)
        assert curves.outputs[number] * width == pytest.approx(done)
        open_ = sum(t / 1e9 <= high for t in published) - sum(t / 1e9 <= high for t in answered)
        assert curves.backlog[number] == max(open_, 0)


def test_what_is_fetched_again_counts_again(made):
    run = made(fetches=[(S, 0, 0, 0, 30), (2 * S, 0, 1, 0, 5), (3 * S, 0, 0, 10, 40)])
    curves = run.over(0, 10, 10)
    assert curves.fetched.tolist() == [30, 5, 30, 0, 0, 0, 0, 0, 0, 0]


def test_a_recovery_lasts_from_a_kill_to_the_first_fetch_after_it(made):
    events = [fault(2), Started(t_ns=3 * S, pid=1, resume=True), Recovered(t_ns=4 * S), fault(6)]
    run = made(events=events)
    assert run.recoveries == [(2.0, 4.0)]
    assert [(mark.at_s, mark.strong) for mark in run.marks] == [
        (2.0, True),
        (3.0, False),
        (4.0, False),
        (6.0, True),
    ]


def test_a_fetch_after_the_next_fault_ends_no_recovery(made):
    assert made(events=[fault(2), fault(3), Recovered(t_ns=4 * S)]).recoveries == [(3.0, 4.0)]


def test_a_pause_has_no_recovery(made):
    assert made(events=[fault(2, "pause"), Recovered(t_ns=4 * S)]).recoveries == []


def test_close_looks_hold_their_fault_and_its_recovery_and_do_not_overlap(made):
    events = [
        fault(2),
        Recovered(t_ns=int(2.5 * S)),
        fault(2.6),
        fault(5),
        Recovered(t_ns=8 * S),
        fault(9),
    ]
    run = made(events=events)
    assert run.close_looks(9) == [
        (pytest.approx(2 - BEFORE_S), pytest.approx(2.5 + AFTER_S)),
        (pytest.approx(5 - BEFORE_S), pytest.approx(5 + AFTER_S)),  # its recovery is too long
        (pytest.approx(9 - BEFORE_S), pytest.approx(9 + AFTER_S)),
    ]
    assert len(run.close_looks(1)) == 1


def test_a_run_in_which_nothing_moved_has_a_picture(made):
    run = made()
    assert "NaN" not in timeline.whole(run, "nothing")
    assert run.close_looks(3) == []


@given(st.floats(1e-9, 1e9))
def test_a_nice_step_is_the_next_of_1_2_and_5(step):
    found = svg.nice(step)
    assert step <= found * (1 + 1e-9) < step * 2.5 * (1 + 1e-6)
    assert f"{found:.0e}"[0] in "125"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (950, "950"),
        (12_345, "12.3 k"),
        (4_500_000, "4.5 M"),
        (3e9, "3 G"),
    ],
)
def test_amounts_are_short(value, said):
    assert svg.amount(value) == said


def test_labels_of_faults_leave_each_other_room(made):
    run = made(events=[fault(2), fault(2.01), fault(6)])
    drawn = timeline.whole(run, "three faults")
    assert drawn.count('class="fault"') == 3
    assert drawn.count('class="fault-label"') == 2


def test_a_spike_does_not_flatten_the_rest(made):
    spread = [int(at * S / 10) for at in range(1, 81)]
    calm = timeline.close_look(made(outputs=spread), (0.0, 10.0), "calm")
    spike = timeline.close_look(made(outputs=[*spread, *[5 * S] * 2_000]), (0.0, 10.0), "spike")
    assert "cut at" not in calm
    assert "records a second; cut at 15, the highest is 12 k" in spike


def test_values_that_all_are_high_now_and_then_are_not_cut():
    bursts = np.array([0.0, 100.0] * 60)
    panel = timeline._Panel(0, 100, [bursts, np.full(120, 5.0)])
    assert panel.most == panel.highest == 100.0
