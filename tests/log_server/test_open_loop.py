"""The schedule of an open loop: fixed in advance, and kept whatever anybody does."""

from __future__ import annotations

import errno
import os
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from tickproof.conformance import resources
from tickproof.conformance.engines import spec
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.history import events, seal
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import PUBLISH, TICK, TICKS_FILE
from tickproof.conformance.history.run_record import Ended
from tickproof.conformance.history.tables import read_table
from tickproof.conformance.latency.samples import lateness_ns
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.open_loop import BLOCK, OpenLoop
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.server import LogServer
from tickproof.conformance.log_server.sink import Sink, SinkBehaviour
from tickproof.conformance.runner.run import play
from tickproof.conformance.scenario import Pace, Scenario

DEADLINE_S = 30
PARTITIONS = 3


def until(condition):
    tick, deadline = threading.Event(), time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        tick.wait(0.001)


def made_plan(ticks, seed=1):
    """Return a cumulative plan; some ticks move some partitions not at all."""
    moves = np.random.default_rng(seed).integers(0, 4, (ticks, PARTITIONS), dtype=np.uint64)
    moves[-1] = 1
    zero = np.zeros((1, PARTITIONS), np.uint64)
    return np.concatenate([zero, np.cumsum(moves, axis=0, dtype=np.uint64)])


class Open:
    """An open loop over a real log; ``told`` holds what was told of the schedule."""

    def __init__(self, folder, plan, tick_us=1_000, passed=lambda due: due, **options):
        path = folder / "input"
        sources = []
        for number, records in enumerate(plan[-1].tolist()):
            path.write_bytes(b"\x01\0\0\0x" * 10_000)
            sources.append(
                SimpleNamespace(
                    stream=0, partition=number, path=path, record_size=1, records=records
                )
            )
        self.folder, self.plan, self.told, self.events = folder, plan, {}, []
        self.log = InputLog(sources, folder, self.note)
        self.tick_ns = tick_us * 1_000
        pace = Pace(tick_us, 0.0)
        self.loop = OpenLoop(self.log, plan, pace, passed, folder, self.told.update, **options)

    def note(self, event, *_, **fields):
        self.events.append(event)

    def serve(self):
        """Publish by a log server to whom nobody ever connects."""
        recorder = Recorder(self.folder / "output", {0: 1}, self.note)
        sink = Sink(SinkBehaviour(), self.note)
        with LogServer(self.log, recorder, sink, self.note, clock=self.loop) as server:
            self.loop.start()
            until(lambda: self.log.ended or server.failure)
            assert server.failure is None
            self.loop.stop()
        recorder.close()

    def ticks(self):
        return read_table(self.folder / TICKS_FILE, TICK)

    def publishes(self):
        return read_table(self.folder / "publishes.bin", PUBLISH)

    def intended(self):
        """Return t0 of the schedule, and the intended time of every row of publishes.bin."""
        rows, t0 = self.publishes(), self.told["pace"]["t0_ns"]
        due = np.empty(len(rows), np.int64)
        for partition in range(PARTITIONS):
            of = rows["partition"] == partition
            row = np.searchsorted(self.plan[:, partition], rows["end"][of], side="left")
            due[of] = t0 + (row - 1) * self.tick_ns
        return t0, due


@pytest.mark.parametrize(("ticks", "tick_us"), [(300, 1_000), (2_000, 100)])
def test_rows_are_published_when_due_and_never_before_though_nobody_fetches(
    tmp_path, ticks, tick_us
):
    made = Open(tmp_path, made_plan(ticks), tick_us)
    made.serve()
    assert made.told["pace"]["ticks"] == ticks == len(made.ticks())
    assert made.told["pace"]["tick_ns"] == tick_us * 1_000
    t0, due = made.intended()
    assert (made.publishes()["t_ns"] >= due).all()
    late = lateness_ns(made.ticks(), t0, made.tick_ns)
    assert (late > 0).all()
    assert (np.diff(made.ticks()["t_ns"]) >= 0).all()
    # A tick is noted after it was published: what is late is never understated.
    for end, at in zip(made.plan[1:, 0], made.ticks()["t_ns"], strict=True):
        rows = made.publishes()
        row = np.argmax((rows["partition"] == 0) & (rows["end"] >= end))
        assert end == 0 or rows["t_ns"][row] <= at
    assert made.log.published == int(made.plan[-1].sum())
    assert made.events == ["end-published"]


