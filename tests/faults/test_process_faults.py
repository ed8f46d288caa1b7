"""Deaths of several processes and faults of the state's folder, on live engines."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.judging import judge_of
from tests.long import LONG, few
from tests.suites import tampering
from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.fair_clock import FairClock
from tickproof.conformance.engines.isolation import disk_obstacle
from tickproof.conformance.engines.process import Engine
from tickproof.conformance.engines.spec import load
from tickproof.conformance.engines.topology import Member
from tickproof.conformance.fault_steps import (
    DAMAGE,
    CorruptStep,
    FaultStep,
    FillStep,
    KillEngineStep,
    KillStep,
    PowerStep,
    WipeStep,
    fault_step,
)
from tickproof.conformance.faults.injector import Crew, ProcessFaultInjector
from tickproof.conformance.history import events
from tickproof.conformance.history.event_log import EventLog
from tickproof.conformance.history.folder import History
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner.run import play
from tickproof.conformance.selftest import mutants
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.judge import Fail, Unknown
from tickproof.conformance.suites.require import require_exact_after_faults
from tickproof.conformance.suites.scenarios import Context

SEED = 3
RECORDS = 20_000
Edits = list[tuple[str, str, str]]


def engine(folder: Path, *edits: tuple[str, str, str], name: str = "miniature") -> Path:
    """Copy an engine with edits (file, old, new); return its folder."""
    shutil.copytree(fixtures() / "engines" / name, folder)
    for file, old, new in edits:
        text = (folder / file).read_text(encoding="utf-8")
        assert text.count(old) == 1, (file, old)
        (folder / file).write_text(text.replace(old, new), encoding="utf-8")
    return folder


def sound_variant(id_: str, folder: Path) -> Path:
    return mutants.make(mutants.find(f"variant:{id_}", fixtures()), fixtures(), folder).parent


def played(made: Path, scenario: str, *faults: FaultStep) -> History:
    """Play a scenario with less input, with its own faults or with others."""
    drawn = draw(scenario, Context(SEED))
    recipe = drawn.recipe | {"records": RECORDS}
    # So slow that faults that come after a while still find input.
    changed = replace(drawn, recipe=recipe, rate=20_000.0, faults=faults or drawn.faults)
    folder = made.parent / f"{made.name}-run"
    play(changed, load(made / "engine.toml"), folder, seed=SEED)
    return History(folder)


def completed(history: History) -> None:
    assert history.ended.how == "completed"
    assert history.record.scenario.faults
    assert history.missed_faults == []


def named(history: History, role: str) -> set[int]:
    """Return the pids of a role in the first topology."""
    processes = history.all(events.Topology)[0].processes
    return {process.pid for process in processes if process.role == role}


# -- processes ---------------------------------------------------------------------


def test_all_workers_die_at_once_and_the_engine_goes_on(tmp_path):
    history = played(engine(tmp_path / "e"), "count-all-workers-death")
    completed(history)
    assert set(history.faults[0].pids) == named(history, "worker")
    assert len(history.faults[0].pids) == 3
    assert len(history.all(events.Started)) == 1
    judge_of("EO-ALL-WORKERS", "count-all-workers-death")(history)


def test_with_the_coordinator_argv_dies_and_is_started_again(tmp_path):
    history = played(engine(tmp_path / "e"), "count-coordinator-death")
    completed(history)
    assert set(history.faults[0].pids) == named(history, "coordinator")
    assert [row.resume for row in history.all(events.Started)] == [False, True]
    assert len(history.all(events.Recovered)) == 1
    judge_of("EO-COORDINATOR-DEATH", "count-coordinator-death")(history)


def test_a_supervisor_that_outlives_the_coordinator_is_left_to_recover(tmp_path):
    history = played(
        sound_variant("supervised-coordinator", tmp_path / "e"), "count-coordinator-death"
    )
    completed(history)
    assert len(history.all(events.Started)) == 1
    assert set(history.faults[0].pids) == named(history, "coordinator")
    assert history.all(events.Started)[0].pid not in history.faults[0].pids
    judge_of("EO-COORDINATOR-DEATH", "count-coordinator-death")(history)


def test_a_drain_that_died_with_its_coordinator_is_asked_for_again(tmp_path):
    steps = [KillStep("draining", target="coordinator", fraction=f) for f in (0.3, 0.7)]
    made = sound_variant("supervised-coordinator", tmp_path / "e")
    history = played(made, "count-coordinator-death", *steps)
    completed(history)
    assert len(history.all(events.Started)) == 1
    assert len(history.all(events.DrainAsked)) == 3
    judge_of("EO-COORDINATOR-DEATH", "count-coordinator-death")(history)


#: argv's process waits for the coordinator and ends with a status of its own.
WAITING = (
    "adapter.py",
    '\nif __name__ == "__main__":\n    Coordinator().run()\n',
    """
