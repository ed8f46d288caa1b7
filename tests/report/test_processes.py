"""What processes used: taken from the looks at them, drawn where there are enough."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import USAGE
from tickproof.conformance.report import processes
from tickproof.conformance.report.processes import FEWEST_LOOKS, ProcessUse


def used(looks, role="worker", name="<w>"):
    at_s = np.arange(looks, dtype=float)
    return ProcessUse(7, name, role, at_s, 10 + at_s / 2, np.full(looks, 3 << 20))


def test_processor_time_is_that_of_the_run_and_not_of_the_process():
    assert used(5).used_s == 2.0
    np.testing.assert_allclose(used(5).cores, 0.5)


@pytest.mark.parametrize("looks", [1, FEWEST_LOOKS - 1, FEWEST_LOOKS, 50])
def test_a_curve_needs_looks(looks):
    drawn = processes.picture([used(looks)], 60.0, "title")
    assert (drawn is not None) == (looks >= FEWEST_LOOKS)
    if drawn is not None:
        assert drawn.count('class="worker"') == 2
        assert "&lt;w&gt; (pid 7)" in drawn


def test_the_name_of_a_process_is_text_and_bounded(mutant_run, monkeypatch):
    history = History(mutant_run("offset-not-state", "count-engine-death", "EO-ENGINE-DEATH"))
    hostile = "w\x1b[31m\0\u202e" + "x" * 900_000
    named = [
        SimpleNamespace(pid=one.pid, name=hostile, role=one.role)
        for topology in history.all(events.Topology)
        for one in topology.processes
    ]
    monkeypatch.setattr(history, "all", lambda *_: [SimpleNamespace(processes=named)])
    found = processes.of_run(history, history.record.started_ns)
    assert any(one.name for one in found)
    assert all(len(one.name) < 100 and one.name.isprintable() for one in found)


def test_processes_of_a_run_have_the_names_that_topology_gave(mutant_run):
    folder = mutant_run("offset-not-state", "count-engine-death", "EO-ENGINE-DEATH")
    history = History(folder)
    found = processes.of_run(history, history.record.started_ns)
    assert {one.role for one in found} >= {"worker"}
    assert [one.used_s for one in found] == sorted((one.used_s for one in found), reverse=True)
    rows = np.fromfile(folder / "usage.bin", USAGE)
    assert {one.pid for one in found} <= set(rows["pid"].tolist())
    assert all((one.at_s >= 0).all() for one in found)
