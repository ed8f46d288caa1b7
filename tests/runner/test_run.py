"""The runner's own deadlines, on live engines made from the minimal adapter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.starvation import Hogs
from tickproof.conformance.engines.failures import Code
from tickproof.conformance.engines.spec import load
from tickproof.conformance.fault_steps import FaultStep, KillEngineStep, KillStep
from tickproof.conformance.history import events
from tickproof.conformance.history.event_log import Listener
from tickproof.conformance.history.folder import History
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner import run_loop
from tickproof.conformance.runner.engine_lifecycle import STATE_DIRS, state_dir_end, style
from tickproof.conformance.runner.run import play
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.scenarios import Context

TOML = """
[engine]
name = "changed"
version = "1"
language = "python"
argv = ["{python}", "{here}/adapter.py"]
startup_timeout_s = 20
drain_timeout_s = 20
recovery_timeout_s = 1.5
transports = ["log"]

[claims]
state = "exactly-once"
delivery = "at-least-once"
survives = ["engine"]
rescale = "none"

[apps.passthrough]
"""


def engine(folder: Path, old: str = "", new: str = "") -> Path:
    """Write a copy of the minimal adapter with one change; return its engine.toml."""
    source = (fixtures() / "engines" / "minimal" / "adapter.py").read_text(encoding="utf-8")
    assert old == "" or source.count(old) == 1
    folder.mkdir()
    (folder / "adapter.py").write_text(source.replace(old, new) if old else source)
    (folder / "engine.toml").write_text(TOML)
    return folder / "engine.toml"


def played(
    toml: Path, folder: Path, faults: tuple[FaultStep, ...], listener: Listener | None = None
) -> History:
    scenario = draw("passthrough-deaths", Context(seed=3))
    recipe = scenario.recipe | {"records": RECORDS}
    play(
        replace(scenario, faults=faults, recipe=recipe, rate=40_000.0),
        load(toml),
        folder,
        seed=3,
        listener=listener,
    )
    return History(folder)


RECORDS = 30_000
KILL = KillEngineStep("fetched", fraction=0.5)


def test_an_engine_that_does_not_fetch_after_its_death_fails(tmp_path: Path) -> None:
    toml = engine(
        tmp_path / "e",
        '        for p in range(request["inputs"][0]["partitions"]):',
        '        if request["resume"]:\n'
        "            threads.append(threading.Thread(target=threading.Event().wait))\n"
        "            threads[-1].start()\n"
        '        for p in range(0 if request["resume"] else 4):',
    )
    history = played(toml, tmp_path / "run", (KILL,))
    assert len(history.faults) == 1
    assert history.ended.how == "engine-failure"
    assert history.ended.code == "NO_RECOVERY"
    assert "1.5 s" in history.ended.message


def test_an_engine_that_is_starved_after_its_death_does_not_fail(tmp_path: Path) -> None:
    """It starts again beside a program that leaves it nothing, for longer than all limits."""
    toml = engine(tmp_path / "e")
    toml.write_text(TOML.replace("startup_timeout_s = 20", "startup_timeout_s = 3"))
    starved: list[int] = []
    with Hogs() as hogs:

        def starve(row: dict[str, Any]) -> None:
            if row["event"] == "started" and row["resume"]:
                hogs.starve(row["pid"], 6.0)
                starved.append(row["pid"])

        history = played(toml, tmp_path / "run", (KILL,), starve)
    assert starved and len(history.faults) == 1
    # Where others are busy, too, the time of a run may be over before: that is no failure.
    assert history.ended.how == "completed" or history.ended.code == Code.MACHINE_BUSY


def test_a_moment_that_never_comes_lets_the_input_go_on(tmp_path: Path) -> None:
    # No output at all: "after output was acknowledged" cannot happen.
    toml = engine(tmp_path / "e", "        if records:\n", "        if False:\n")
    step = KillEngineStep("accepted", fraction=0.1)
    history = played(toml, tmp_path / "run", (step,))
    assert [row.why for row in history.missed_faults] == ["its moment did not come"]
    assert history.ended.how == "completed"
    assert history.fetched == 30_000


def test_a_worker_that_is_not_there_is_a_missed_fault(tmp_path: Path) -> None:
    step = KillStep("fetched", target="worker", fraction=0.5)
    history = played(engine(tmp_path / "e"), tmp_path / "run", (step,))
    (missed,) = history.missed_faults
    assert missed.why.startswith("topology names no living worker")
    assert history.ended.how == "completed"


def test_output_without_an_end_ends_the_run(tmp_path: Path) -> None:
    again = (
        "            while True:\n                call(log, 0x05, head + step(body[25:], state))\n"
    )
    once = "            call(log, 0x05, head + step(body[25:], state))\n"
    history = played(engine(tmp_path / "e", once, again), tmp_path / "run", ())
    assert history.ended.how == "engine-failure"
    assert history.ended.code == "ENDLESS"


def test_staged_output_without_an_end_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine may stage the same part again and again: none of it is ever recorded."""
    monkeypatch.setattr(run_loop, "ENDLESS_BYTES", 1 << 20)
    again = (
        "            while True:\n"
        "                call(log, 0x07, bytes(8) + head + step(body[25:], state))\n"
    )
    once = "            call(log, 0x05, head + step(body[25:], state))\n"
    history = played(engine(tmp_path / "e", once, again), tmp_path / "run", ())
    assert history.ended.code == "ENDLESS"
    assert "output bytes, staged ones among them" in history.ended.message