def test_what_came_due_meanwhile_is_published_at_once_and_each_tick_noted(tmp_path):
    made = Open(tmp_path, made_plan(3 * BLOCK))
    made.loop.start()
    t0 = made.told["pace"]["t0_ns"]
    assert made.loop.due_ns == t0
    made.loop.publish_due()
    assert made.log.published == 0  # it is not due yet
    until(lambda: time.monotonic_ns() > t0 + 20 * made.tick_ns)
    made.loop.publish_due()
    first = made.log.published
    assert first >= made.plan[20].sum()
    assert made.loop.due_ns > t0 + 20 * made.tick_ns
    until(lambda: time.monotonic_ns() > t0 + 3 * BLOCK * made.tick_ns)
    made.loop.publish_due()
    assert made.log.ended
    assert made.loop.due_ns is None
    made.loop.publish_due()
    made.loop.stop()
    ticks = made.ticks()["t_ns"]
    assert len(ticks) == 3 * BLOCK
    moments, counts = np.unique(ticks, return_counts=True)
    assert len(moments) == 2 and counts[0] >= 20
    assert made.plan[counts[0]].sum() == first
    # One row for each partition that moved, in each of the two.
    assert len(made.publishes()) <= 2 * PARTITIONS
    late = lateness_ns(made.ticks(), t0, made.tick_ns)
    assert (np.diff(late[: counts[0]]) == -made.tick_ns).all()


def test_where_arrivals_are_reported_a_tick_is_noted_once_every_partition_has_it(tmp_path):
    made = Open(tmp_path, made_plan(50), reported=True)
    made.loop.start()
    until(lambda: time.monotonic_ns() > made.loop.due_ns + 50 * made.tick_ns)
    made.loop.publish_due()
    assert made.log.published == int(made.plan[-1].sum())
    assert made.loop.due_ns is None and not made.log.ended
    made.loop.arrived([0] * PARTITIONS)
    # One partition is behind: what it lacks keeps back the ticks of all.
    ends = made.plan[20].tolist()
    ends[1] = int(made.plan[10][1])
    before_ns = time.monotonic_ns()
    made.loop.arrived(ends)
    made.loop.arrived(made.plan[-1].tolist())
    assert made.log.ended and made.events == ["end-published"]
    made.loop.stop()
    ticks = made.ticks()["t_ns"]
    assert len(ticks) == 50 and (ticks >= before_ns).all()
    rows = np.flatnonzero(ticks == ticks[0])[-1] + 1
    assert made.plan[rows][1] <= ends[1] < made.plan[rows + 1][1]


def test_arrivals_after_the_stop_are_not_noted(tmp_path):
    made = Open(tmp_path, made_plan(50), reported=True)
    made.loop.start()
    until(lambda: time.monotonic_ns() > made.loop.due_ns + 50 * made.tick_ns)
    made.loop.publish_due()
    made.loop.stop()
    made.loop.arrived(made.plan[-1].tolist())
    assert len(made.ticks()) == 0 and not made.log.ended


def test_a_schedule_is_put_off_until_its_first_tick_and_no_longer(tmp_path):
    made = Open(tmp_path, made_plan(50))
    made.loop.postpone()
    assert made.told == {} and made.loop.due_ns is None
    made.loop.start()
    first_ns = made.told["pace"]["t0_ns"]
    made.loop.postpone()
    put_off_ns = made.told["pace"]["t0_ns"]
    assert first_ns < put_off_ns == made.loop.due_ns
    until(lambda: time.monotonic_ns() > put_off_ns)
    made.loop.publish_due()
    made.loop.postpone()
    assert made.told["pace"]["t0_ns"] == put_off_ns
    made.loop.stop()


