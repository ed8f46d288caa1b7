"""What a scale costs, of runs whose figures are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.fault_steps import FaultStep, KillStep, ScaleStep
from tickproof.conformance.history import events
from tickproof.conformance.history.event import (
    ActiveProcess,
    NamedProcess,
    PartitionState,
    UsedConnection,
)
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.judge import Fail
from tickproof.conformance.suites.scales import ScaleCost, costs, require_numbers, require_scaled
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import RunFolder
from tickproof.generators.layouts import opaque

S = 1_000_000_000
RECIPE = {"kind": "payloads", "seed": 1, "records": 100, "partitions": 2, "size": 8}
PASSTHROUGH = Scenario("mine", "passthrough", {}, RECIPE, workers=2)


def _fault(t_ns: int, step: FaultStep) -> events.FiredFault:
    state = PartitionState(0, 0, 50, 50, 10, 0)
    return events.FiredFault(
        t_ns=t_ns,
        step=step,
        struck_ns=t_ns,
        moment=step.at,
        text="scale",
        outputs=0,
        partitions=(state,),
        pids=(1,),
    )


def _look(t_ns: int, first: int, second: int) -> events.Activity:
    """Return a look at two workers that had fetched so many records."""
    running = tuple(ActiveProcess(pid, 1, 0, "w") for pid in (11, 12))
    used = (UsedConnection(1, (11,), first, 0), UsedConnection(2, (12,), second, 0))
    return events.Activity(t_ns=t_ns, running=running, used=used)


def _topology(t_ns: int) -> events.Topology:
    return events.Topology(
        t_ns=t_ns, processes=tuple(NamedProcess(pid, "worker", "") for pid in (11, 12))
    )


@pytest.fixture
def run(tmp_path):
    """A scale that is asked for at 2 s and answered at 5 s."""
    run = RunFolder(tmp_path / "run", PASSTHROUGH)
    run.tables(
        fetches=[
            (1 * S, 0, 0, 0, 30),
            (1 * S, 0, 1, 0, 20),
            (4 * S, 0, 0, 25, 40),  # 5 of them again
            (6 * S, 0, 1, 0, 30),  # 20 again
            (7 * S, 0, 1, 30, 50),
        ]
    )
    run.outputs(
        output_log(np.zeros(5, opaque(8)), t_ns=[1 * S, 2 * S - 1, 3 * S, int(5.5 * S), 9 * S])
    )
    return run


SCALE = _fault(2 * S - 2, ScaleStep("fetched", workers=2))
SEEN = (
    events.Started(t_ns=0, pid=1), events.Deployed(t_ns=1, pid=1), _topology(2), _look(3, 0, 0),
    SCALE, events.Scaled(t_ns=5 * S, workers=2, asked_ns=2 * S), _topology(5 * S + 1),
    _look(5 * S + 2, 0, 0), _look(8 * S, 60, 20),
)  # fmt: skip


def test_what_a_scale_cost(run):
    run.events(*SEEN)
    assert costs(run.history()) == [ScaleCost(2, 3.0, 2.5, 25, 0.25, 0.75)]


def test_nobody_saw_who_did_the_work(run):
    run.events(*SEEN[:-1])
    (cost,) = costs(run.history())
    assert (cost.least, cost.most) == (None, None)


def test_no_output_came_after_it(run):
    run.outputs(output_log(np.zeros(1, opaque(8)), t_ns=1 * S))
    run.events(*SEEN)
    (cost,) = costs(run.history())
    assert cost.still_s is None


def test_a_scale_with_a_death_in_it_has_no_figures(run):
    kill = _fault(3 * S, KillStep("scaling", target="worker"))
    run.events(*SEEN[:5], kill, *SEEN[5:])
    assert costs(run.history()) == []


def test_only_what_comes_before_the_next_fault_counts(run):
    kill = _fault(int(5.5 * S), KillStep("fetched", target="worker"))
    run.events(*SEEN, kill)
    (cost,) = costs(run.history())
    assert cost.again == 5


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10)), max_size=12))
def test_records_fetched_again_are_counted_like_a_set_counts_them(tmp_path_factory, ranges):
    run = RunFolder(tmp_path_factory.mktemp("run") / "run", PASSTHROUGH)
    rows = [(3 * S + at, 0, 0, base, base + count) for at, (base, count) in enumerate(ranges)]
    run.tables(fetches=rows)
    run.events(*SEEN)
    known: set[int] = set()
    again = 0
    for base, count in ranges:
        # Below what was reached, though nobody fetched it: a gap is for others to find.
        again += sum(offset < max(known, default=0) for offset in range(base, base + count))
        known |= {base + count}
    (cost,) = costs(run.history())
    assert cost.again == again


def _named(role: str) -> list[events.Event]:
    """Return the events of the run, with one process that topology names."""
    return [
        events.Topology(t_ns=one.t_ns, processes=(NamedProcess(11, role, ""),))
        if isinstance(one, events.Topology)
        else one
        for one in SEEN
    ]


def test_workers_that_are_threads_cannot_be_counted(run):
    run.events(*_named("engine"))
    require_scaled(run.history())
    require_numbers(run.history())


def test_one_worker_is_not_two(run):
    run.events(*_named("worker"))
    for require in (require_scaled, require_numbers):
        with pytest.raises(Fail, match="2 workers in topology"):
            require(run.history())
