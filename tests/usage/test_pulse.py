"""Limits of real processes: starved, hanging, spinning, and going on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.long import LONG
from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.control_channel import ControlChannel
from tickproof.conformance.engines.failures import EngineFailure
from tickproof.conformance.engines.fair_clock import FairClock, withheld_s
from tickproof.conformance.engines.process_table import Proc
from tickproof.conformance.usage import process_sample, pulse
from tickproof.conformance.usage.process_sample import Thread
from tickproof.conformance.usage.pulse import Pulse, Reading, grown, interval

SPINS = "while True: pass"
SLEEPS = "import time; time.sleep(1000)"
LIMIT_S = 1.0
DEADLINE_S = 60.0


@contextmanager
def started(code: str, core: int | None = None, policy: int = os.SCHED_OTHER) -> Iterator[int]:
    """Run a program, on one core where that is given; give its pid."""

    def settle() -> None:
        if core is not None:
            os.sched_setaffinity(0, {core})
        os.sched_setscheduler(0, policy, os.sched_param(0))

    with subprocess.Popen([sys.executable, "-S", "-c", code], preexec_fn=settle) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def living(pid: int) -> list[Proc]:
    proc = process_table.read(pid)
    return [proc] if proc is not None and process_table.living(proc) else []


def awaited(pid: int, clock: FairClock) -> EngineFailure:
    """Wait for an answer that never comes."""
    channel = ControlChannel(lambda: (), lambda: "")
    channel.clock = clock
    pending, _ = channel.submit("hello", {})
    with Pulse(clock, lambda: (0,), lambda: living(pid)) as beat:
        with pytest.raises(EngineFailure) as raised:
            pending.wait(LIMIT_S)
    assert beat.failure is None
    return raised.value


@pytest.mark.parametrize("code", [SLEEPS, SPINS])
def test_one_that_hangs_fails(code: str) -> None:
    with started(code) as pid:
        assert awaited(pid, FairClock()).code == "NO_ANSWER"


@LONG
@pytest.mark.parametrize("hidden", [False, True])
def test_one_that_never_runs_is_not_failed(monkeypatch, hidden: bool) -> None:
    """It has the core only when nobody else wants it, and somebody always does."""
    if hidden:  # a kernel that tells nothing of pressure
        monkeypatch.setattr(process_sample, "pressure_s", lambda _: None)
    core = min(os.sched_getaffinity(0))
    clock = FairClock()
    with started(SPINS, core), started(SPINS, core, os.SCHED_IDLE) as pid:
        began = time.monotonic()
        with Pulse(clock, lambda: (0,), lambda: living(pid)):
            while time.monotonic() < began + 4 * LIMIT_S:
                assert not clock.overdue(began, 2 * LIMIT_S, "x", moves=False)
                threading.Event().wait(0.05)
    assert clock.lost_s(began) > 2 * LIMIT_S


def test_one_that_goes_on_is_waited_for_until_it_stands_still() -> None:
    clock, done, began = FairClock(), [0], time.monotonic()
    ends = began + 3 * LIMIT_S

    def position() -> tuple[int, ...]:
        done[0] += time.monotonic() < ends
        return (done[0],)

    with started(SLEEPS) as pid:
        channel = ControlChannel(lambda: (), lambda: "")
        channel.clock = clock
        pending, _ = channel.submit("drain", {})
        with Pulse(clock, position, lambda: living(pid)):
            with pytest.raises(EngineFailure, match="NO_ANSWER"):
                pending.wait(LIMIT_S)
    assert time.monotonic() > ends + LIMIT_S / 2


def test_a_pulse_that_breaks_leaves_an_ordinary_clock() -> None:
    clock, began = FairClock(), time.monotonic()

    def position() -> tuple[int, ...]:
        if time.monotonic() > began + 0.1:
            raise OSError("gone")
        return ()

    with Pulse(clock, position, list) as beat:
        beat._thread.join(DEADLINE_S)
        assert str(beat.failure) == "gone"
        assert clock.overdue(began, 0.1, "x")


def test_what_threads_have_waited() -> None:
    before = {(1, 1): Thread(5, 0, "R"), (1, 2): Thread(10**9, 3, "S"), (1, 3): Thread(9, 9, "S")}
    now = {
        (1, 1): Thread(5, 0, "R"),  # ready all the time, and never ran: the kernel has not said so
        (1, 2): Thread(10**9 + 2 * 10**8, 3 + 10**8, "S"),
        (1, 3): Thread(4, 10**7, "S"),  # the number of another thread now
    }
    assert grown(before, now, 0.5) == [
        (0, 0.5),
        (pytest.approx(0.2), pytest.approx(0.1)),
        (pytest.approx(0, abs=1e-6), 0.01),
    ]


def test_threads_of_the_kit_that_only_look_around_excuse_no_engine() -> None:
    """On a loaded machine each of them waits whenever it wakes, though it has nothing to do."""

    def reading(kit: dict[tuple[int, int], Thread]) -> Reading:
        return Reading({}, kit, frozenset({0, 1}), frozenset({0, 1}), None, None)

    ticks = {(1, tid): Thread(0, 0, "S") for tid in range(4)}
    ticked = {key: Thread(10**6, 6 * 10**8, "S") for key in ticks}
    assert withheld_s(interval(reading(ticks), reading(ticked), 1.0, 0.0)) == 0
    works = ticked | {(1, 9): Thread(2 * 10**8, 8 * 10**8, "R")}
    assert withheld_s(interval(reading(ticks), reading(works), 1.0, 0.0)) > 0.7


@pytest.mark.parametrize(("engine_cores", "withheld"), [({0}, 1.0), ({0, 1}, 0.7), ({2}, 1.0)])
def test_what_the_kit_did_on_other_cores_kept_no_engine_waiting(engine_cores, withheld) -> None:
    """An engine bound to one core, or to two, waits all the time; the kit uses 0.6 s of two."""

    def reading(used_ns: int) -> Reading:
        waits, works = Thread(0, 0, "R"), Thread(used_ns, 0, "S")
        cores = frozenset(engine_cores), frozenset({0, 1})
        return Reading({(1, 1): waits}, {(2, 2): works}, *cores, None, None)

    seen = interval(reading(0), reading(6 * 10**8), 1.0, 0.0)
    assert withheld_s(seen) == pytest.approx(withheld)


def test_this_process_is_read() -> None:
    reading = pulse.read([proc for proc in [process_table.read(os.getpid())] if proc])
    assert reading.engine_cores == reading.kit_cores == os.sched_getaffinity(0)
    assert len(reading.engine) == len(reading.kit) + 1  # the thread that looks is not of the kit
