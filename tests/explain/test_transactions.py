"""The chain of a transaction: told where output was lost in it, and not where it is in order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tickproof.conformance.explain import fault_sentences, story, transactions
from tickproof.conformance.explain.facts import Facts
from tickproof.conformance.fault_steps import KillEngineStep, KillLeaderStep
from tickproof.conformance.history import events
from tickproof.conformance.history.event import Event
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.testing.run_folder import RunFolder
from tickproof.conformance.verdicts import Outcome, Verdict


def stage(count, txn=21):
    return events.Stage(t_ns=0, connection=1, txn=txn, writer=9, count=count)


def commit(outcome, txn=21):
    return events.Commit(t_ns=0, connection=1, txn=txn, outcome=outcome)


def abort(txn=21):
    return events.Abort(t_ns=0, connection=1, txn=txn)


KILLED = events.FiredFault(
    t_ns=0,
    struck_ns=0,
    step=KillEngineStep("fetched"),
    moment="fetched",
    text="",
    outputs=0,
    partitions=(),
    pids=(7,),
)
DRAINED = events.Drained(
    t_ns=0, open_acknowledgements=0, staged_open=0, outputs=0, ended=True, partitions=()
)


@pytest.fixture
def after(tmp_path):
    """Return the history of a run with these steps after a kill, one a millisecond."""

    def make(*steps: Event) -> History:
        recipe = {"kind": "keyed", "records": 100, "keys": 5, "seed": 1}
        run = RunFolder(tmp_path, Scenario("made", "count", {"emit": "every"}, recipe))
        run.events(
            *(
                replace(event, t_ns=number * 1_000_000)
                for number, event in enumerate((KILLED, *steps, DRAINED), 1)
            )
        )
        return run.history()

    return make


def test_output_staged_under_a_committed_number_is_told_step_by_step(after):
    gap = "writer 9: first_seq 5966, but 3359 is next"
    refused = events.Refused(t_ns=0, connection=1, code=6, text=gap, op="COMMIT")
    history = after(
        commit(1, txn=17),
        stage(825),
        commit(1),
        commit(2, txn=17),
        abort(),
        stage(3432),
        commit(2),
        refused,
    )
    made = story(history, Outcome("DL-AFTER-COMMIT", Verdict.FAIL, reason="EXITED"))

    text = " ".join(made.lines)
    steps = [
        "Transaction 21: STAGE of 825 outputs (writer 9)",
        "outcome 1: committed now",
        "ABORT",
        "without effect, as it is committed",
        "STAGE of 3,432 outputs (writer 9)",
        "outcome 2: committed already, nothing is recorded",
        "staged under a number that 825 outputs had used up: none of them was recorded under it",
        "When it went on with number 5,966, the sink had 3,359 outputs of that writer: "
        "2,607 outputs never came",
        "Before that ABORT it had sent COMMIT of transaction 17 again (outcome 2)",
    ]
    places = [text.find(step) for step in steps]
    assert -1 not in places, text
    assert places == sorted(places)
    assert "2,607 outputs never came" in " ".join(made.brief)


def test_the_same_batch_once_more_is_in_order(after):
    assert transactions.tell(Facts.of(after(stage(5), commit(1), stage(5), commit(2)))) == []


def test_numbers_that_begin_anew_are_told_though_each_batch_is_as_large_as_before(after):
    history = after(stage(5), commit(1), stage(5, txn=22), commit(1, txn=22), stage(5), commit(2))
    said = transactions.tell(Facts.of(history))
    assert said[1] == (
        "The 5 outputs of writer 9 were staged under a number that 5 outputs had used up, and "
        "transaction 22 had been committed since: none of them was recorded under it."
    )
    assert transactions.unrecorded(Facts.of(history)) == 5


def test_a_commit_that_was_refused_is_told_where_it_was_given_up(after):
    refused = events.Refused(
        t_ns=0, connection=1, code=8, text="no output is taken now", op="COMMIT"
    )
    told = "COMMIT was refused 0.002 s after the kill (error 8: no output is taken now)"
    said = " ".join(transactions.tell(Facts.of(after(stage(5), refused))))
    assert f"{told} and not sent again. Transaction 21 was never committed" in said
    again = transactions.tell(Facts.of(after(stage(5), refused, commit(1, txn=20))))
    assert "refused" not in " ".join(again)


def test_an_abort_before_the_batch_is_staged_anew_is_in_order(after):
    assert transactions.tell(Facts.of(after(stage(5), abort(), stage(7), commit(1)))) == []


def test_output_whose_transaction_is_unknown_never_came(after):
    said = " ".join(transactions.tell(Facts.of(after(stage(5), abort(), commit(3)))))
    assert "outcome 3: unknown, nothing is recorded" in said
    assert "So the 5 outputs staged under it never came out." in said


def test_a_transaction_that_was_left_open(after):
    said = " ".join(transactions.tell(Facts.of(after(stage(5), stage(2, txn=22)))))
    assert "Transaction 21: STAGE of 5 outputs (writer 9)" in said
    assert "Transaction 21 was never committed (so too 1 other transaction)" in said


def test_a_transaction_that_the_next_life_did_not_settle(after):
    """A restart that went on with the next numbers was refused them, and ended by that."""
    restarted = events.Started(t_ns=0, pid=9, resume=True)
    said = (
        "Transaction 21, of 5 outputs of writer 9, was staged 0.001 s after the kill, and neither"
    )
    assert transactions.left_behind(Facts.of(after(stage(5), restarted))).startswith(said)
    for settled in (commit(1), abort()):
        assert transactions.left_behind(Facts.of(after(stage(5), restarted, settled))) == ""
    assert transactions.left_behind(Facts.of(after(restarted, stage(5)))) == ""
    assert transactions.left_behind(Facts.of(after(stage(5)))) == ""


def test_a_long_chain_is_cut_in_its_middle(after):
    facts = Facts.of(after(*[stage(n) for n in range(1, 21)]))
    said = transactions.chain(facts, 21, transactions.steps(facts)[21])
    assert "STAGE of 1 output " in said
    assert "12 more steps" in said
    assert "STAGE of 20 outputs" in said
    assert len(said) < 700


def test_what_a_loss_of_power_took_is_named(after):
    lost = {"lost_bytes": 6065, "lost_files": ("partition-0.cut", "a/\x1b[31m")}
    facts = Facts(after(replace(KILLED, **lost)))
    for said in (fault_sentences.struck, fault_sentences.met):
        told = said(facts, facts.aftermaths[-1])
        assert told.endswith(r" It took 6,065 bytes with it, of partition-0.cut and a/\x1b[31m.")


@pytest.mark.parametrize(("alone", "were"), [(0, ""), (1, "1 record of"), (484, "484 records of")])
def test_what_died_with_a_broker_is_counted(after, alone, were):
    died = replace(KILLED, step=KillLeaderStep("accepted", alone_s=1.0), pids=(), alone=alone)
    facts = Facts(after(died))
    said = [fault_sentences.struck(facts, one) for one in facts.aftermaths]
    said += [fault_sentences.met(facts, one) for one in facts.aftermaths]
    told = [one for one in said if "on no other (acks=1)" in one]
    assert len(told) == (2 if alone else 0)
    assert all(f"{were} output that the broker had acknowledged" in one for one in told)
