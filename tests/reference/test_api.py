"""Applications that cannot work are refused when they are put together; diagrams, exactly."""

from __future__ import annotations

import re
from textwrap import dedent

import numpy as np
import pytest

from tickproof.reference import apps
from tickproof.reference.api import (
    Application,
    Computation,
    Pipeline,
    PipelineError,
    Sink,
    Source,
    State,
    StateComputation,
    diagram,
)
from tickproof.reference.api.layouts import BadRecord, framed, grouped, new, numbered, view

RECORD = framed(("key", "<u8"), ("value", "<i8"))
OTHER = framed(("key", "<u8"))
TOTAL = State("total", np.dtype([("n", "<u8")]))
NEWEST = State("newest", np.dtype([("n", "<u8")]))


def nothing(*_) -> None:
    """Compute nothing: these applications are never run."""


def plain(name: str = "step", out=RECORD) -> Computation:
    return Computation(name, nothing, out)


def counting(name: str = "count", key: str = "key", state: State = TOTAL) -> StateComputation:
    return StateComputation(name, state, key, nothing, RECORD)


def pipeline(*steps, name: str = "one", decoder=RECORD, sink: Sink | None = None) -> Pipeline:
    return Pipeline(name, Source(0, decoder), steps, sink)


SINK = Sink(0, RECORD)

REFUSED = {
    "no pipeline": ([], "app: expected at least one pipeline"),
    "no sink": ([pipeline(plain())], "app: expected one sink, got 0"),
    "two sinks": (
        [pipeline(sink=SINK), pipeline(name="two", sink=Sink(1, RECORD))],
        "app: expected one sink, got 2",
    ),
    "one stream, two encoders": (
        [pipeline(sink=SINK), pipeline(plain(out=OTHER), name="two", sink=Sink(0, OTHER))],
        "app: expected one sink, got 2",
    ),
    "two states in a pipeline": (
        [pipeline(counting(), counting("again"), sink=SINK)],
        "app, pipeline one: expected at most one computation with state",
    ),
    "two states in an application": (
        [
            pipeline(counting(), sink=SINK),
            pipeline(counting(state=NEWEST), name="two", sink=SINK),
        ],
        "app: expected one state for all pipelines, got ",
    ),
    "state in one pipeline of two": (
        [pipeline(counting(), sink=SINK), pipeline(plain(), name="two", sink=SINK)],
        "app: expected one state for all pipelines, got {'total'}",
    ),
    "encoder": (
        [pipeline(plain(out=OTHER), sink=SINK)],
        f"app, pipeline one: the sink takes {RECORD}, got {OTHER}",
    ),
    "no encoder": (
        [pipeline(plain(), sink=Sink(0))],
        f"app, pipeline one: the sink takes None, got {RECORD}",
    ),
    "encoder of what is not decoded": (
        [pipeline(decoder=None, sink=SINK)],
        f"app, pipeline one: the sink takes {RECORD}, got None",
    ),
    "key of another type": (
        [pipeline(counting(key="value"), sink=SINK)],
        "app, pipeline one: count: expected a u64 field 'value'",
    ),
    "no such key": (
        [pipeline(counting(key="symbol"), sink=SINK)],
        "app, pipeline one: count: expected a u64 field 'symbol'",
    ),
    "key lost on the way": (
        [pipeline(plain(out=framed(("x", "<u8"))), counting(), sink=SINK)],
        "app, pipeline one: count: expected a u64 field 'key'",
    ),
    "step without decoder": (
        [pipeline(plain("twice"), decoder=None, sink=SINK)],
        "app, pipeline one: twice needs a decoder in front of it",
    ),
    "state without decoder": (
        [pipeline(counting(), decoder=None, sink=SINK)],
        "app, pipeline one: count needs a decoder in front of it",
    ),
    "step after one without output": (
        [pipeline(StateComputation("keep", TOTAL, "key", nothing), plain("late"), sink=SINK)],
        "app, pipeline one: late needs a decoder in front of it",
    ),
}


