"""Who used the processors: simulated families against the truth, and real neighbours."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.process_table import Proc
from tickproof.conformance.history.rows import ANY_CORE
from tickproof.conformance.usage import processor_time
from tickproof.conformance.usage.processor_time import TICKS, Accounts

INIT, KIT, REAPER, ENGINE, NEIGHBOUR = 1, 100, 200, 300, 900


@pytest.fixture
def kit(monkeypatch):
    """Let the kit be the process 100."""
    monkeypatch.setattr(processor_time.os, "getpid", lambda: KIT)


def proc(pid: int, parent: int, used: int = 0, waited: int = 0, core: int = 0, name="x") -> Proc:
    return Proc(pid, parent, "S", pid, 1, name, used, waited, core)


def table(*rows: Proc) -> dict[int, Proc]:
    return {row.pid: row for row in rows}


def test_each_second_belongs_to_kit_engine_or_others(kit) -> None:
    found = Accounts()
    for used in (1, 2):
        engine = found.update(
            table(
                proc(INIT, 0, used),
                proc(2, 0, 7 * used, name="kthreadd"),
                proc(3, 2, 9 * used),
                proc(KIT, 50, 10 * used),
                proc(101, KIT, 100 * used),
                proc(REAPER, KIT, 1_000 * used),
                proc(ENGINE, REAPER, 10_000 * used),
                proc(301, ENGINE, 100_000 * used),
                proc(NEIGHBOUR, INIT, 1_000_000 * used, core=5),
            ),
            [REAPER],
        )
        assert [p.pid for p in engine] == [ENGINE, 301]
        assert found.engine_s == pytest.approx(110_000 * used / TICKS)
        assert found.kit_s == pytest.approx(1_110 * used / TICKS)
        assert found.busy_s == pytest.approx(1_111_111 * used / TICKS)
        assert found.others == ({} if used == 1 else {0: 1 / TICKS, 5: 1_000_000 / TICKS})


def test_a_broker_that_another_process_has_started_belongs_to_the_kit(kit) -> None:
    found = Accounts([NEIGHBOUR])
    for used in (1, 2):
        rows = [proc(NEIGHBOUR, INIT, 10 * used), proc(901, NEIGHBOUR, 100 * used)]
        found.update(table(proc(INIT, 0), proc(KIT, 50, used), *rows, proc(902, 1, 5 * used)), [])
        assert found.kit_s == pytest.approx(111 * used / TICKS)
        assert found.others == ({} if used == 1 else {0: 5 / TICKS})
    found = Accounts([KIT])  # it is known already
    found.update(table(proc(KIT, 50, 7)), [])
    assert found.kit_s == pytest.approx(7 / TICKS)


def test_what_a_dead_engine_used_is_not_taken_for_that_of_others(kit) -> None:
    found = Accounts()
    found.update(table(proc(KIT, 1), proc(REAPER, KIT), proc(ENGINE, REAPER, 50)), [REAPER])
    # It was killed; it and its reaper were waited for, and another one has started.
    found.update(
        table(proc(KIT, 1, 5, waited=70), proc(201, KIT), proc(310, 201, 7)), [REAPER, 201]
    )
    assert found.busy_s == pytest.approx(82 / TICKS)
    assert found.engine_s == pytest.approx(57 / TICKS)
    assert found.kit_s == pytest.approx(25 / TICKS)
    assert found.others == {}


def test_a_worker_that_nobody_waits_for_takes_no_time_back(kit) -> None:
    found = Accounts()
    rest = [proc(KIT, 1), proc(REAPER, KIT)]
    found.update(table(*rest, proc(ENGINE, REAPER, 10), proc(301, ENGINE, 5_000)), [REAPER])
    found.update(table(*rest, proc(ENGINE, REAPER, 30)), [REAPER])
    assert found.engine_s == pytest.approx(5_030 / TICKS)
    found.update(table(*rest, proc(ENGINE, REAPER, 31)), [REAPER])
    assert found.engine_s == pytest.approx(5_031 / TICKS)


def test_what_short_lived_neighbours_used_ran_on_an_unknown_core(kit) -> None:
    found = Accounts()
    found.update(table(proc(KIT, 1), proc(NEIGHBOUR, 1, 10, core=3)), [])
    found.update(table(proc(KIT, 1), proc(NEIGHBOUR, 1, 12, waited=40, core=3)), [])
    assert found.others == {3: 2 / TICKS, ANY_CORE: 40 / TICKS}


@dataclass
class Family:
    """Processes that use time, start others, and end; 1 lives for ever and adopts orphans."""

    rows: dict[int, list[int]] = field(
        default_factory=lambda: {1: [0, 0, 0]}
    )  # parent, used, waited
    born: int = 1
    truth: int = 0

    def act(self, who: int, does: str, ticks: int) -> None:
        pid = sorted(self.rows)[who % len(self.rows)]
        parent, used, waited = self.rows[pid]
        if does == "use":
            self.rows[pid][1] += ticks
            self.truth += ticks
        elif does == "start":
            self.born += 1
            self.rows[self.born] = [pid, 0, 0]
        elif pid != 1:
            if does == "end":
                self.rows[parent][2] += used + waited
            del self.rows[pid]
            for row in self.rows.values():
                row[0] = 1 if row[0] == pid else row[0]

    def look(self) -> list[Proc]:
        return [proc(pid, row[0], row[1], row[2]) for pid, row in self.rows.items()]


def acts(*kinds: str):
    step = st.tuples(st.integers(0, 20), st.sampled_from(kinds), st.integers(0, 50))
    return st.lists(st.lists(step, max_size=8), min_size=1, max_size=12)


@given(between=acts("use", "start", "end"))
def test_all_time_is_counted_whoever_comes_and_goes(between) -> None:
    family, meter = Family(), processor_time._Meter()
    for steps in between:
        for step in steps:
            family.act(*step)
        meter.read(family.look())
        assert meter.total == family.truth


@given(between=acts("use", "start", "end", "vanish"), last=acts("use", "start", "end"))
def test_time_of_which_nobody_tells_is_lost_once_and_no_more(between, last) -> None:
    family, meter = Family(), processor_time._Meter()
    before = 0
    for steps in between:
        for step in steps:
            family.act(*step)
        meter.read(family.look())
        assert before <= meter.total <= family.truth
        before = meter.total
    lost = family.truth - meter.total
    for steps in last:
        for step in steps:
            family.act(*step)
        meter.read(family.look())
        assert family.truth - meter.total == lost


BURN = textwrap.dedent("""
    import os, sys, time
    first = os.getpid()
    if sys.argv[1] == "apart":
        if os.fork():
            os._exit(0)
        while os.getppid() == first:
            os.sched_yield()
    while time.process_time() < 1.0:
        pass
    print(time.process_time(), flush=True)
    sys.stdin.read()