if __name__ == "__main__":
    child = os.fork()
    if child == 0:
        Coordinator().run()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(status if status >= 0 else {status})
""",
)


def waiting(status: int) -> tuple[str, str, str]:
    return (*WAITING[:2], WAITING[2].replace("{status}", str(status)))


def test_a_supervisor_that_ends_with_the_coordinator_is_started_again(tmp_path):
    history = played(engine(tmp_path / "e", waiting(3)), "count-coordinator-death")
    completed(history)
    assert [row.resume for row in history.all(events.Started)] == [False, True]
    assert history.all(events.Exited)[0].returncode == 3
    judge_of("EO-COORDINATOR-DEATH", "count-coordinator-death")(history)


def test_a_supervisor_that_ends_as_if_all_were_well_is_at_fault(tmp_path):
    history = played(engine(tmp_path / "e", waiting(0)), "count-coordinator-death")
    assert (history.ended.how, history.ended.code) == ("engine-failure", "EXITED")
    with pytest.raises(Fail, match="EXITED"):
        judge_of("EO-COORDINATOR-DEATH", "count-coordinator-death")(history)


def test_a_process_that_stands_still_twice_at_a_time_goes_on_after_both(tmp_path):
    """The end of the first pause woke it in the second, and the engine was said to have."""
    # The first lasts so long that the second begins in it on a busy machine, too.
    first, second = (
        fault_step("pause", "workers", "fetched", fraction=0.4, seconds=each) for each in (2.0, 0.3)
    )
    history = played(engine(tmp_path / "e"), "count-pause", first, second, first)
    completed(history)
    resumed = history.all(events.Resumed)
    assert len(resumed) == 3 * len(named(history, "worker"))
    assert not any(one.ran for one in resumed)
    began = sorted({one.from_ns for one in resumed})
    assert began[1] < min(one.t_ns for one in resumed)  # else they were not at a time
    assert max(one.t_ns for one in resumed) - began[0] > 2e9


def test_a_pause_that_begins_as_another_one_ends_is_held(tmp_path):
    """The end of the first took its time, and then woke who stood still for the second."""
    with subprocess.Popen(["sleep", "60"]) as process:
        worker = Member(process.pid, "worker", "w", os.pidfd_open(process.pid))
        log = EventLog(tmp_path / "events.jsonl")
        made = ProcessFaultInjector(tmp_path / "stderr.log", log, 1, 1.0, FairClock())
        crew = Crew(cast(Engine, None), [worker])
        looking, looked = threading.Event(), threading.Event()
        made.look = lambda: (looking.set(), looked.wait(10))[0]
        made.pause([worker], 0.0, crew)
        second = threading.Thread(target=made.pause, args=([worker], 1.0, crew))
        end = threading.Thread(target=made.end_due)
        end.start()
        assert looking.wait(10)
        second.start()
        second.join(0.2)  # it stops the process in this time, if nothing keeps it from it
        looked.set()
        end.join()
        second.join()
        made.look = lambda: None
        assert process_table.stands(process_table.table()[process.pid])
        process.kill()
        log.close()


@pytest.mark.parametrize("do", few(["kill", "pause"]))
def test_a_coordinator_that_is_not_there_is_a_missed_fault(tmp_path, do):
    one = (
        "adapter.py",
        '"role": "coordinator", "name": "coordinator"',
        '"role": "engine", "name": "all"',
    )
    given = {"seconds": 0.2} if do == "pause" else {}
    step = fault_step(do, "coordinator", "fetched", fraction=0.4, **given)
    history = played(engine(tmp_path / "e", one), "count-coordinator-death", step)
    assert [row.why for row in history.missed_faults] == ["topology names no living coordinator"]
    with pytest.raises(Unknown, match="KILL_MISSED"):
        judge_of("EO-COORDINATOR-DEATH", "count-coordinator-death")(history)


@pytest.mark.parametrize(("target", "role"), [("workers", "worker"), ("coordinator",) * 2])
def test_all_of_a_role_stand_still_and_go_on(tmp_path, target, role):
    step = fault_step("pause", target, "fetched", fraction=0.4, seconds=0.3)
    history = played(engine(tmp_path / "e"), "count-pause", step)
    completed(history)
    assert set(history.faults[0].pids) == named(history, role)
    resumed = history.all(events.Resumed)
    assert {row.pid for row in resumed} == named(history, role)
    assert all(row.t_ns - row.from_ns >= 0.3e9 for row in resumed)
    assert len(history.all(events.Drained)) == 1


# -- a full disk -----------------------------------------------------------------------

#: No cut but the one at END.
RARE = [
    ("partition.py", "CUT_RECORDS = 10_000", "CUT_RECORDS = 10**9"),
    ("partition.py", "CUT_SECONDS = 0.1", "CUT_SECONDS = 1e9"),
    ("worker.py", "CUT_SECONDS / 4", "0.02"),
]
FULL = FillStep("fetched", fraction=0.3, seconds=0.8, cut=True)


def test_an_engine_that_waits_for_room_is_killed_while_there_is_none(tmp_path):
    history = played(engine(tmp_path / "e"), "count-full-disk")
    completed(history)
    full, death = history.faults
    (over,) = history.all(events.FillOver)
    assert full.t_ns < death.t_ns < over.to_ns
    assert over.empty
    assert "File too large" in over.words
    judge_of("EO-FULL-DISK", "count-full-disk")(history)


def test_an_engine_that_waits_for_room_goes_on_when_there_is_some(tmp_path):
    history = played(engine(tmp_path / "e"), "count-full-disk", FULL)
    completed(history)
    (over,) = history.all(events.FillOver)
    assert over.to_ns - over.from_ns >= 0.8e9
    assert len(history.all(events.Started)) == 1
    assert int(history.releases["t_ns"].max()) > over.to_ns


def test_an_engine_that_ends_on_a_full_disk_is_started_again_and_has_room(tmp_path):
    history = played(sound_variant("ends-on-a-full-disk", tmp_path / "e"), "count-full-disk")
    assert history.ended.how == "completed"
    assert history.all(events.Exited)[0].returncode == 1
    assert [row.resume for row in history.all(events.Started)][:2] == [False, True]
    judge_of("EO-FULL-DISK", "count-full-disk")(history)


def test_an_engine_that_ends_as_if_all_were_well_is_at_fault(tmp_path):
    made = sound_variant("ends-on-a-full-disk", tmp_path / "e")
    text = (made / "adapter.py").read_text()
    assert text.count("self._end(1)") == 1
    (made / "adapter.py").write_text(text.replace("self._end(1)", "self._end(0)"))
    history = played(made, "count-full-disk", FULL)
    assert history.ended.code == "EXITED"
    with pytest.raises(Fail, match="EXITED"):
        judge_of("EO-FULL-DISK", "count-full-disk")(history)


def test_an_engine_that_wrote_nothing_shows_nothing(tmp_path):
    """The fault met no write: unknown, though all totals are right."""
    step = replace(FULL, seconds=0.3, cut=False)
    history = played(engine(tmp_path / "e", *RARE), "count-full-disk", step)
    completed(history)
    with pytest.raises(Unknown, match="NOTHING_HELD_BACK"):
        judge_of("EO-FULL-DISK", "count-full-disk")(history)


def test_drain_is_asked_again_where_it_was_refused_in_the_wake_of_a_fault(tmp_path):
    once = (
        "adapter.py",
        '        self.draining.append(request["id"])\n',
        '        self.refused = getattr(self, "refused", 0) + 1\n'
        "        if self.refused < 3:\n"
        '            return self._refuse(request, "not yet")\n'
        '        self.draining.append(request["id"])\n',
    )
    history = played(engine(tmp_path / "e", once), "count-full-disk", FULL)
    completed(history)
    assert len(history.all(events.DrainAsked)) == 3
    calm = FULL.instead("kill", "workers")
    again = played(engine(tmp_path / "other", once), "count-full-disk", calm)
    assert again.ended.code == "REFUSED"


# -- the loss of power ---------------------------------------------------------------------

#: A cut is not synced before it gets its name, or its folder is not after that.
UNSYNCED = ("checkpoint.py", "        os.fsync(file.fileno())\n", "")
UNNAMED = ("checkpoint.py", "    _sync_folder(path.parent)\n", "")
AT_RENAME = PowerStep("renamed", fraction=0.4, loss="content")
BETWEEN = PowerStep("fetched", fraction=0.4, cut=True, loss="all")


@pytest.mark.skipif(bool(disk_obstacle()), reason=f"no power can be lost: {disk_obstacle()}")
@pytest.mark.parametrize(
    ("step", "edits", "lost"),
    [
        (AT_RENAME, [], False),
        (AT_RENAME, [UNSYNCED], True),
        (BETWEEN, [], False),
        pytest.param(BETWEEN, [UNNAMED], True, marks=LONG),
        pytest.param(BETWEEN, [UNSYNCED], True, marks=LONG),
    ],
)
def test_a_loss_of_power_takes_what_was_not_synced(tmp_path, step, edits, lost):
    history = played(engine(tmp_path / "e", *edits), "count-power-loss", step)
    fault = history.all(events.FiredFault)[0]
    assert fault.writes and fault.pids
    assert bool(fault.lost_bytes or fault.lost_names) >= lost
    assert (step is BETWEEN) or fault.writing.startswith("partition-")
    assert history.ended.how == ("engine-failure" if lost else "completed")
    if not lost:
        completed(history)
        judge_of("EO-POWER-LOSS", "count-power-loss")(history)
        return
    assert fault.lost_files[0].startswith("partition-")
    with pytest.raises(Fail, match=r"EXITED|RELEASED"):
        judge_of("EO-POWER-LOSS", "count-power-loss")(history)


# -- an end by SIGTERM -------------------------------------------------------------------


def at_sigterm(does: str) -> tuple[tuple[str, str, str], ...]:
    """Return edits by which every process of the miniature does this when it gets SIGTERM."""
    handler = f"import os, signal, sys; signal.signal(signal.SIGTERM, {does})"
    return (
        ("worker.py", "import traceback\n", f"import traceback\n{handler}\n"),
        ("adapter.py", "import signal\n", f"import signal\n{handler}\n"),
    )


@pytest.mark.parametrize(
    ("does", "grace_s", "said"),
    [
        ("lambda *_: (print('goodbye', file=sys.stderr, flush=True), os._exit(3))", 30.0, True),
        ("signal.SIG_IGN", 0.2, False),
    ],
)
def test_an_engine_is_told_to_end_before_it_is_killed(tmp_path, does, grace_s, said):
    step = KillEngineStep("fetched", fraction=0.5, cut=True, grace_s=grace_s)
    history = played(engine(tmp_path / "e", *at_sigterm(does)), "count-terminated", step)
    completed(history)
    (fault,) = history.faults
    lasted_s = (fault.struck_ns - fault.t_ns) / 1e9
    assert len(fault.pids) >= 2
    assert lasted_s < grace_s if said else lasted_s >= grace_s
    assert fault.text.startswith(
        f"SIGTERM of the engine, and SIGKILL of what is left {grace_s:g} s"
    )
    assert ("goodbye" in "".join(history.stderr_tail())) is said
    require_exact_after_faults(history)


# -- a damaged file ----------------------------------------------------------------------


#: Kinds of damage that leave no byte less.
SAME_SIZE = ("bit", "garbage")
#: Kinds that are not tried each day.
REST = ("half", "missing", "tail", "empty", "garbage")


@pytest.mark.parametrize("kind", ["bit", *(pytest.param(k, marks=LONG) for k in REST)])
def test_a_checkpoint_that_is_damaged_is_refused_clearly(tmp_path, kind):
    drawn = draw("count-lost-checkpoint", Context(SEED)).faults[0]
    step = replace(drawn, damage=kind)
    history = played(engine(tmp_path / "e"), "count-lost-checkpoint", step)
    event = history.all(events.FiredFault)[0]
    assert event.file.startswith("partition-")
    assert (event.left == event.size) is (kind in SAME_SIZE)
    assert event.size > event.left or kind in SAME_SIZE
    assert (event.step.damage, event.how) == (kind, DAMAGE[kind])
    assert history.all(events.DamageOver)[0].read is (None if kind == "missing" else True)
    assert history.ended.code == "EXITED"
    judge_of("EO-DAMAGED-CHECKPOINT", "count-lost-checkpoint")(history)
    # An engine that reads its state after the answer to deploy says so when it is asked to drain.
    later = history.ended.model_dump() | {"code": "REFUSED", "status": None}
    tampering.unsealed(tmp_path / "e-run")
    tampering.in_run(ended=later)(tmp_path / "e-run")
    tampering.without("not-restarted", "ended-unasked")(tmp_path / "e-run")
    judge_of("EO-DAMAGED-CHECKPOINT", "count-lost-checkpoint")(History(tmp_path / "e-run"))


#: A worker whose file is gone begins anew where the log begins, and says nothing.
FRESH = (
    "partition.py",
    "cut = checkpoint.read(self._path) or start",
    "first = struct.unpack_from('<Q', source.call(3, struct.pack('<HH', 0, number)), 4)[0]\n"
    "        fresh = checkpoint.Cut(0, {0: first}, first, app.empty)\n"
    "        cut = checkpoint.read(self._path) or fresh",
)


def test_an_empty_disk_has_nothing_of_the_state(tmp_path):
    wipe = WipeStep("fetched", fraction=0.5, cut=True)
    history = played(engine(tmp_path / "e", FRESH), "count-engine-death", wipe)
    completed(history)
    (fault,) = history.faults
    assert fault.lost_names >= 1 and fault.lost_bytes > 0
    with pytest.raises(Fail, match="wrong-total"):  # every total began again
        judge_of("EO-ENGINE-DEATH", "count-engine-death")(history)


def test_a_removed_file_counts_only_where_its_engine_could_know_of_it(tmp_path):
    fault = CorruptStep("fetched", fraction=0.5, cut=True, damage="missing")
    history = played(engine(tmp_path / "e", FRESH), "count-lost-checkpoint", fault)
    completed(history)
    with pytest.raises(Fail, match="wrong-total"):
        judge_of("EO-DAMAGED-CHECKPOINT", "count-lost-checkpoint")(history)
    tampering.unsealed(tmp_path / "e-run")
    tampering.none_released(tmp_path / "e-run")
    with pytest.raises(Unknown, match=r"NO_CUT_BEFORE_KILL: .* none in partition 0 of stream 0"):
        judge_of("EO-DAMAGED-CHECKPOINT", "count-lost-checkpoint")(History(tmp_path / "e-run"))


#: Each cut is noted in a file that nobody reads.
LOGGED = (
    "checkpoint.py",
    "    os.replace(new, path)",
    "    os.replace(new, path)\n"
    "    with (path.parent / 'log').open('a') as log:\n"
    "        log.write('a cut')\n"
    "    os.utime(path.parent / 'log', ns=(0, 2**61))\n#",
)


def test_damage_to_a_file_that_nobody_reads_shows_nothing(tmp_path):
    for number in range(5):  # a death may come between a cut and its line in the log
        history = played(engine(tmp_path / str(number), LOGGED), "count-damaged-checkpoint")
        if history.all(events.FiredFault)[0].file == "log":
            break
    completed(history)
    assert history.all(events.FiredFault)[0].file == "log"
    with pytest.raises(Unknown, match="DAMAGE_UNREAD"):
        judge_of("EO-DAMAGED-CHECKPOINT", "count-damaged-checkpoint")(history)


def test_without_any_file_the_fault_missed(tmp_path):
    kept = ("partition.py", 'Path(job["state_dir"]) /', 'Path(job["state_dir"]).parent /')
    history = played(engine(tmp_path / "e", kept), "count-damaged-checkpoint")
    assert "no file with content" in history.missed_faults[0].why
    assert len(history.all(events.Started)) == 1
    with pytest.raises(Unknown, match="KILL_MISSED"):
        judge_of("EO-DAMAGED-CHECKPOINT", "count-damaged-checkpoint")(history)
