"""Each combination of claims against each kind of finding: what is ruled out after a fault."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from tests.judging import judge_of
from tickproof.conformance.checkers.count import check_count
from tickproof.conformance.engines.toml_model import Delivery, State
from tickproof.conformance.fault_steps import DelayStep, FaultStep, KillEngineStep
from tickproof.conformance.history.event import PartitionState
from tickproof.conformance.history.fired_fault import FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Claims, Death, Scenario
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.evidence import (
    CHANGED,
    LOSS,
    ORDER_KINDS,
    TWICE,
    VALUES,
    disturbed_ns,
    values,
)
from tickproof.conformance.suites.judge import Fail, Judge, NotClaimed
from tickproof.conformance.suites.promises import forbidden_repeats, ruled_out
from tickproof.conformance.suites.requirement import Requirement, check_claims
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import LEAST_CLAIMS, RunFolder
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT

S = 1_000_000_000
RECORDS = 200
KILL = KillEngineStep("fetched", fraction=0.5)
SLOW = DelayStep("fetched", target="source", fraction=0.5, seconds=1.0, lag_s=0.1)
STATES, DELIVERIES = get_args(State), get_args(Delivery)
#: Each combination of the claims of state and delivery.
CLAIMS = [*product(STATES, DELIVERIES)]
EVERY_KIND = (*VALUES, *LOSS, *CHANGED, *TWICE, *ORDER_KINDS)
RECIPES = {
    "count": {"kind": "keyed", "seed": 1, "records": RECORDS, "partitions": 1, "keys": 9},
    "passthrough": {"kind": "payloads", "seed": 1, "records": 9, "partitions": 1, "size": 24},
    "market-spread": {"kind": "market", "seed": 1, "records": 90, "partitions": 1, "symbols": 5,
                      "inputs": "merged"},
}  # fmt: skip
PARAMS = {
    "count": {"emit": "every"}, "passthrough": {},
    "market-spread": {"inputs": "merged", "emit": "rejects"},
}  # fmt: skip


def run(
    folder: Path,
    state: str,
    delivery: str,
    *,
    app: str = "count",
    transport: str = "log",
    fault: FaultStep | None = KILL,
    again: int | None = None,
) -> RunFolder:
    """Make a run with a fault at 2 s, after which records were fetched from ``again`` on."""
    faults = (fault,) if fault else ()
    made = RunFolder(
        folder,
        Scenario("made", app, PARAMS[app], RECIPES[app], faults=faults),  # type: ignore[arg-type]
        claims={
            **LEAST_CLAIMS,
            "state": state,
            "delivery": delivery,
            "transport": transport,
            "survives": ["worker", "engine", "connection"],
        },
        kafka={"session_s": 3.0, "transaction_s": 10.0, "transaction_version": 2},
    )
    later = [] if again is None else [(3 * S, 0, 0, again, RECORDS)]
    made.tables(fetches=[(S, 0, 0, 0, RECORDS // 2), *later])
    if fault:
        half = (PartitionState(0, 0, RECORDS, RECORDS, RECORDS // 2, 0),)
        made.events(
            FiredFault(
                t_ns=2 * S,
                struck_ns=2 * S,
                step=fault,
                moment="fetched",
                text=str(fault),
                outputs=RECORDS // 2,
                total=RECORDS,
                partitions=half,
                pids=(7,),
            )
        )
    return made


#: State, delivery -> kinds that claims permit after a death, of app count.
PERMITTED = (
    {
        ("exactly-once", "exactly-once"): set(),
        ("exactly-once", "at-least-once"): set(TWICE),
        ("at-least-once", "exactly-once"): {"skipped-order"},
        ("at-least-once", "at-least-once"): {*TWICE, *ORDER_KINDS, "retracted"},
    }
    | {
        (state, "exactly-once"): {
            *ORDER_KINDS,
            "duplicate",
            "retracted",
            "lost",
            "beyond-input",
            "wrong-total",
        }
        for state in ("at-most-once", "none")
    }
    | {
        (state, "at-least-once"): {
            *ORDER_KINDS,
            *TWICE,
            "retracted",
            "lost",
            "beyond-input",
            "wrong-total",
        }
        for state in ("at-most-once", "none")
    }
)
OF_COUNT = {"unknown-key", "beyond-input", "wrong-total", *LOSS, *CHANGED, *TWICE, *ORDER_KINDS}


@pytest.mark.parametrize(("state", "delivery"), CLAIMS)
def test_what_is_ruled_out_of_a_count_after_a_death(tmp_path, state, delivery):
    history = run(tmp_path / "run", state, delivery).history()
    assert OF_COUNT - {*ruled_out(history, OF_COUNT)} == PERMITTED[state, delivery]


@pytest.mark.parametrize(("state", "delivery"), CLAIMS)
@pytest.mark.parametrize("fault", [None, SLOW])
def test_undisturbed_all_is_ruled_out(tmp_path, state, delivery, fault):
    history = run(tmp_path / "run", state, delivery, fault=fault).history()
    assert disturbed_ns(history) is None
    assert ruled_out(history, EVERY_KIND) == EVERY_KIND


@pytest.mark.parametrize("state", STATES)
def test_a_stateless_output_is_known_by_its_payload(tmp_path, state):
    history = run(tmp_path / "run", state, "exactly-once", app="passthrough").history()
    assert {"duplicate", "invented"} <= {*ruled_out(history, EVERY_KIND)}
    kept = state in ("at-least-once", "exactly-once")
    assert ("lost" in ruled_out(history, EVERY_KIND)) == kept


def test_a_reject_may_be_an_accept_by_a_quote_that_is_newer(tmp_path):
    exact, weak = (
        run(tmp_path / state, state, "at-least-once", app="market-spread").history()
        for state in ("exactly-once", "at-least-once")
    )
    assert {*ruled_out(exact, EVERY_KIND)} - {*ruled_out(weak, EVERY_KIND)} >= {
        "lost",
        "wrong-verdict",
        "went-back",
        "must-reject",
    }


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_repeats_are_forbidden_by_the_claim_of_delivery(tmp_path, delivery):
    history = run(tmp_path / "run", "exactly-once", delivery, fault=None).history()
    assert forbidden_repeats(history) == (TWICE if delivery == "exactly-once" else ())


def test_over_kafka_a_group_may_rebalance_unasked(tmp_path):
    quiet = run(
        tmp_path / "quiet", "at-least-once", "at-least-once", fault=None, transport="kafka"
    ).history()
    moved = run(
        tmp_path / "moved",
        "at-least-once",
        "at-least-once",
        fault=None,
        transport="kafka",
        again=60,
    ).history()
    over_log = run(
        tmp_path / "log", "at-least-once", "at-least-once", fault=None, again=60
    ).history()
    assert [disturbed_ns(one) for one in (quiet, moved, over_log)] == [None, 0, None]


def points(records: np.ndarray, *spans: tuple[int, int], skip: int = -1) -> np.ndarray:
    """Return the points of spans of records with one state; one offset is left out."""
    state: dict[int, tuple[int, int]] = {}
    found = []
    for low, high in spans:
        for offset in (one for one in range(low, high) if one != skip):
            key = int(records["key"][offset])
            n, total = state.get(key, (0, 0))
            state[key] = n + 1, total + int(records["value"][offset])
            found.append((key, *state[key]))
    return np.array(found, COUNT_OUT)


JUDGES_OF_THE_WEAK: list[Judge] = [
    judge_of("DL-NO-LOSS", "count-engine-death-backlog"),
    judge_of("DL-NO-LOSS", "count-engine-death"),
    judge_of("DL-NO-LOSS", "count-tail"),
    judge_of("DL-UNANSWERED", "count-losing"),
    judge_of("DL-UNANSWERED", "market-two-losing"),
    judge_of("KA-DOWNTIME", "kafka-short-downtime"),
    judge_of("KA-DOWNTIME", "kafka-long-downtime"),
    judge_of("KA-LOST-SESSION", "kafka-partition-returns"),
    judge_of("KA-LOST-SESSION", "kafka-lost-session"),
    judge_of("KA-LOST-SESSION", "kafka-fenced"),
]


def counted(
    folder: Path, state: str, *spans: tuple[int, int], skip: int = -1, again: int = 60
) -> History:
    made = run(folder, state, "at-least-once", again=again)
    records = made.history().inputs(COUNT_IN)[0]
    came = points(records, *spans, skip=skip)
    early = spans[0][1] - spans[0][0]
    made.outputs(output_log(came, t_ns=np.where(np.arange(len(came)) < early, S, 4 * S)))
    return made.history()


@pytest.mark.parametrize("judge", JUDGES_OF_THE_WEAK)
def test_state_at_least_once_may_count_twice_what_was_fetched_again(tmp_path, judge):
    judge(counted(tmp_path / "run", "at-least-once", (0, 100), (60, RECORDS)))


@pytest.mark.parametrize("judge", JUDGES_OF_THE_WEAK)
def test_and_must_not_leave_out_a_record(tmp_path, judge):
    with pytest.raises(Fail, match=r"lost|wrong-total|beyond-input"):
        judge(counted(tmp_path / "run", "at-least-once", (0, 100), (60, RECORDS), skip=150))


@pytest.mark.parametrize("judge", JUDGES_OF_THE_WEAK[:3] + JUDGES_OF_THE_WEAK[5:])
def test_nor_count_twice_what_was_not_fetched_again(tmp_path, judge):
    with pytest.raises(Fail, match=r"wrong-total|beyond-input"):
        judge(counted(tmp_path / "run", "at-least-once", (0, 100), (60, RECORDS), again=99))


def test_exact_state_must_not_count_twice(tmp_path):
    history = counted(tmp_path / "run", "exactly-once", (0, 100), (60, RECORDS))
    assert values(history).counts["wrong-total"]
    judge = judge_of("KA-DOWNTIME", "kafka-short-downtime")
    with pytest.raises(Fail, match=r"wrong-total|beyond-input"):
        judge(history)


def test_without_a_death_nothing_comes_twice_whatever_is_claimed(tmp_path):
    made = run(tmp_path / "run", "at-least-once", "at-least-once", fault=None)
    records = made.history().inputs(COUNT_IN)[0]
    right = points(records, (0, RECORDS))
    made.outputs(output_log(np.append(right, right[-1:])))
    assert check_count([records], output_log(right), "every").counts.total() == 0
    with pytest.raises(Fail, match="duplicate"):
        judge_of("DL-COMPLETE", "count")(made.history())


def test_each_requirement_follows_from_claims_that_can_be_judged():
    """What no claim of state promises, no requirement after a fault asks for."""
    for one in registry.load().values():
        asks = set(one.needs.survives) & set(get_args(Death))
        if one.tier == 3 and one.family in ("DL", "EO") and asks:
            assert one.needs.state, one.id
            assert not {"none", "at-most-once"} & set(one.needs.state), one.id


@pytest.mark.parametrize(("state", "delivery"), CLAIMS)
def test_a_weak_claim_selects_nothing_that_it_does_not_promise(state, delivery):
    claims = {
        **LEAST_CLAIMS,
        "state": state,
        "delivery": delivery,
        "survives": ["worker", "engine", "connection"],
    }
    scenario = Scenario("made", "count", {"emit": "every"}, {}, faults=(KILL,))

    def asked(one: Requirement, transport: str) -> bool:
        try:
            check_claims(one.needs, Claims(**claims, transport=transport), scenario)
        except NotClaimed:
            return False
        return True

    found, over_kafka = (
        {one.id for one in registry.load().values() if asked(one, transport) and one.tier == 3}
        for transport in ("log", "kafka")
    )
    assert ("EO-ENGINE-DEATH" in found) == (state == "exactly-once")
    assert ("KA-LOST-SESSION" in over_kafka) == (state == "exactly-once")
    assert ("KA-DOWNTIME" in over_kafka) == (state in ("at-least-once", "exactly-once"))
    assert ("DL-NO-LOSS" in found) == (state in ("at-least-once", "exactly-once"))
    assert ("DL-EXACTLY-ONCE" in found) == (
        delivery == "exactly-once" and state in ("at-least-once", "exactly-once")
    )
