"""Each step's output against an oracle of dicts and whole numbers, and what must not pass."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.apps.ladder import Ladder
from tickproof.conformance.checkers.ladder import check_ladder
from tickproof.conformance.explain.words import words
from tickproof.conformance.history.outputs import ARRIVAL, OutputLog
from tickproof.conformance.scenario import Step
from tickproof.generators.layouts import COUNT_IN

NOBODY = 2**64 - 1
STEPS = get_args(Step)
I64 = st.integers(-(2**63), 2**63 - 1)
parts = st.lists(st.lists(st.tuples(st.integers(0, 3), I64), max_size=12), min_size=1, max_size=3)


def wrapped(number):
    return (number + 2**63) % 2**64 - 2**63


def owed(step, part):
    """The oracle: the output of one partition, one record after the other."""
    seen, totals, n = Counter(), defaultdict(int), 0
    for key, value in part:
        twice = wrapped(2 * value)
        n, seen[key] = n + 1, seen[key] + 1
        totals[key] = wrapped(totals[key] + twice)
        if step in ("passthrough", "decode"):
            yield key, value
        elif step == "compute":
            yield key, twice
        elif step in ("three-coalesced", "three-apart"):
            yield key, wrapped(-(twice + key))
        elif step == "state":
            yield key, n, twice
        else:
            yield key, seen[key], totals[key]
        if step == "audit":
            yield key, NOBODY, twice


def log(step, rows):
    payloads = np.array(rows, Ladder({"step": step}).output_layout(0))
    arrival = np.array([(1, 0, NOBODY, 0, len(rows), 1, 0, 0)], ARRIVAL)
    return OutputLog(payloads, arrival[: len(rows)])


def check(step, given_, rows):
    inputs = [np.array(part, COUNT_IN) for part in given_]
    return check_ladder(step, inputs, log(step, rows))


@given(st.sampled_from(STEPS), parts, st.randoms(use_true_random=False))
def test_what_a_step_owes_passes_in_any_order_and_nothing_else_does(step, given_, random):
    # Keys of one partition are in no other.
    given_ = [[(key + 4 * at, value) for key, value in part] for at, part in enumerate(given_)]
    rows = list(chain.from_iterable(owed(step, part) for part in given_))
    random.shuffle(rows)
    assert not check(step, given_, rows).counts
    if rows:
        lost = random.randrange(len(rows))
        assert check(step, given_, rows[:lost] + rows[lost + 1 :]).counts["lost"]
        assert check(step, given_, [*rows, rows[lost]]).counts["duplicate"]
        key, *rest, last = rows[lost]
        rows[lost] = key, *rest, wrapped(last + 1)
        assert check(step, given_, rows).counts


@pytest.mark.parametrize(
    ("numbers", "missing"),
    [([2], 1), ([1, 3], 2), ([1, 2, 2], 1), ([0, 1], 1), ([1, 1, 2, 3, 3], 2)],
)
def test_a_state_that_forgot_or_lost_a_record_is_found(numbers, missing):
    part = [(0, 1)] * len(numbers)
    found = check("state", [part], [(0, n, 2) for n in numbers])
    assert found.counts == {"lost": 1}
    assert words(found.examples["lost"][0]).expected == f"n {missing}"


@pytest.mark.parametrize("numbers", [[1, 2, 3], [1, 1, 1], [1, 2, 1], []])
def test_any_number_of_states_will_do(numbers):
    part = [(0, 1)] * len(numbers)
    assert not check("state", [part], [(0, n, 2) for n in numbers]).counts
