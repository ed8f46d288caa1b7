"""What rows and batch have to refuse alike, as pure functions: no Spark."""

from __future__ import annotations

import numpy as np
import pytest

from tickproof.reference.api import (
    Application,
    Pipeline,
    PipelineError,
    Sink,
    Source,
    State,
    StateComputation,
    Timer,
)
from tickproof.reference.api.layouts import framed, new
from tickproof.reference.apps import vwap
from tickproof.reference.compiler import batch
from tickproof.reference.compiler.processor import KeyedStage
from tickproof.reference.compiler.steps import RecordError, StepError, through

VALUE = framed(("key", "<u8"), ("value", "<i8"))
POINT = framed(("key", "<u8"), ("n", "<u8"))


def application(
    function, fields, timer: Timer | None = None, out=POINT, given=VALUE
) -> Application:
    state = State("kept", np.dtype(fields))
    step = StateComputation("step", state, function, out, timer=timer)
    return Application(
        "app", [Pipeline("all", Source(0, given)).by("key").to(step).into(Sink(0, out))]
    )


def in_rows(app: Application, records: np.ndarray) -> list:
    (stage,) = app.pipelines[0].stages[1:]
    states = {state.name: np.zeros(1, state.layout) for state in app.states(1)}
    rows = np.zeros(len(records), int)
    return next(made.tolist() for sink, made, _ in through(stage, records, states, rows) if sink)


def in_batch(app: Application, records: np.ndarray) -> list:
    return batch.outputs(app, {0: [records]})[0].tolist()


def values(*numbers: int) -> np.ndarray:
    records = new(len(numbers), VALUE)
    records["key"], records["value"] = 7, numbers
    return records


def added(record, kept):
    kept.total += record.value  # a u64 plus an i64 is a float in numpy
    return record.key, kept.total


def assigned(name, value):
    def function(record, kept):
        setattr(kept, name, value)
        return record.key, 1

    return function


@pytest.mark.parametrize("form", [in_rows, in_batch])
@pytest.mark.parametrize(
    ("function", "field", "said"),
    [
        (added, ("total", "<u8"), "total: expected uint64, got the float 9007199254740992.0"),
        (assigned("word", b"too long"), ("word", "S4"), "word: expected at most 4 bytes, got 8"),
        (assigned("x", None), ("x", "<f8"), "x: expected float64, got None"),
        (assigned("n", 3.7), ("n", "<u8"), "n: expected uint64, got the float 3.7"),
    ],
)
def test_what_a_state_cannot_hold_is_never_cut_off(form, function, field, said):
    with pytest.raises(StepError, match=said):
        form(application(function, [field]), values(2**53 + 1, 1))


@pytest.mark.parametrize("form", [in_rows, in_batch])
def test_what_it_can_hold_is_kept(form):
    def counted(record, kept):
        kept.n += np.uint64(1)
        return record.key, kept.n

    assert [row[-1] for row in form(application(counted, [("n", "<u8")]), values(5, 6, 7))] == [
        1,
        2,
        3,
    ]


WHEN = framed(("key", "<u8"), ("at", "<i8"))


@pytest.mark.parametrize("form", [in_rows, in_batch])
@pytest.mark.parametrize("base", [1000, -1000])
def test_a_timer_goes_off_before_zero_too(form, base):
    def halted(record, kept):
        if kept.halted:
            return None
        kept.halted, kept.due = 1, record.value + 300
        return record.key, record.value

    timer = Timer("due", "value", lambda record, kept: (record.key, kept.due))
    app = application(halted, [("due", "<i8"), ("halted", "u1")], timer, WHEN)
    found = form(app, values(base, base + 100, base + 500))
    assert [row[-1] for row in found] == [base, base + 300]


@pytest.mark.parametrize("form", [in_rows, in_batch])
def test_a_timer_of_no_number_is_refused(form):
    timer = Timer("due", "value", lambda record, kept: None)
    given = framed(("key", "<u8"), ("value", "<f8"))
    app = application(assigned("due", float("nan")), [("due", "<f8")], timer, given=given)
    with pytest.raises(StepError, match=r"expected a timer later than 1\.0, got nan"):
        form(app, values(1).astype(given))


def test_a_field_of_a_state_is_not_named_like_the_key():
    app = application(added, [("key", "<u8"), ("total", "<u8")])
    with pytest.raises(PipelineError, match="expected fields of a state, none named key"):
        KeyedStage(app, 1, 8)


# -- the input of a batch ---------------------------------------------------------------


def trades(path, *volumes: int):
    records = new(len(volumes), vwap.TRADE)
    records["symbol"], records["price"], records["volume"] = b"A", 10, volumes
    path.write_bytes(records.tobytes())
    return path


def test_a_batch_takes_what_a_stream_takes(tmp_path):
    source = vwap.averages().source
    paths = [trades(tmp_path / "a", 1, 0, 3), trades(tmp_path / "b")]
    with pytest.raises(RecordError, match="stream 0, partition 0, offset 1: expected a volume"):
        batch.records(source, paths)
    buried = Source(0, vwap.TRADE, vwap.sensible, str(tmp_path / "letters"))
    first, second = batch.records(buried, paths)
    assert first["volume"].tolist() == [1, 3] and len(second) == 0
    assert not (tmp_path / "letters").exists()


@pytest.mark.parametrize("source", [Source(0), Source(0, vwap.TRADE)])
def test_a_batch_names_a_file_that_is_not_records_of_one_size(tmp_path, source):
    path = trades(tmp_path / "a", 1, 2)
    whole = path.read_bytes()
    for content in (whole[:-1], whole + b"\1\0\0\0x", b"\1\0"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a: expected records, all of \d+ bytes"):
            batch.records(source, [path])


def test_a_batch_of_undecoded_records_may_have_empty_partitions(tmp_path):
    empty, full = trades(tmp_path / "a"), trades(tmp_path / "b", 1, 2)
    assert list(map(len, batch.records(Source(0), [empty, full]))) == [2]
    assert list(map(len, batch.records(Source(0), [empty]))) == [0]
