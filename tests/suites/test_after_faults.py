"""What a point of the fault space, and a death after drain, must not let pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.judging import judge_of
from tickproof.conformance.fault_steps import (
    CorruptStep,
    DelayStep,
    FaultStep,
    FillStep,
    KillEngineStep,
)
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history.event import Event, PartitionState
from tickproof.conformance.history.events import (
    DamageOver,
    Deployed,
    Drained,
    FillOver,
    FiredFault,
    Link,
    Started,
)
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.judge import BrokenOff, Fail, Judge, Unknown
from tickproof.conformance.suites.schedules import held, point_held
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import LEAST_CLAIMS, RunFolder
from tickproof.generators.layouts import NUMBER

CLAIMS = LEAST_CLAIMS | {
    "state": "exactly-once",
    "delivery": "exactly-once",
    "survives": ["engine"],
}
DAMAGE = CorruptStep("cuts", fraction=0.5, cuts=2, damage="garbage")
S = 1_000_000_000


def damaged(folder: Path, **ended: object) -> History:
    """Return a run that broke off after damage to its state."""
    recipe = {"kind": "keyed", "seed": 1, "records": 100, "partitions": 1, "keys": 5}
    scenario = Scenario("space-1", "count", {"emit": "every"}, recipe, faults=(DAMAGE,))
    fault = FiredFault(
        t_ns=1_000,
        struck_ns=1_001,
        step=DAMAGE,
        moment="fetched",
        text=str(DAMAGE),
        outputs=0,
        total=100,
        partitions=(PartitionState(0, 0, 100, 60, 50, 20),),
        pids=(1,),
        file="cut-2",
        size=10,
        left=10,
    )
    run = RunFolder(folder, scenario, claims=CLAIMS)
    run.events(Started(t_ns=1, pid=1), fault)
    run.facts(ended={"how": "engine-failure", "message": "it broke off", "status": 0} | ended)
    return run.history()


@pytest.mark.parametrize(
    "code", ["NO_ANSWER", "NO_RECOVERY", "BAD_LINE", "BAD_ANSWER", "EXITED", "ENDLESS"]
)
@pytest.mark.parametrize("judge", [point_held, held])
def test_an_engine_that_breaks_off_after_damage_has_not_refused(
    tmp_path: Path, code: str, judge: Judge
) -> None:
    with pytest.raises(BrokenOff, match=code):
        judge(damaged(tmp_path / "run", code=code))


def test_one_that_hangs_until_the_limit_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="TIME_LIMIT"):
        point_held(damaged(tmp_path / "run", code="TIME_LIMIT"))


@pytest.mark.parametrize("ended", [{"code": "REFUSED"}, {"code": "EXITED", "status": 3}])
def test_one_that_refuses_clearly_passes(tmp_path: Path, ended: dict[str, object]) -> None:
    history = damaged(tmp_path / "run", **ended)
    point_held(history)
    with pytest.raises(Unknown, match="NO_RECOVERY_SEEN"):
        held(history)


FULL = FillStep("fetched", fraction=0.5, seconds=1.0)
READ, UNREAD = DamageOver(t_ns=9 * S, file="cut-2", read=True), DamageOver(
    t_ns=9 * S, file="cut-2", read=False
)  # fmt: skip


def over(empty: tuple[str, ...] = (), words: str = "") -> FillOver:
    return FillOver(t_ns=9 * S, from_ns=S, to_ns=2 * S, empty=empty, words=words)


@pytest.mark.parametrize("judge", [point_held, held])
@pytest.mark.parametrize(
    ("step", "event", "reason"),
    [
        (FULL, over(), "NOTHING_HELD_BACK"),
        (FULL, over(empty=("cut.new",)), ""),
        (FULL, over(words="No space left on device"), ""),
        (FULL, None, "KILL_MISSED"),
        (DAMAGE, UNREAD, "DAMAGE_UNREAD"),
        (DAMAGE, None, "DAMAGE_UNREAD"),
        (DAMAGE, READ, ""),
        (replace(DAMAGE, damage="missing"), replace(UNREAD, read=None), ""),
    ],
)
def test_a_schedule_whose_fault_had_no_effect_shows_nothing(
    tmp_path: Path, judge: Judge, step: FaultStep, event: Event | None, reason: str
) -> None:
    history = with_fault(tmp_path, step, event, drained(10 * S))
    if not reason:
        return judge(history)
    with pytest.raises(Unknown, match=reason):
        judge(history)


@pytest.mark.parametrize("judge", [point_held, held])
def test_late_answers_leave_no_transaction_open(tmp_path: Path, judge: Judge) -> None:
    """Nothing died that could have left one behind; after a death that is no sign."""
    late = DelayStep("accepted", target="sink", fraction=0.5, seconds=1.0, lag_s=0.3)
    over = Link(t_ns=3 * S, do="delay", target="sink", count=3, from_ns=S)
    judge(with_fault(tmp_path / "0", late, over, drained(10 * S)))
    with pytest.raises(Fail, match="STAGED_AT_DRAIN"):
        judge(with_fault(tmp_path / "1", late, over, replace(drained(10 * S), staged_open=1)))
    died = with_fault(tmp_path / "2", DAMAGE, READ, replace(drained(10 * S), staged_open=1))
    judge(died)


def with_fault(folder: Path, step: FaultStep, event: Event | None, answer: Drained) -> History:
    """Return a right run of app double with one fault, and what is known of its effect."""
    recipe = {"kind": "numbers", "seed": 1, "records": 100, "partitions": 1}
    run = RunFolder(
        folder / "run", Scenario("space-1", "double", {}, recipe, faults=(step,)), claims=CLAIMS
    )
    found = run.history().inputs(NUMBER)[0]
    made = np.zeros(100, NUMBER)
    made["x"] = (found["x"].view(np.uint64) * np.uint64(2)).view(np.int64)
    run.outputs(output_log(made, t_ns=2 * S))
    run.tables(
        fetches=[(S, 0, 0, 0, 100)], publishes=[(S, 0, 0, 100)], releases=[(2 * S, 0, 0, 100)]
    )
    fault = FiredFault(
        t_ns=S,
        struck_ns=S,
        step=step,
        moment="fetched",
        text=str(fault_of(step)),
        outputs=0,
        total=100,
        partitions=(PartitionState(0, 0, 100, 60, 50, 20),),
        pids=(1,),
        file="cut-2",
    )
    run.events(*filter(None, (Started(t_ns=1, pid=1), fault, event, answer)))
    return run.history()


def after_drain(folder: Path, *more: Event) -> History:
    """Return a run of app double that was killed after drain."""
    kill = KillEngineStep("drained")
    recipe = {"kind": "numbers", "seed": 1, "records": 100, "partitions": 1}
    run = RunFolder(
        folder,
        Scenario("count-after-drain", "double", {}, recipe, faults=(kill,)),
        claims=CLAIMS | {"transport": "kafka"},
    )
    found = run.history().inputs(NUMBER)[0]
    made = np.zeros(100, NUMBER)
    made["x"] = (found["x"].view(np.uint64) * np.uint64(2)).view(np.int64)
    run.outputs(output_log(made, t_ns=2 * S))
    run.tables(
        fetches=[(S, 0, 0, 0, 100)], publishes=[(S, 0, 0, 100)], releases=[(2 * S, 0, 0, 100)]
    )
    whole = (PartitionState(0, 0, 100, 100, 100, 100),)
    run.events(
        Started(t_ns=1, pid=1),
        Deployed(t_ns=2, pid=1),
        drained(4 * S),
        FiredFault(
            t_ns=4 * S + 1,
            struck_ns=4 * S + 2,
            step=kill,
            moment="drained",
            text="kill",
            outputs=100,
            total=100,
            partitions=whole,
            pids=(1,),
        ),
        Started(t_ns=5 * S, pid=2, resume=True),
        Deployed(t_ns=6 * S, pid=2, resume=True),
        *more,
    )
    return run.history()


def drained(t_ns: int) -> Drained:
    return Drained(
        t_ns=t_ns,
        open_acknowledgements=0,
        staged_open=0,
        outputs=100,
        ended=True,
        partitions=(PartitionState(0, 0, 100, 100, 100, 100),),
    )


@pytest.mark.parametrize(
    "judge",
    [
        judge_of("EO-AFTER-DRAIN", "count-after-drain"),
        judge_of("EO-FROM-CHECKPOINT", "count-after-drain"),
    ],
)
def test_an_engine_that_did_not_come_back_after_drain_shows_nothing(
    tmp_path: Path, judge: Judge
) -> None:
    judge(after_drain(tmp_path / "back", drained(7 * S)))
    with pytest.raises(Unknown, match="NO_RECOVERY_SEEN"):
        judge(after_drain(tmp_path / "away"))