def test_what_stands_on_stdout_after_the_last_answer_counts(tmp_path: Path) -> None:
    toml = engine(tmp_path / "e", "        break\n", '        os.write(1, b"bye")\n        break\n')
    history = played(toml, tmp_path / "run", ())
    assert history.ended.code == "BAD_LINE"
    assert "bye" in history.ended.message


#: A worker that comes to light with an answer to topology, the first being number 1.
LATE_WORKER = """
        asked = globals()["asked"] = globals().get("asked", 0) + 1
        named = [{"pid": os.getpid(), "role": "engine", "name": "minimal"}]
        if asked == NUMBER:
            import subprocess
            worker = globals()["worker"] = subprocess.Popen(["sleep", "60"])
        if asked >= NUMBER:
            named.append({"pid": worker.pid, "role": "worker", "name": "w"})
        answer(request, processes=named)
"""


@pytest.mark.parametrize("number", [1, 4, 1000])
def test_workers_may_be_down_for_a_moment_and_not_for_good(tmp_path: Path, number: int) -> None:
    row = '{"pid": os.getpid(), "role": "engine", "name": "minimal"}'
    asked = f"        answer(request, processes=[{row}])\n"
    toml = engine(tmp_path / "e", asked, LATE_WORKER.replace("NUMBER", str(number)))
    toml.write_text(toml.read_text().replace('"engine"]', '"engine", "worker"]'))
    history = played(toml, tmp_path / "run", ())
    if number < 1000:
        (first, *_) = history.all(events.Topology)
        assert [one.role for one in first.processes] == ["engine", "worker"]
        assert history.ended.how == "completed"
    else:
        assert history.ended.code == "BAD_ANSWER"
        assert "names no worker" in history.ended.message


@pytest.mark.parametrize("moment", ["answer", "before"])
def test_drain_is_held_against_the_moment_of_its_answer(tmp_path: Path, moment: str) -> None:
    early = "    for thread in threads:\n        thread.join()\n"
    toml = engine(tmp_path / "e", early if moment == "before" else "", "")
    history = played(toml, tmp_path / "run", ())
    (drained,) = history.all(events.Drained)
    answered = [
        row["t_ns"]
        for row in history.control
        if row["direction"] == "from" and row["t_ns"] == drained.t_ns
    ]
    assert answered, "the event carries the time of the answer itself"
    assert drained.ended is True
    if moment == "answer":
        assert drained.outputs == 30_000


def test_the_name_of_the_state_dir_ends_the_same_in_a_replay():
    scenario = draw("passthrough-deaths", Context(seed=3))
    ends = [
        [state_dir_end(scenario.with_secret(f"{secret:032x}"), 3) for secret in range(20)]
        for _ in range(2)
    ]
    assert ends[0] == ends[1]
    assert {*ends[0]} == {*STATE_DIRS}


def test_requests_are_written_the_same_in_a_replay_and_show_nothing_of_the_seed():
    scenario = draw("passthrough-deaths", Context(seed=3))
    secrets = [scenario.with_secret(f"{secret:032x}") for secret in range(5)]
    styles = [[style(one, 3, life) for one in secrets for life in (1, 2)] for _ in range(2)]
    assert styles[0] == styles[1]
    assert len({*styles[0]}) > 5
