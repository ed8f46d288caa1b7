"""What the loop of a run takes from a fault, and when it takes the input for processed."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from tests.faults.bench import Bench, until
from tests.log_server.logbench import LogBench, append
from tickproof.conformance.engines.failures import Code, EngineFailure
from tickproof.conformance.engines.fair_clock import FairClock
from tickproof.conformance.fault_steps import KillStep
from tickproof.conformance.faults.moments import CHECKPOINTING
from tickproof.conformance.runner.run_loop import RunLoop


@pytest.fixture
def loop():
    """A loop whose run has only what a test gives it."""
    made = object.__new__(RunLoop)
    made._run = SimpleNamespace(stop_reason=lambda: "", clock=FairClock(), fault_changed_at=0.0)
    made._run.began_at, made._run.longest_s = 0.0, float("inf")
    made._timeouts = SimpleNamespace(cut_s=0.1, recovery_s=0.2)
    made._moved_at = float("inf")
    made._delivers_once = False
    return made


def test_records_that_come_twice_after_a_fault_do_not_count_as_processed(tmp_path, loop):
    with LogBench(tmp_path, records=100) as bench:
        loop._log, loop._recorder = bench.log, bench.recorder
        loop._run.app = SimpleNamespace(one_each=True)
        client = bench.connect()
        bench.log.publish([50])
        client.call(append(0, *range(50)))
        assert loop._processed()
        # The engine died, goes on from record 20, and has 20 of 70 left to do.
        loop._run.fault_changed_at = 1.0
        bench.log.publish([70])
        client.fetch(0)
        client.call(append(50, *range(20, 50)))
        assert bench.recorder.records > bench.log.published
        assert not loop._processed()
        loop._delivers_once = True  # then none of these came twice
        assert loop._processed()


def test_the_time_to_recover_counts_from_when_there_is_something_to_fetch(loop):
    died_s_ago = 10 * loop._timeouts.recovery_s
    loop._run.fault_changed_at = time.monotonic() - died_s_ago
    loop._faults = SimpleNamespace(recovering=True)
    loop._log = SimpleNamespace(released=50, published=50)
    loop._nothing_left_at = 0.0
    assert not loop._recovery_overdue()
    loop._log.published = 51
    assert not loop._recovery_overdue()
    until(loop._recovery_overdue)


@pytest.mark.parametrize("died", [True, False])
def test_what_a_dying_engine_tells_a_later_fault_is_no_failure(loop, died):
    gone = EngineFailure(Code.EXITED, "the engine exited before it answered topology")

    def deed(step):
        raise gone

    bench = Bench([KillStep("fetched", target="worker", fraction=0.0)], deed=deed)
    bench.log.fetched = bench.log.published = 10
    until(lambda: bench.observe("fetched", 1) is not None and bench.controller.failure is gone)
    loop._log = SimpleNamespace(ended=False, total=1, bytes=1)
    loop._recorder = SimpleNamespace(records=0, bytes=0)
    loop._faults, loop._drain = bench.controller, None
    injector = SimpleNamespace(excuses=lambda _: False, down_until=float("inf"))
    loop._engine = SimpleNamespace(
        killed=died, injector=injector, process=SimpleNamespace(returncode=None, violations=[])
    )
    loop._run.network_faults = SimpleNamespace(lasting=False)
    if died:
        loop._check_health()
        assert bench.controller.failure is None
    else:
        with pytest.raises(EngineFailure, match="before it answered topology"):
            loop._check_health()


def test_no_checkpoint_is_asked_for_while_a_scale_is_under_way(loop):
    asked, answered = [], SimpleNamespace(wait=lambda _: None, answered_ns=1)
    loop._processed, loop._log = lambda: True, SimpleNamespace(states=list)
    loop._events = SimpleNamespace(add=lambda *_, **__: None)
    loop._engine = SimpleNamespace(ask_checkpoint=lambda: asked.append(held()) or answered)
    loop._faults = SimpleNamespace(moment=CHECKPOINTING, fire_now=lambda _, first=bool: first())
    loop._timeouts.drain_s = 1.0
    loop._run.publisher, loop._run.sink = SimpleNamespace(held_back=True), SimpleNamespace()
    held = lambda: not loop._run.sink.held.done()  # noqa: E731
    loop._run.scaling = True
    loop._checkpoint_when_quiet()
    assert not asked
    loop._run.scaling = False
    loop._checkpoint_when_quiet()
    assert asked == [True]  # no answer to output came before the strike
    assert not held()
