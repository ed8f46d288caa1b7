"""What is judged of a run over Kafka alone, on made histories."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tickproof.conformance.history.events import PartitionState
from tickproof.conformance.history.fired_fault import FiredFault
from tickproof.conformance.scenario import FaultStep, Scenario
from tickproof.conformance.suites.judge import Fail
from tickproof.conformance.suites.test_t3_kafka import (
    test_readers_are_held_up_no_longer_than_claimed as judge,
)
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import RunFolder, given_input
from tickproof.generators.layouts import NUMBER

RECORDS = 100
SECOND = 1_000_000_000
#: The session and the transaction that the engine claims, and what a busy machine may add.
CLAIMED_S, SPARE_S = 3 + 10, 10


def history(folder: Path, waited_s: float):
    """Make a run whose one worker dies at 1 s, and whose output goes on after ``waited_s``."""
    numbers = np.arange(RECORDS, dtype="<i8").view(NUMBER)
    step = FaultStep("kill", "worker", "staged", fraction=0.5)
    run = RunFolder(
        folder, Scenario("kafka-worker-in-transaction", "passthrough", {}, {}, faults=(step,)),
        make_input=given_input({(0, 0): numbers}),
        kafka={"session_s": 3.0, "transaction_s": 10.0, "transaction_version": 2},
    )  # fmt: skip
    died_ns = SECOND
    t_ns = np.full(RECORDS, died_ns // 2, np.int64)
    t_ns[RECORDS // 2 :] = died_ns + int(waited_s * SECOND)
    run.outputs(output_log(numbers, t_ns=t_ns))
    run.tables(fetches=[(died_ns // 4, 0, 0, 0, RECORDS)])
    state = PartitionState(0, 0, RECORDS, RECORDS, RECORDS, 0)
    run.events(FiredFault(
        t_ns=died_ns, struck_ns=died_ns, step=step, moment="staged", text="SIGKILL",
        outputs=RECORDS // 2, total=RECORDS, partitions=(state,), pids=(7,),
    ))  # fmt: skip
    return run.history()


@pytest.mark.parametrize("waited_s", [0.1, CLAIMED_S, CLAIMED_S + SPARE_S - 0.1])
def test_output_comes_within_the_claimed_timeouts(tmp_path: Path, waited_s: float) -> None:
    judge(history(tmp_path / "run", waited_s))


def test_output_that_comes_later_is_held_up(tmp_path: Path) -> None:
    with pytest.raises(Fail, match=f"within {CLAIMED_S} s of a death") as failure:
        judge(history(tmp_path / "run", CLAIMED_S + SPARE_S + 0.1))
    assert failure.value.code == "HELD_UP"
