"""The state of a restarted engine, found from its outputs alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.explain.count_values import restored
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT


def restarted(records, state, base, first):
    """Play an engine with the state of one offset that reads on from another."""
    totals = {}
    for key, value in records[:state]:
        n, total = totals.get(key, (0, 0))
        totals[key] = (n + 1, total + value)
    out = []
    for key, value in records[base:]:
        n, total = totals.get(key, (0, 0))
        totals[key] = (n + 1, total + value)
        out.append((key, n + 1, total + value))
    return np.array(out[first:], COUNT_OUT)


@given(st.data())
def test_the_state_of_a_restarted_engine_is_found_from_its_outputs(data):
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    size = data.draw(st.integers(40, 200))
    keys = data.draw(st.integers(2, 20))
    records = list(
        zip(rng.integers(0, keys, size).tolist(), rng.integers(-50, 50, size).tolist(), strict=True)
    )
    base = data.draw(st.integers(0, size - 20))
    state = data.draw(st.integers(0, size))
    first = data.draw(st.integers(0, 5))
    out = restarted(records, state, base, first)

    found = restored(np.array(records, COUNT_IN), out, base)

    if found is not None:  # the order of keys may fit two places of the input
        assert found.low <= state <= found.high
        judged = {int(key) for key in out["key"]}
        between = records[min(found.low, state) : max(found.low, state)]
        assert not judged & {key for key, _ in between}
        assert found.sound == (found.low <= base <= found.high)
        assert found.fits.all() and len(found.fits) == found.run
    elif len(out) > 60 and keys >= 10:
        raise AssertionError("sixty outputs of ten keys have one place only")


@given(st.integers(0, 2**32 - 1))
def test_totals_of_no_single_state_are_not_explained(seed):
    rng = np.random.default_rng(seed)
    records = list(
        zip(rng.integers(0, 9, 120).tolist(), rng.integers(1, 50, 120).tolist(), strict=True)
    )
    out = restarted(records, 30, 50, 0)
    out["total"] += 1

    assert restored(np.array(records, COUNT_IN), out, 50) is None


def test_outputs_in_another_order_than_the_input_are_not_explained():
    records = [(i % 7, i) for i in range(100)]
    out = restarted(records, 30, 50, 0)[::-1].copy()

    assert restored(np.array(records, COUNT_IN), out, 50) is None
    assert restored(np.array(records, COUNT_IN), out[:3], 50) is None
