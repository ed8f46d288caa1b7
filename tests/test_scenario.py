"""Claims that a schedule needs, and the part of it that stays within the claims."""

from __future__ import annotations

import pytest

from tickproof.conformance.fault_steps import (
    CutStep,
    FaultStep,
    KillBrokerStep,
    KillHostStep,
    KillLeaderStep,
    KillStep,
    PauseLeaderStep,
    PauseStep,
    RescaleStep,
    ScaleStep,
)
from tickproof.conformance.faults.kinds import meets_broker, meets_leader, needs_of, within

DEATH = KillStep("fetched", target="worker")
PAUSE = PauseStep("fetched", target="worker", seconds=2.0)
HOST = KillHostStep("fetched", down_s=1.0)
CUT = CutStep("fetched", target="source")
ALL = KillStep("fetched", target="workers")
BROKER = KillBrokerStep("fetched")
LEADER = KillLeaderStep("fetched")
STILL_LEADER = PauseLeaderStep("fetched", seconds=6.0)


def stop(workers: int) -> FaultStep:
    return RescaleStep("fetched", workers=workers)


def scale(workers: int) -> FaultStep:
    return ScaleStep("fetched", workers=workers)


@pytest.mark.parametrize(
    ("faults", "workers", "needs"),
    [
        ((), 2, ""),
        ((DEATH,), 2, "worker"),
        ((DEATH,), 1, "worker all-workers"),
        ((ALL,), 2, "all-workers"),
        ((DEATH, DEATH), 2, "worker all-workers"),
        ((DEATH, CUT, DEATH), 3, "worker connection all-workers"),
        ((PAUSE, DEATH), 2, "worker all-workers"),
        ((HOST, DEATH), 2, "worker all-workers"),
        ((HOST, CUT), 2, "worker connection"),
        ((DEATH, stop(3), DEATH), 2, "worker"),
        ((stop(1), DEATH), 2, "worker all-workers"),
        ((scale(1), DEATH), 2, "worker all-workers"),
        ((scale(3), DEATH), 1, "worker"),
        ((DEATH, scale(3), DEATH), 2, "worker all-workers"),
    ],
)
def test_a_second_worker_that_dies_needs_the_claim_of_all(faults, workers, needs):
    assert needs_of(faults, workers) == set(needs.split())


@pytest.mark.parametrize(
    ("survives", "faults", "kept"),
    [
        ("worker", (DEATH, DEATH), 1),
        ("worker", (DEATH, CUT, DEATH), 1),
        ("worker connection", (DEATH, CUT, DEATH, CUT), 2),
        ("worker all-workers", (DEATH, DEATH), 2),
        ("worker engine", (DEATH, DEATH), 2),  # both together imply all-workers
        ("engine", (DEATH, DEATH), 0),
    ],
)
def test_a_schedule_ends_before_what_is_not_claimed(survives, faults, kept):
    assert within(survives.split(), faults, 2) == faults[:kept]


@pytest.mark.parametrize(
    ("faults", "own", "several"),
    [
        ((), False, False),
        ((DEATH, PAUSE, CUT), False, False),
        ((DEATH, BROKER), True, False),
        ((DEATH, LEADER), True, True),
        ((STILL_LEADER,), True, True),
    ],
)
def test_a_run_whose_broker_fails_has_its_own(faults, own, several):
    assert (meets_broker(faults), meets_leader(faults)) == (own, several)
