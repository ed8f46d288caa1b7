"""Which requirement fails for a run that the engine broke off, and what it blocks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tickproof.conformance.fault_steps import KINDS, FaultStep, FillStep, KillEngineStep, KillStep
from tickproof.conformance.history import events
from tickproof.conformance.log_server.frames import Code
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import judging
from tickproof.conformance.suites import breaches, registry
from tickproof.conformance.suites.catalog import CATALOG, draw, judges_of
from tickproof.conformance.suites.judge import Fail
from tickproof.conformance.suites.require import require_not_refused
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import LEAST_CLAIMS, RunFolder
from tickproof.conformance.verdicts import Outcome, Verdict

RECIPE = {"kind": "keyed", "records": 100, "keys": 5, "seed": 1}
CLAIMS = dict(LEAST_CLAIMS) | {
    "state": "exactly-once",
    "survives": ["worker", "coordinator", "engine", "connection"],
}
UP = ("hello", "deploy", "topology")
RELEASED = events.Refused(
    t_ns=2_000_000,
    connection=1,
    code=int(Code.RELEASED),
    op="FETCH",
    text="offset 5 was released (up to 9)",
)


def test_a_frame_whose_op_could_not_be_read_is_named_by_its_text():
    said = "a frame of 17,000,000 bytes, at most 16,777,216 are allowed"
    refused = replace(RELEASED, code=int(Code.TOO_LARGE), op="?", text=said)
    history = SimpleNamespace(all=lambda _kind: [refused])
    with pytest.raises(Fail) as failed:
        require_not_refused(history, {Code.TOO_LARGE}, "frames up to 16 MiB")
    assert failed.value.actual == said


def fired(*steps: FaultStep) -> list[events.FiredFault]:
    return [
        events.FiredFault(
            t_ns=1_000_000 + number,
            struck_ns=1_000_000 + number,
            step=step,
            moment=step.at,
            text="",
            outputs=0,
            partitions=(),
            pids=(7,),
        )
        for number, step in enumerate(steps)
    ]


def lines(answered: tuple[str, ...], *open_: str) -> list[tuple[int, str, str]]:
    """Return control lines in which some requests were answered and some were not."""
    found = []
    for number, op in enumerate((*answered, *open_), 1):
        found.append((number, "to", json.dumps({"id": number, "op": op})))
        if number <= len(answered):
            found.append((number, "from", json.dumps({"id": number, "ok": True})))
    return found


@pytest.fixture
def broken_off(tmp_path: Path) -> Callable[..., RunFolder]:
    def make(scenario: str, code: str, control: list, *happened: events.Event) -> RunFolder:
        made = Scenario(scenario, "count", {"emit": "every"}, RECIPE)
        run = RunFolder(tmp_path / "run", made)
        run.events(*happened)
        run.control(*control)
        ended = {"how": "engine-failure", "code": code, "message": "it ended", "stderr": []}
        run.facts(ended=ended, claims=CLAIMS)
        return run

    return make


def rechecked(run: RunFolder) -> list[Outcome]:
    run.seal()
    return judging.recheck(run.folder)


KILL, KILL_WORKER = KillEngineStep("fetched"), KillStep("fetched", target="worker")
DRAINING = events.DrainAsked(t_ns=3_000_000, published=5)
#: scenario, code, control lines, events; requirement, general.
CASES = [
    ("count", "BAD_LINE", lines(UP), [], "PR-CONTROL-LINES", "PR-CONTROL-LINES"),
    ("count-engine-death", "BAD_LINE", lines(UP), fired(KILL), *["PR-CONTROL-LINES"] * 2),
    ("count", "NO_ANSWER", lines((), "hello"), [], "PR-HELLO", "PR-HELLO"),
    ("count", "EXITED", lines(()), [], "PR-HELLO", "PR-HELLO"),
    ("count", "EXITED", lines(UP, "no-such-op"), [RELEASED], "PR-RELEASE", "PR-RELEASE"),
    ("count", "REFUSED", lines(("hello", "deploy")), [], "PR-DEPLOY", "PR-DEPLOY"),
    ("count", "EXITED", lines(("hello",), "deploy"), [], "PR-DEPLOY", "PR-DEPLOY"),
    ("count", "EXITED", lines(UP), [], "PR-STAYS-UP", "PR-STAYS-UP"),
    ("count", "EXITED", lines(UP, "drain"), [], "PR-STAYS-UP", "PR-STAYS-UP"),
    ("count", "NO_ANSWER", lines(UP, "drain"), [], "PR-DRAIN", "PR-DRAIN"),
    ("empty-input", "NO_ANSWER", lines(UP, "drain"), [], "PR-EMPTY-INPUT", "PR-DRAIN"),
    ("count", "NO_ANSWER", lines(UP, "drain", "topology"), [DRAINING],
     *["PR-CONCURRENT-ANSWERS"] * 2),
    ("count", "NO_ANSWER", lines(UP, "no-such-op"), [], "PR-OPTIONAL-OPS", "PR-OPTIONAL-OPS"),
    ("count", "NO_EXIT", lines((*UP, "drain", "stop")), [], "PR-STOP", "PR-STOP"),
    ("count", "EXITED", lines(UP), [RELEASED], "PR-RELEASE", "PR-RELEASE"),
    ("count-engine-death", "EXITED", lines(("hello",), "deploy"), fired(KILL),
     *["EO-ENGINE-DEATH"] * 2),
    ("count-engine-death", "EXITED", lines(UP), [*fired(KILL), RELEASED], *["EO-RELEASED"] * 2),
    ("count-engine-death-backlog", "EXITED", lines(UP), [*fired(KILL), RELEASED],
     "EO-ENGINE-DEATH", "EO-RELEASED"),
    ("count-after-accept", "EXITED", lines(UP), fired(KILL, KILL),
     "EO-TWO-DEATHS", "EO-ENGINE-DEATH"),
    ("count-worker-death", "NO_RECOVERY", lines(UP), fired(KILL_WORKER), *["EO-WORKER-DEATH"] * 2),
    ("count-mixed-deaths", "EXITED", lines(UP), fired(KILL, KILL_WORKER),
     "EO-SCHEDULE", "EO-WORKER-DEATH"),
    ("count-early-death", "EXITED", lines(("hello",), "deploy"), fired(KILL),
     "EO-EARLY-DEATH", "EO-ENGINE-DEATH"),
    ("count-uneven-death", "EXITED", lines(UP), [*fired(KILL), RELEASED],
     "EO-UNEVEN", "EO-RELEASED"),
    ("count-terminated", "EXITED", lines(UP), [*fired(replace(KILL, grace_s=1.0)), RELEASED],
     "EO-TERMINATED", "EO-RELEASED"),
    ("count-full-disk", "EXITED", lines(UP), fired(FillStep("fetched", seconds=1.0), KILL),
     "EO-FULL-DISK", "EO-ENGINE-DEATH"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("scenario", "code", "control", "happened", "requirement", "general"), CASES
)
def test_one_requirement_names_it(
    broken_off, scenario, code, control, happened, requirement, general
):
    assert scenario in CATALOG
    found = breaches.of(broken_off(scenario, code, control, *happened).history())
    assert (found.requirement, found.general) == (requirement, general)


def test_every_requirement_of_the_tables_exists():
    named = {
        *breaches.ALWAYS.values(),
        *breaches.BY_OP.values(),
        *breaches.BY_REFUSAL.values(),
        *breaches.SPECIAL,
        *breaches.BY_FAULT.values(),
        *breaches.BY_MOMENT.values(),
        *breaches.RECOVERY,
        breaches.OPTIONAL,
        breaches.RUNNING,
        breaches.SECOND_FAULT,
        breaches.RELEASED,
    }
    assert named <= set(registry.load())


def test_the_others_are_blocked_by_it_and_it_fails_in_a_run_that_is_not_its_own(broken_off):
    run = broken_off("count", "BAD_LINE", lines(UP))
    found = {one.requirement: one for one in rechecked(run)}
    assert found["PR-CONTROL-LINES"].verdict is Verdict.FAIL
    assert found["PR-CONTROL-LINES"].scenario == "count"
    blocked = found.keys() - {"PR-CONTROL-LINES", "KA-NAMES"}  # the latter is of Kafka alone
    assert {"ST-TOTALS", "DL-COMPLETE"} <= blocked
    for id_ in blocked:
        assert found[id_].verdict is Verdict.BLOCKED, id_
        assert (found[id_].blocked_by, found[id_].reason) == (["PR-CONTROL-LINES"], "BAD_LINE")


def test_what_is_wrong_by_value_still_fails_by_itself(broken_off):
    run = broken_off("count", "BAD_LINE", lines(UP))
    wrong = np.zeros(1, [("key", "<u8"), ("n", "<u8"), ("total", "<i8")])
    wrong["key"], wrong["n"] = 2**63 + 5, 1
    run.outputs(output_log(wrong, t_ns=2_000))
    found = {one.requirement: one for one in rechecked(run)}
    assert found["ST-TOTALS"].reason == "unknown-key"
    assert found["ST-TOTALS"].verdict is found["PR-CONTROL-LINES"].verdict is Verdict.FAIL
    assert found["ST-LAST-POINT"].verdict is Verdict.BLOCKED


@pytest.mark.parametrize(("drained", "verdict"), [(True, Verdict.FAIL), (False, Verdict.BLOCKED)])
def test_losses_count_where_drain_was_answered(broken_off, drained, verdict):
    answer = events.Drained(
        t_ns=9_000_000, open_acknowledgements=0, staged_open=0, outputs=0, ended=True, partitions=()
    )
    run = broken_off("count", "EXITED", lines(UP), *([answer] if drained else []))
    found = {one.requirement: one for one in rechecked(run)}
    assert found["ST-LAST-POINT"].verdict is verdict


def test_a_listed_gap_covers_what_a_run_blocks(broken_off):
    run = broken_off("count", "EXITED", lines(UP))
    run.facts(known_gaps={"ST-TOTALS": "not yet"})
    found = {one.requirement: one.verdict for one in rechecked(run)}
    assert found["ST-TOTALS"] is Verdict.KNOWN_GAP
    assert found["PR-STAYS-UP"] is Verdict.FAIL


def test_every_fault_has_a_requirement():
    for do, target in KINDS:
        assert {(do, target), (do, None)} & breaches.BY_FAULT.keys()


def test_a_scenario_with_faults_names_its_own_end():
    named = {*breaches.BY_FAULT.values(), *breaches.BY_MOMENT.values(), *breaches.RECOVERY}
    named |= {breaches.SECOND_FAULT, breaches.RELEASED}
    for name in CATALOG:
        decided = {id_ for id_, _ in judges_of(name)} - {"PR-WORKERS-WORK"}
        if decided and draw(name, Context(seed=0, freshness_s=5.0)).faults:
            assert decided & named, name
