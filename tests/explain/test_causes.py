"""A cause is named only where it gives the other wrong outputs of the run as they came, too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.checkers.market_cases import SYMBOLS, messages, order, quote, verdict
from tests.explain.test_restored import restarted
from tests.explain.test_transactions import KILLED
from tickproof.conformance.explain import story
from tickproof.conformance.explain.outcomes import outcome_of
from tickproof.conformance.history import events
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.evidence import VALUES
from tickproof.conformance.suites.judge import Fail
from tickproof.conformance.suites.require import require_values
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import LEAST_CLAIMS, RunFolder, given_input
from tickproof.generators.layouts import COUNT_IN

A = SYMBOLS[0]
#: Bid and offer of a quote, what the rule says, and what the clauses say each.
CLEAR, BORDER, FIVE_PER_CENT = (1_000_000, 1_000_100), (1_000_000, 1_000_500), (780, 820)
FIVE_CENTS_ONLY, RATIO_ONLY = (1_000_000, 1_000_600), (700, 800)


def headline(history):
    """Judge the values of a run, and return the first sentence of its story."""
    with pytest.raises(Fail) as failed:
        require_values(history, VALUES)
    return story(history, outcome_of("MS-MADE", "made", failed.value, history)).headline


@pytest.fixture
def market(tmp_path):
    """Return the history of a run that answers quotes (bid, offer) with given decisions."""

    def make(*answers):
        rows, came = [], []
        for number, (prices, reject) in enumerate(answers, 1):
            rows += [quote(A, number, *prices), order(A, number)]
            came.append(verdict(number, A, number, *prices, reject))
        scenario = Scenario("made", "market-spread", {"inputs": "merged", "emit": "verdicts"}, {})
        run = RunFolder(tmp_path, scenario, make_input=given_input({(0, 0): messages(rows)}))
        run.tables(fetches=[(1, 0, 0, 0, len(rows))])
        run.outputs(output_log(np.concatenate(came), t_ns=2))
        return run.history()

    return make


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (BORDER, "the spread is exactly 500: `>` in place of `>=`"),
        (FIVE_PER_CENT, "40 * spread is exactly bid + offer: `>` in place of `>=`"),
        (RATIO_ONLY, "only the ratio clause rejects: it is missing"),
    ],
)
def test_a_slip_in_the_rule_is_named_if_it_gives_every_verdict(market, wrong, said):
    others = [(one, 1) for one in (FIVE_CENTS_ONLY, RATIO_ONLY) if one != wrong]
    made = headline(market((CLEAR, 0), (wrong, 0), (wrong, 0), *others))

    assert made.startswith("The first wrong output: accept order 2")
    assert made.endswith(f"In each of the 2 wrong verdicts, {said}; all others follow the rule.")


@pytest.mark.parametrize("other", [(BORDER, 1), (RATIO_ONLY, 0), (CLEAR, 1), (CLEAR, 0)])
def test_no_slip_is_named_that_a_verdict_contradicts_or_none_sets_apart(market, other):
    made = headline(market((CLEAR, 0), (BORDER, 0), other))

    assert "the spread is exactly 500)" in made
    assert "in place of" not in made and "missing" not in made


@pytest.fixture
def resumed(tmp_path):
    """Return the history of a run of app count that restarts at record 60 with a given state.

    change: what is done to the outputs since then.
    """

    def make(state, change):
        records = [(number * 7 % 10, 1000 + number * number) for number in range(120)]
        inputs = np.array(records, COUNT_IN)
        run = RunFolder(
            tmp_path,
            Scenario("made", "count", {"emit": "every"}, {"kind": "keyed", "seed": 1}),
            make_input=given_input({(0, 0): inputs}),
        )
        after = restarted(records, state, 60, 0)
        change(after)
        came = np.concatenate([restarted(records[:60], 0, 0, 0), after])
        run.facts(claims={**LEAST_CLAIMS, "state": "exactly-once"})
        run.tables(fetches=[(1, 0, 0, 0, 60), (50, 0, 0, 60, 120)])
        later = np.arange(len(came)) >= 60
        run.outputs(output_log(came, t_ns=np.where(later, 60, 5), connection=np.where(later, 2, 1)))
        kill = replace(KILLED, t_ns=20, struck_ns=20, partitions=((0, 0, 120, 120, 60, 0),))
        run.events(
            kill,
            events.Started(t_ns=30, pid=8, resume=True),
            events.Connected(t_ns=40, connection=2),
        )
        return run.history()

    return make


def test_the_state_behind_wrong_totals_is_named_if_it_gives_most_of_them(resumed):
    made = headline(resumed(0, lambda after: None))

    assert made.endswith("the offset was restored and the state was not.")


def test_two_cuts_are_named_if_they_give_most_wrong_totals(resumed):
    made = headline(resumed(40, lambda after: None))

    assert made.endswith("State and offset come from two different cuts.")


@pytest.mark.parametrize("state", [0, 40])
def test_no_state_is_named_if_other_totals_are_wrong_in_another_way(resumed, state):
    def also_wrong(after):
        after["total"][10:] += 5 * np.arange(len(after) - 10) + 3  # the first of each key fit

    made = headline(resumed(state, also_wrong))

    assert "state" not in made.lower()
    assert "cut" not in made
    assert "the total due is" in made