@pytest.mark.parametrize(("pipelines", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_a_wrong_application_is_refused(pipelines, text):
    with pytest.raises(PipelineError, match="^" + re.escape(text)):
        Application("app", pipelines)


def test_the_steps_around_the_state():
    before, after = plain("before"), plain("after")
    one = pipeline().to(before).to(counting()).to(after).into(SINK)
    assert Application("app", [one]).state == TOTAL
    assert (one.before, one.stateful, one.after) == ((before,), counting(), (after,))
    stateless = pipeline().to(before).to(after).into(SINK)
    assert Application("app", [stateless]).state is None
    assert (stateless.before, stateless.stateful, stateless.after) == ((before, after), None, ())


@pytest.mark.parametrize(
    ("app", "params"),
    [
        ("median", {}),
        ("double", {"emit": "every"}),
        ("count", {}),
        ("count", {"emit": "rejects"}),
        ("market-spread", {"emit": "rejects"}),
        ("market-spread", {"inputs": "three", "emit": "rejects"}),
        ("market-spread", {"inputs": "two", "emit": "some"}),
    ],
)
def test_an_unknown_app_is_refused(app, params):
    with pytest.raises(ValueError, match=re.escape(f"unknown app {app!r} with params {params!r}")):
        apps.make(app, params)


DIAGRAMS = [
    (
        apps.make("passthrough", {}),
        """\
        passthrough
          all: source 0 -> sink 0""",
        r"""
        flowchart LR
            source0[/source 0/] --> sink0[\sink 0\]""",
    ),
    (
        apps.make("double", {}),
        """\
        double
          all: source 0 -> double -> sink 0""",
        r"""
        flowchart LR
            source0[/source 0/] --> p0s0[double]
            p0s0 --> sink0[\sink 0\]""",
    ),
    (
        apps.make("count", {"emit": "some"}),
        """\
        count
          all: source 0 -> count [total by key] -> sink 0""",
        r"""
        flowchart LR
            source0[/source 0/] --> p0s0[count]
            p0s0 <-.-> state[(total by key)]
            p0s0 --> sink0[\sink 0\]""",
    ),
    (
        apps.make("market-spread", {"inputs": "merged", "emit": "verdicts"}),
        """\
        market-spread
          market: source 0 -> update-or-check [market by symbol] -> sink 0""",
        r"""
        flowchart LR
            source0[/source 0/] --> p0s0[update-or-check]
            p0s0 <-.-> state[(market by symbol)]
            p0s0 --> sink0[\sink 0\]""",
    ),
    (
        apps.make("market-spread", {"inputs": "two", "emit": "rejects"}),
        """\
        market-spread
          quotes: source 0 -> update [market by symbol]
          orders: source 1 -> check [market by symbol] -> only-rejects -> sink 0""",
        r"""
        flowchart LR
            source0[/source 0/] --> p0s0[update]
            p0s0 <-.-> state[(market by symbol)]
            source1[/source 1/] --> p1s0[check]
            p1s0 <-.-> state[(market by symbol)]
            p1s0 --> p1s1[only-rejects]
            p1s1 --> sink0[\sink 0\]""",
    ),
]


@pytest.mark.parametrize(("application", "text", "mermaid"), DIAGRAMS)
def test_an_application_draws_itself(application, text, mermaid):
    assert diagram.text(application) == dedent(text)
    assert diagram.mermaid(application) == dedent(mermaid).lstrip("\n")


# -- layouts ------------------------------------------------------------------------


def test_a_layout_is_the_record_as_it_lies_in_the_log():
    layout = framed(("kind", "u1"), ("", "V3"), ("id", "<u8"))
    assert layout.itemsize == 4 + 1 + 3 + 8
    records = new(2, layout)
    assert records.tobytes() == (b"\x0c\0\0\0" + bytes(12)) * 2
    assert view(records.tobytes(), layout).tolist() == records.tolist()
    assert len(view(b"", layout)) == 0


@pytest.mark.parametrize("size", [0, 7, 9, 2**32 - 1])
def test_a_view_of_records_of_another_size_is_refused(size):
    data = size.to_bytes(4, "little") + bytes(min(size, 9))
    with pytest.raises(BadRecord, match=f"^expected a payload of 8 bytes, got {size}$") as caught:
        view(data, OTHER)
    assert caught.value.index == 0


@pytest.mark.parametrize("ids", [[], [3], [2, 1, 2, 2, 0, 1], [70_000, 1, 70_000, 65_535]])
def test_grouping_is_stable_and_marks_the_ends(ids):
    order, first, last = grouped(np.array(ids, np.int32))
    expected = sorted(range(len(ids)), key=lambda place: ids[place])
    assert order.tolist() == expected
    groups = [ids[place] for place in expected]
    assert first.tolist() == [i == 0 or groups[i - 1] != x for i, x in enumerate(groups)]
    assert last.tolist() == [groups[i + 1 : i + 2] != [x] for i, x in enumerate(groups)]


def test_keys_are_numbered():
    keys = np.array([5, 2**64 - 1, 5, 0, 2**63], "<u8")
    distinct, ids = numbered(keys)
    assert sorted(distinct.tolist()) == [0, 5, 2**63, 2**64 - 1]
    assert distinct[ids].tolist() == keys.tolist()