""")


def burner(kind: str) -> subprocess.Popen[str]:
    """Start a process that burns, tells how much, and stays until its stdin ends."""
    return subprocess.Popen(
        [sys.executable, "-c", BURN, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("kind", ["apart", "child"])
def test_a_real_neighbour_is_told_from_a_child_of_the_kit(kind) -> None:
    found = Accounts()
    found.update(process_table.table(), [])
    busy, kit, before = found.busy_s, found.kit_s, time.process_time()
    with burner(kind) as process:
        burnt = float(process.stdout.readline())
        found.update(process_table.table(), [])
        looking = time.process_time() - before
        process.stdin.close()
    kit_s, others_s = found.kit_s - kit, found.busy_s - found.kit_s - (busy - kit)
    assert (others_s if kind == "apart" else kit_s) >= burnt - 2 / TICKS
    assert sum(found.others.values()) == pytest.approx(others_s)
    if kind == "apart":
        # Of what this process itself used all belongs to the kit: on some machines a look is dear.
        assert kit_s - looking < burnt


def test_times_of_a_process_are_those_that_it_knows_itself() -> None:
    before = process_table.read(os.getpid()).used
    own = os.times()
    after = process_table.read(os.getpid()).used
    assert before - 1 <= (own.user + own.system) * TICKS <= after + 1
