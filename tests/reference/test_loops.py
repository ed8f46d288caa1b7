"""A compiled function gives what Python gives, or it is not compiled."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Annotated, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

from tests.reference.playing import compiling
from tickproof.reference.api import Computation, State, StateComputation
from tickproof.reference.api.layouts import fields, fields_of, layout_of, new
from tickproof.reference.apps import count, double, market_spread, votes, vwap
from tickproof.reference.compiler import loops
from tickproof.reference.compiler.loops import Refused, compiled
from tickproof.reference.compiler.steps import StepError, stepped

EDGES = {
    "i": [0, 1, -1, 2, 7, -7, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)],
    "u": [0, 1, 2, 7, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1],
    "f": [0.0, -0.0, 1.5, -1.5, 1e300, float("inf"), float("nan"), 2.0**53],
}


class Given(NamedTuple):
    """A record with a field of each type that is computed with."""

    i: np.int64
    j: np.int64
    u: np.uint64
    v: np.uint64
    f: np.float64
    g: np.float64
    small: np.uint8
    word: Annotated[bytes, 5]


class Kept:
    """A state with the same."""

    i: np.int64
    u: np.uint64
    f: np.float64
    word: Annotated[bytes, 5]


GIVEN, KEPT = layout_of(Given), State("kept", fields_of(Kept))


def wide(kind: str) -> st.SearchStrategy:
    own = {"i": st.integers(-(2**63), 2**63 - 1), "u": st.integers(0, 2**64 - 1), "f": st.floats()}[
        kind
    ]
    return own | st.sampled_from(EDGES[kind])


rows = st.lists(
    st.tuples(
        wide("i"), wide("i"), wide("u"), wide("u"), wide("f"), wide("f"),
        st.integers(0, 255), st.binary(max_size=5),
    ),
    max_size=12,
)  # fmt: skip


def table(rows) -> np.ndarray:
    records = new(len(rows), GIVEN)
    if rows:
        for name, values in zip(fields(GIVEN), zip(*rows, strict=True), strict=True):
            records[name] = values
    return records


def whole(record, kept):
    kept.i += record.i * record.j - np.int64(3)
    kept.u += record.u * record.v
    return kept.i, -kept.i & record.j, record.i ^ record.j, kept.u | record.v


def compared(record, kept):
    kept.f = record.f
    signs = record.i < record.u, record.u <= 7, record.small == 3, record.i != -1
    return signs[0] & signs[1], signs[2], not record.i, record.u > record.v or signs[3]


def floats(record, kept):
    kept.f += record.f * record.g - 1.5
    return kept.f, -record.f, 2 * record.g, record.f < record.g


def divided(record, kept):
    kept.i += record.i // -7
    return record.i % record.j, record.u // record.v, record.u % record.v, record.i / record.j


def chosen(record, kept):
    kept.word = record.word
    if record.small == 0:
        return None
    near = max(record.i, record.j) - min(record.i, record.j)
    return Four(near, abs(record.i), np.int64(record.u), record.f if record.i < 0 else record.g)


def several(record, kept):
    kept.u += np.uint64(record.small)
    if record.small > 2:
        return [Four(record.i, record.j, record.i, record.f), helped(record), helped(record)]
    return [helped(record)]


def helped(record):
    return Four(record.i * ONE, record.j, np.int64(record.small), np.float64(record.u))


ONE = np.int64(11)


class Four(NamedTuple):
    """Four fields, for functions of the tests."""

    a: np.int64
    b: np.int64
    c: np.int64
    d: np.float64


WHOLE = [(name, "<i8") for name in "abc"] + [("d", "<u8")]
FLAGS = [(name, "u1") for name in "abcd"]
PARTS = {
    whole: WHOLE,
    compared: FLAGS,
    floats: [("a", "<f8"), ("b", "<f8"), ("c", "<f8"), ("d", "u1")],
    divided: [("a", "<i8"), ("b", "<u8"), ("c", "<u8"), ("d", "<f8")],
    chosen: [(name, "<i8") for name in "abc"] + [("d", "<f8")],
    several: [(name, "<i8") for name in "abc"] + [("d", "<f8")],
}


@pytest.mark.parametrize("function", PARTS, ids=lambda one: one.__name__)
@settings(deadline=None)
@given(rows=rows)
def test_a_loop_gives_what_python_gives(function, rows):
    step = StateComputation("step", KEPT, function, np.dtype(PARTS[function]))
    compiled(step, GIVEN)
    records, keys = table(rows), np.arange(len(rows)) % 3
    found = []
    for at_once in (False, True):
        states = np.zeros(3, KEPT.layout)
        with compiling(at_once), np.errstate(all="ignore"):
            made, at = stepped(step, records, keys, states)
        found.append((one_nan(made), at.tolist(), one_nan(states)))
    assert found[0] == found[1]


def one_nan(records: np.ndarray) -> bytes:
    """Return the bytes of records; which NaN a sum of two is, is up to the processor."""
    for name in records.dtype.names:
        if records[name].dtype.kind == "f":
            records[name][np.isnan(records[name])] = np.nan
    return records.tobytes()


APPS = {
    "count": (count.application("every"), 1),
    "double": (double.application(), 0),
    "merged": (market_spread.merged("rejects"), 1),
    "two": (market_spread.two_streams("rejects"), 1),
    "vwap": (vwap.application(), 1),
    "votes": (votes.application(), 1),
}


@pytest.mark.parametrize("name", APPS)
def test_each_app_is_compiled(name):
    application, stage = APPS[name]
    for pipeline in application.pipelines:
        layout = pipeline.layout(stage)
        for step in pipeline.stages[stage].steps:
            if hasattr(step, "function"):
                assert compiled(step, layout)
                layout = step.out


# -- what is refused ------------------------------------------------------------------


def plus_one(record):
    return (record.u + 1,)


def mixed(record):
    return (record.u + record.i,)


def narrow(record):
    return (record.small + record.small,)


def as_float(record):
    return (record.f + record.small,)


def shifted(record):
    return (record.i << record.j,)


def powered(record):
    return (record.i**2,)


def lowest_by_minus_one(record):
    return (record.i // record.j,)


def negated_by_division(record):
    return (record.i // -1,)


def floored(record):
    return (record.f // record.g,)


def one_variable(record):
    value = record.i if record.small else record.u
    return (value,)


def of_text(record):
    return (record.word == b"abc",)


def too_small(record):
    return (np.uint8(record.i),)


def from_float(record):
    return (np.int64(record.f),)


def looped(record):
    total = record.i
    for _ in range(3):
        total += record.j
    return (total,)


def generated(record):
    yield (record.i,)


def again(record):
    return again(record)


def imported(record):
    return (np.int64(np.sqrt(record.f)),)


TABLE = {1: 2}


def looked_up(record):
    return (TABLE[1],)


@pytest.mark.parametrize(
    ("function", "out", "said"),
    [
        (plus_one, "<u8", r"plus_one, line \d+: add of uint64 and .*int.*1"),
        (mixed, "<f8", "add of uint64 and int64"),
        (narrow, "<i8", "add of uint8 and uint8"),
        (as_float, "<f8", "add of float64 and uint8"),
        (shifted, "<i8", "lshift of int64 and int64"),
        (powered, "<i8", "pow of int64"),
        (floored, "<f8", "floordiv of float64 and float64"),
        (lowest_by_minus_one, "<i8", "floordiv of int64 and int64"),
        (negated_by_division, "<i8", "floordiv of int64 and Literal"),
        (one_variable, "<f8", "in one variable"),
        (of_text, "u1", "of_text"),
        (too_small, "u1", r"call of class\(uint8\)"),
        (from_float, "<i8", r"call of class\(int64\)"),
        (looped, "<i8", "looped, line"),
        (again, "<i8", "calls itself"),
        (imported, "<i8", "imported, line"),
        (looked_up, "<i8", "TABLE is {1: 2}: no number, function or class"),
        (lambda record: (record.i,), "<i4", "x: expected int32, got int64"),
        (lambda record: (record.i, record.j), "<i8", r"expected x, got UniTuple"),
        (lambda record: (record.i,) if record.small else None, "<i8", "expected a named tuple"),
        (lambda record: [(record.i,), (record.j,)][0], "<i8", "an index of list"),
        (generated, "<i8", "expected a named tuple, got .*generator"),
        (print, "<i8", "no plain function"),
    ],
)
def test_what_is_not_known_to_be_the_same_is_not_compiled(function, out, said):
    step = Computation("step", function, np.dtype([("x", out)]))
    with pytest.raises(Refused, match=said):
        compiled(step, GIVEN)


def test_a_refused_function_runs_as_python():
    step = Computation("step", plus_one, np.dtype([("x", "<u8")]))
    with compiling(True):
        made, at = stepped(step, table([(0, 0, 2**64 - 2, 0, 0, 0, 0, b"")]))
    assert (made["x"].tolist(), at.tolist()) == ([2**64 - 1], [0])


def test_what_a_loop_raises_is_told_by_python_and_no_state_is_lost():
    def failing(record, kept):
        kept.i += record.i
        if record.i == 3:
            raise ValueError("expected no three")
        return (kept.i,)

    step = StateComputation("step", KEPT, failing, np.dtype([("x", "<i8")]))
    records, states = new(3, GIVEN), np.zeros(1, KEPT.layout)
    records["i"] = 1, 2, 3
    assert compiled(step, GIVEN)
    with compiling(True), pytest.raises(StepError, match="step: expected no three") as caught:
        stepped(step, records, np.zeros(3, int), states)
    assert caught.value.index == 2
    with pytest.raises(ValueError, match="no three"):
        compiled(step, GIVEN)(records, np.zeros(3, int), states)
    assert states["i"].tolist() == [0]


def test_it_is_compiled_after_the_first_records_of_a_process(monkeypatch):
    step = Computation("step", lambda record: (record.i,), np.dtype([("x", "<i8")]))
    made = []
    monkeypatch.setattr(loops, "FEW", 10)
    monkeypatch.setattr(loops, "_compiled", lambda *key: made.append(key) or Refused(""))
    for expected in (0, 0, 1):
        stepped(step, new(5, GIVEN))
        assert len(made) == expected


# -- copies, as Spark makes them -------------------------------------------------------


def copies(limit: int):
    """Return two functions as two tasks have them: unpickled, each an object of its own."""
    number = np.int64(limit)
    here = {"LIMIT": number}
    exec("def over(record):\n    return (record.i + LIMIT,)", here)
    over = here["over"]
    over.__module__ = "__main__"
    return [pickle.loads(cloudpickle.dumps(over)) for _ in range(2)]


def test_copies_of_a_function_share_a_loop_and_others_do_not():
    out = np.dtype([("x", "<i8")])
    first, again, other = (
        compiled(Computation("step", one, out), GIVEN) for one in (*copies(1), copies(2)[0])
    )
    assert first is again and first is not other
    records = new(1, GIVEN)
    assert first(records)[0]["x"] == 1 and other(records)[0]["x"] == 2


def test_without_numba_everything_runs_as_python():
    program = """
import sys
sys.modules["numba"] = None
import numpy as np
from tickproof.reference.apps import count
from tickproof.reference.api.layouts import new
from tickproof.reference.compiler import loops, steps
loops.FEW = -1
step = count.application("every").pipelines[0].stages[1].steps[0]
records = new(3, count.VALUE)
records["value"] = 5, 10, 15
made, _ = steps.stepped(step, records, np.zeros(3, int), np.zeros(1, count.TOTAL.layout))
print(made["total"].tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[5, 15, 30]\n", done.stderr
