"""The chain of a transaction: told where output was lost in it, and not where it is in order."""

from __future__ import annotations

import pytest

from tests.suites import tampering
from tickproof.conformance.explain import story, transactions
from tickproof.conformance.explain.facts import Facts
from tickproof.conformance.history.folder import History
from tickproof.conformance.verdicts import Outcome, Verdict


def stage(count, txn=21):
    return "stage", {"connection": 1, "txn": txn, "writer": 9, "count": count}


def commit(outcome, txn=21):
    return "commit", {"connection": 1, "txn": txn, "outcome": outcome}


def abort(txn=21):
    return "abort", {"connection": 1, "txn": txn}


@pytest.fixture
def after(copy_of):
    """Return the history of a sound run with further steps of transactions at its end."""

    def make(*steps) -> History:
        folder = copy_of("count-engine-death")
        tampering.events(folder, lambda rows: [*rows, *(
            {"t_ns": rows[-1]["t_ns"] + number, "event": event, **fields}
            for number, (event, fields) in enumerate(steps, 1)
        )])  # fmt: skip
        return History(folder)

    return make


def test_output_staged_under_a_committed_number_is_told_step_by_step(after):
    gap = "writer 9: first_seq 5966, but 3359 is next"
    refused = ("refused", {"connection": 1, "code": 6, "text": gap, "op": "COMMIT"})
    history = after(
        commit(1, txn=17), stage(825), commit(1), commit(2, txn=17), abort(), stage(3432),
        commit(2), refused,
    )  # fmt: skip
    made = story(history, Outcome("DL-AFTER-COMMIT", Verdict.FAIL, reason="EXITED"))

    text = " ".join(made.lines)
    steps = [
        "Transaction 21: STAGE of 825 outputs (writer 9)", "outcome 1: committed now", "ABORT",
        "without effect, as it is committed", "STAGE of 3,432 outputs (writer 9)",
        "outcome 2: committed already, nothing is recorded",
        "staged under a number that 825 outputs had used up: none of them was recorded under it",
        "When it went on with number 5,966, the sink had 3,359 outputs of that writer: "
        "2,607 outputs never came",
        "Before that ABORT it had sent COMMIT of transaction 17 again (outcome 2)",
    ]  # fmt: skip
    places = [text.find(step) for step in steps]
    assert -1 not in places, text
    assert places == sorted(places)
    assert "2,607 outputs never came" in " ".join(made.brief)


def test_the_same_batch_once_more_is_in_order(after):
    assert transactions.tell(Facts.of(after(stage(5), commit(1), stage(5), commit(2)))) == []


def test_an_abort_before_the_batch_is_staged_anew_is_in_order(after):
    assert transactions.tell(Facts.of(after(stage(5), abort(), stage(7), commit(1)))) == []


def test_output_whose_transaction_is_unknown_never_came(after):
    said = " ".join(transactions.tell(Facts.of(after(stage(5), abort(), commit(3)))))
    assert "outcome 3: unknown, nothing is recorded" in said
    assert "So the 5 outputs staged under it never came out." in said


def test_a_transaction_that_was_left_open(after):
    said = " ".join(transactions.tell(Facts.of(after(stage(5), stage(2, txn=22)))))
    assert "Transaction 21: STAGE of 5 outputs (writer 9)" in said
    assert "It was never committed (so too 1 other transaction)" in said


def test_a_long_chain_is_cut_in_its_middle(after):
    facts = Facts.of(after(*[stage(n) for n in range(1, 21)]))
    said = transactions.chain(facts, 21, transactions.steps(facts)[21])
    assert "STAGE of 1 output " in said
    assert "12 more steps" in said
    assert "STAGE of 20 outputs" in said
    assert len(said) < 700
