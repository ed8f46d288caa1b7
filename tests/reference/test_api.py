"""Applications that cannot work are refused when they are put together."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tickproof.reference import api, apps
from tickproof.reference.api import (
    Application,
    Computation,
    Pipeline,
    PipelineError,
    Sink,
    Source,
    State,
    StateComputation,
    Timer,
    words,
)
from tickproof.reference.api.arrays import numbered
from tickproof.reference.api.layouts import (
    BadRecord,
    cast,
    fields,
    fields_of,
    framed,
    kind,
    layout_of,
    new,
    view,
)
from tickproof.reference.apps import market_spread, vwap

RECORD = framed(("key", "<u8"), ("value", "<i8"))
OTHER = framed(("key", "<u8"))
TOTAL = State("total", np.dtype([("n", "<u8")]))
WIDER = State("total", np.dtype([("n", "<u8"), ("last", "<u8")]))
AT = State("at", np.dtype([("at", "S8")]))
TEXTS = framed(("at", "S8"))
NEWEST = State("newest", np.dtype([("n", "<u8")]))


def nothing(*_) -> None:
    """Compute nothing: these applications are never run."""


def plain(name: str = "step", out=RECORD) -> Computation:
    return Computation(name, nothing, out)


def counting(name: str = "count", state: State = TOTAL, timer=None) -> StateComputation:
    return StateComputation(name, state, nothing, RECORD, timer=timer)


def pipeline(*steps, number: int = 0, decoder=RECORD, sink: Sink | None = None) -> Pipeline:
    """Return a pipeline of steps, sinks and names of keys, ``number`` being its stream."""
    made = Pipeline(("one", "two")[number], Source(number, decoder))
    for step in [*steps, sink] if sink else steps:
        made = made.by(step) if isinstance(step, str) else made.to(step)
    return made


SINK = Sink(0, RECORD)

REFUSED = {
    "no pipeline": ([], "app: expected at least one pipeline"),
    "no sink": ([pipeline(plain())], "app: expected a sink"),
    "two pipelines of one name": (
        [pipeline(sink=SINK), Pipeline("one", Source(1, RECORD))],
        "app: expected a name and a stream of its own for each pipeline",
    ),
    "two pipelines of one stream": (
        [pipeline(sink=SINK), Pipeline("two", Source(0, RECORD))],
        "app: expected a name and a stream of its own for each pipeline",
    ),
    "one stream, two encoders": (
        [pipeline(sink=SINK), pipeline(plain(out=OTHER), number=1, sink=Sink(0, OTHER))],
        "app: expected one encoder for a stream, got ",
    ),
    "one state twice behind a key": (
        [pipeline("key", counting(), counting("again"), sink=SINK)],
        "app, pipeline one: again: expected a state that no step before it has",
    ),
    "one state behind two keys": (
        [pipeline("key", counting(), "value", counting("again"), sink=SINK)],
        "app: expected one layout and one key for each state, got total, total",
    ),
    "one name of two states": (
        [
            pipeline("key", counting(), sink=SINK),
            pipeline("key", counting(state=WIDER), number=1, sink=SINK),
        ],
        "app: expected one layout and one key for each state, got total, total",
    ),
    "a key in one pipeline of two": (
        [pipeline("key", counting(), sink=SINK), pipeline(plain(), number=1, sink=SINK)],
        "app: expected the same keys in all pipelines, got ",
    ),
    "two names of the key": (
        [pipeline("key", counting(), sink=SINK), pipeline("value", counting(), number=1)],
        "app: expected the same keys in all pipelines, got ",
    ),
    "two types of the key": (
        [
            pipeline("key", counting(), sink=SINK),
            pipeline("key", counting(), decoder=framed(("key", "<i8")), number=1),
        ],
        "app: expected the same keys in all pipelines, got ",
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
    "a sink in front of a key": (
        [pipeline(SINK, "key", counting(), Sink(1, RECORD))],
        "app, pipeline one: expected sink 0 behind the last key",
    ),
    "key of another type": (
        [pipeline("x", counting(), decoder=framed(("x", "<f8")), sink=SINK)],
        "app, pipeline one: expected a whole number or a text 'x' as key",
    ),
    "no such key": (
        [pipeline("symbol", counting(), sink=SINK)],
        "app, pipeline one: expected a whole number or a text 'symbol' as key",
    ),
    "key lost on the way": (
        [pipeline(plain(out=framed(("x", "<u8"))), "key", counting(), sink=SINK)],
        "app, pipeline one: expected a whole number or a text 'key' as key",
    ),
    "a key of what is not decoded": (
        [pipeline("key", counting(), decoder=None, sink=SINK)],
        "app, pipeline one: expected a whole number or a text 'key' as key",
    ),
    "state without a key": (
        [pipeline(counting(), sink=SINK)],
        "app, pipeline one: count needs a key in front of it",
    ),
    "a key without state": (
        [pipeline("key", plain(), sink=SINK)],
        "app, pipeline one: expected a step with state behind key 'key'",
    ),
    "a timer on other types": (
        [pipeline("key", counting(timer=Timer("n", "value", nothing)), sink=SINK)],
        "app, pipeline one: count: expected a timer on numbers of one type, got <u8 and <i8",
    ),
    "a timer on no field": (
        [pipeline("key", counting(timer=Timer("n", "time", nothing)), sink=SINK)],
        "app, pipeline one: count: expected a timer on numbers of one type, got <u8 and |-",
    ),
    "a timer on a text": (
        [pipeline("at", counting(state=AT, timer=Timer("at", "at", nothing)), decoder=TEXTS)],
        "app, pipeline one: count: expected a timer on numbers of one type, got |S8 and |S8",
    ),
    "step without decoder": (
        [pipeline(plain("twice"), decoder=None, sink=SINK)],
        "app, pipeline one: twice needs a decoder in front of it",
    ),
    "step after one without output": (
        [pipeline("key", StateComputation("keep", TOTAL, nothing), plain("late"), sink=SINK)],
        "app, pipeline one: late needs a decoder in front of it",
    ),
}


@pytest.mark.parametrize(
    "layout",
    [np.dtype("<u8"), np.dtype([("n", "<u8"), ("size", "<u8")]), framed(("n", "<u8")),
     np.dtype([("n", "<u8"), ("", "V3")]), np.dtype([("_n", "<u8")]), np.dtype([("sum", "<u8")])],
)  # fmt: skip
def test_a_state_that_could_not_be_kept(layout):
    with pytest.raises(PipelineError, match=r"^state total: expected fields, none of them padding"):
        State("total", layout)


@pytest.mark.parametrize(("pipelines", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_a_wrong_application_is_refused(pipelines, text):
    with pytest.raises(PipelineError, match="^" + re.escape(text)):
        Application("app", pipelines)


def test_steps_stand_behind_the_key_that_was_chosen_last():
    split, after, newest = plain("split"), plain("after"), counting("newest", NEWEST)
    audit = Sink(1, RECORD)
    one = pipeline().to(split).by("key").to(counting()).into(audit).to(after)
    one = one.by("value").to(newest).into(SINK)
    with pytest.raises(PipelineError, match="expected sink 1 behind the last key"):
        Application("app", [one])
    one = pipeline(split, "key", counting(), after, "value", newest, audit, plain(), SINK)
    application = Application("app", [one])
    assert application.keys == ["key", "value"]
    assert [application.states(stage) for stage in range(3)] == [[], [TOTAL], [NEWEST]]
    assert application.sinks == [audit, SINK]
    assert [len(stage.steps) for stage in one.stages] == [1, 2, 4]


def test_the_api_exports_what_it_names_and_no_more():
    public = {name for name in vars(api) if name[0].isalpha()}
    assert public - {"arrays", "words", "layouts"} == set(api.__all__)
    assert vars(words).keys() >= set(api.__all__)
    assert "Any" not in vars(words)


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


# -- layouts ------------------------------------------------------------------------


def test_a_layout_is_the_record_as_it_lies_in_the_log():
    layout = framed(("kind", "u1"), ("", "V3"), ("id", "<u8"))
    assert layout.itemsize == 4 + 1 + 3 + 8
    records = new(2, layout)
    assert records.tobytes() == (b"\x0c\0\0\0" + bytes(12)) * 2
    assert view(records.tobytes(), layout).tolist() == records.tolist()
    assert len(view(b"", layout)) == 0


def test_a_class_declares_a_layout():
    fields = ("symbol", "S8"), ("ns", "<u8"), ("price", "<u8"), ("volume", "<u8")
    assert layout_of(vwap.Trade) == framed(*fields)
    assert fields_of(vwap.Trade) == np.dtype(list(fields))


@pytest.mark.parametrize(
    ("layout", "declared"),
    [
        (market_spread.MESSAGE, market_spread.Message),
        (market_spread.VERDICT, market_spread.Verdict),
    ],
)
def test_a_layout_with_padding_has_the_fields_of_its_class(layout, declared):
    kinds = [(name, kind(layout, name)) for name in fields(layout)]
    assert np.dtype(kinds) == fields_of(declared)


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("<i8", None, "expected int64, got None"),
        ("<i8", 1.7, "expected int64, got the float 1.7"),
        ("<u8", np.uint64(1) + np.int64(1), "expected uint64, got the float 2.0"),
        ("<f8", None, "expected float64, got None"),
        ("S3", None, r"expected \|S3, got None"),
        ("S3", b"four", "expected at most 3 bytes, got 4"),
        ("S3", "\N{EURO SIGN}", r"expected \|S3, got .*ascii"),
        ("u1", 256, "expected uint8, got .*256"),
        ("<u8", -1, "expected uint64, got .*-1"),
        ("<i8", "x", "expected int64, got invalid literal"),
    ],
)
def test_what_does_not_fit_a_field_is_refused(type_, value, text):
    with pytest.raises(ValueError, match=f"^field: {text}"):
        cast("field", np.dtype(type_), [value])


def test_integers_of_numpy_wrap_and_a_text_loses_its_zeros():
    assert cast("field", np.dtype("u1"), [np.int64(-1), np.int64(256)]).tolist() == [255, 0]
    assert cast("field", np.dtype("S3"), [b"a\0", b""]).tolist() == [b"a", b""]


@pytest.mark.parametrize("size", [0, 7, 9, 2**32 - 1])
def test_a_view_of_records_of_another_size_is_refused(size):
    data = size.to_bytes(4, "little") + bytes(min(size, 9))
    with pytest.raises(BadRecord, match=f"^expected a payload of 8 bytes, got {size}$") as caught:
        view(data, OTHER)
    assert caught.value.index == 0


def test_keys_are_numbered():
    keys = np.array([5, 2**64 - 1, 5, 0, 2**63], "<u8")
    distinct, ids = numbered(keys)
    assert sorted(distinct.tolist()) == [0, 5, 2**63, 2**64 - 1]
    assert distinct[ids].tolist() == keys.tolist()