def test_a_limit_is_told_and_not_obeyed(tmp_path):
    asked = []

    def passed(due):
        asked.append(due)
        return 0

    made = Open(tmp_path, made_plan(50), passed=passed)
    made.serve()
    assert asked == sorted(asked)
    assert asked[-1] == made.log.published == int(made.plan[-1].sum())
    assert not made.loop.held_back


def test_a_run_that_is_stopped_has_fewer_ticks_and_no_end(tmp_path):
    made = Open(tmp_path, made_plan(100_000 // PARTITIONS // 10))
    made.loop.start()
    until(lambda: time.monotonic_ns() > made.loop.due_ns)
    made.loop.publish_due()
    made.loop.stop()
    made.loop.publish_due()
    rows = len(made.ticks())
    assert 1 <= rows < len(made.plan) - 1
    assert made.log.published == made.plan[rows].sum()
    assert made.events == []


def test_an_empty_plan_ends_at_once(tmp_path):
    made = Open(tmp_path, np.zeros((1, PARTITIONS), np.uint64))
    made.serve()
    assert made.log.ended
    assert len(made.ticks()) == 0


def test_a_full_disk_is_noted_and_the_schedule_goes_on(tmp_path):
    (tmp_path / TICKS_FILE).symlink_to("/dev/full")
    made = Open(tmp_path, made_plan(2 * BLOCK))
    made.serve()
    assert made.loop.failure.errno == errno.ENOSPC
    assert made.log.published == int(made.plan[-1].sum())


def test_lateness():
    ticks = np.array([(100,), (115,), (115,), (140,)], TICK)
    assert lateness_ns(ticks, 100, 10).tolist() == [0, 5, -5, 10]
    assert lateness_ns(ticks[:0], 100, 10).tolist() == []


# -- in a run --------------------------------------------------------------------------------


def paced(**pace):
    recipe = {"kind": "payloads", "size": 9, "seed": 1, "records": 400, "partitions": 2, "tick": 1}
    return Scenario("paced", "passthrough", {}, recipe, rate=1_000, pace=Pace(1_000, 0.0, **pace))


def stopped(folder, **pace):
    """Play a run that the kit cannot play; return the reason and the history."""
    engine = spec.load(resources.fixtures() / "engines" / "minimal")
    with pytest.raises(KitStopped) as raised:
        play(paced(**pace), engine, folder, seed=1, usage=None)
    for table in folder.glob("*.bin"):
        if table.is_symlink():  # to a full disk: no History reads it
            table.unlink()
    history = History(folder)
    assert history.ended == Ended(how="kit-error", message=str(raised.value))
    return str(raised.value), history


def test_a_priority_that_is_refused_is_named(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    why, history = stopped(tmp_path / "run", priority=50)
    assert "SCHED_FIFO, priority 50, for what publishes: Operation not permitted" in why
    assert history.all(events.Started) == []


@pytest.mark.parametrize("when", ["start", "middle"])
def test_a_failure_of_the_log_server_is_the_kits(tmp_path, monkeypatch, when):
    real, calls = LogServer._turn, []

    def turn(server):
        calls.append(1)
        if (when == "start" and server.live) or server.log.published > 100:
            raise RuntimeError("the loop is broken")
        real(server)

    monkeypatch.setattr(LogServer, "_turn", turn)
    why, history = stopped(tmp_path / "run")
    assert "RuntimeError('the loop is broken')" in why
    (row,) = history.all(events.LoopFailed)
    assert "Traceback" in row.text


def test_recording_that_stops_keeps_the_folder(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "fetches.bin").symlink_to("/dev/full")
    why, history = stopped(folder)
    assert why == f"recording into {folder} stopped: No space left on device"
    assert "publishes.bin" in seal.read(folder)
    assert "fetches.bin" not in seal.read(folder)
    assert len(history.publishes)
