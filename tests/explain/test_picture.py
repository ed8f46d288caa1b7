"""The picture: its width, its marks in the order of time, its lanes, histories that hold little."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites import tampering
from tickproof.conformance.explain.picture import (
    Moment,
    Scale,
    arranged,
    legend,
    moments,
    picture,
    plain,
)
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import FETCH
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.testing.run_folder import RunFolder

TIMES = st.lists(st.integers(0, 10**12), max_size=60)


@given(TIMES, st.lists(st.integers(0, 10**12), min_size=1, max_size=200), st.integers(20, 97))
def test_marks_stand_in_the_order_of_time_each_in_a_column_of_its_own(marks, times, room):
    made = [Moment(t_ns, "x", "", t_ns % 4) for t_ns in sorted(marks)]
    scale = Scale(np.array([*times, *marks], np.int64), room)

    kept, columns = arranged(made, scale, room)

    remain = set(map(id, kept))  # moments of one time are equal
    assert [moment for moment in made if id(moment) in remain] == kept
    assert columns == sorted(set(columns))
    assert all(0 <= column < room for column in columns)
    if len(made) <= room:
        assert kept == made
    else:  # what was left out says less than all that is there
        assert len(kept) == room
        gone = len(made) - room
        ranks = sorted(moment.rank for moment in made)
        assert sorted(moment.rank for moment in kept) == ranks[: len(ranks) - gone]


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200), st.integers(20, 97))
def test_columns_never_fall_with_time(times, room):
    scale = Scale(np.array(times, np.int64), room)
    columns = scale.columns(np.sort(np.array(times, np.int64)))
    assert (np.diff(columns) >= 0).all()
    assert columns.min() >= 0
    assert columns.max() < room


def test_a_long_silence_takes_little_room():
    busy = np.arange(0, 10**9, 10**7)
    scale = Scale(np.concatenate([busy, busy + 100 * 10**9]), 60)
    first, second = scale.columns(np.array([busy[-1], busy[0] + 100 * 10**9]))
    assert first > 20
    assert second < 40
    assert scale.quiet == [(int(busy[-1]), 100 * 10**9)]


@pytest.mark.parametrize("width", [1, 60, 80, 100, 120, 500])
def test_no_line_is_wider_than_asked(recorded, width):
    lines = picture(History(recorded.run("count-engine-death")), width=width)
    assert max(map(len, lines)) <= min(max(width, 60), 120)


def lanes(lines):
    """Return label -> (cells, total) of a picture of 80 columns."""
    return {line[:10].strip(): (line[10:67], line[67:].strip()) for line in lines if line[0] != " "}


def test_lanes_show_what_the_tables_hold(recorded):
    history = History(recorded.run("count-engine-death"))
    lines = picture(history, width=80)
    found = lanes([line for line in lines if not line.startswith("  ")])

    reach, fresh = {}, 0
    for row in history.fetches.tolist():
        _, stream, partition, _, end = row
        before = reach.get((stream, partition), 0)
        fresh += max(0, end - before)
        reach[stream, partition] = max(before, end)
    assert found["published"][1] == f"{history.input_records:,}"
    assert found["fetched"][1] == f"{fresh:,}"
    assert found["released"][1] == f"{history.input_records:,}"
    assert found["outputs"][1] == f"{history.input_records:,}"


def test_each_mark_has_a_legend_with_its_time(recorded):
    history = History(recorded.run("count-engine-death"))
    wrong = Moment(history.faults[0].t_ns + 1, "X", "first wrong output", 0)
    lines = picture(history, [wrong], width=80)
    events = next(line for line in lines if line.startswith("events"))
    legend = " ".join(line for line in lines if line.startswith("  "))
    marks = events[10:].replace(" ", "")

    said = re.findall(r"(\S) (\d+\.\d{3}) ", legend)
    assert "".join(mark for mark, _ in said) == marks
    assert [float(at) for _, at in said] == sorted(float(at) for _, at in said)
    for mark in "SKRrXdD":
        assert mark in marks, mark
    assert marks.index("K") < marks.index("X") < marks.index("R")


def test_marks_of_one_meaning_are_told_by_the_first_and_the_last_of_them():
    marks = [Moment(n * 10**9, "c", "checkpoint answered", 1) for n in range(1, 31)]
    marks.insert(3, Moment(3_500_000_000, "K", "SIGKILL", 0))
    assert legend(marks, 0, 80) == ["  c 1.000 to 30.000 checkpoint answered   K 3.500 SIGKILL"]
    assert len(" ".join(legend(marks[:4], 0, 80)).split("   ")) == 4


def test_a_second_fetch_is_a_lane_of_its_own(copy_of):
    folder = copy_of("passthrough")
    assert not any(line.startswith(" again") for line in picture(History(folder)))
    rows = np.fromfile(folder / "fetches.bin", FETCH)
    more = rows[-1:].copy()
    more["base"], more["end"] = 0, 7
    np.concatenate([rows, more]).tofile(tampering.fresh(folder / "fetches.bin"))

    again = [line for line in picture(History(folder)) if line.startswith(" again")]
    assert [line.split()[-1] for line in again] == ["7"]


def test_ascii_has_the_same_shape(recorded):
    for line in picture(History(recorded.run("count-pause"))):
        assert plain(line).isascii()
        assert len(plain(line)) == len(line)


@pytest.mark.parametrize(
    "tamper",
    [
        tampering.drop_all,
        tampering.empty_input,
        tampering.no_fault,
        tampering.engine_failure,
        tampering.without("started", "deployed", "drained", "exited", "recovered"),
    ],
)
def test_histories_that_hold_little_have_a_picture(copy_of, tamper):
    folder = copy_of("count-engine-death")
    tamper(folder)
    lines = picture(History(folder))
    assert len(lines) >= 6
    assert max(map(len, lines)) <= 80


def test_an_engine_that_died_at_its_start_has_a_picture(tmp_path):
    ended = {"how": "engine-failure", "code": "NOT_FOUND", "message": "no"}
    recipe = {"kind": "payloads", "records": 100, "size": 52, "seed": 1}
    scenario = Scenario("passthrough", "passthrough", {}, recipe)
    history = RunFolder(tmp_path, scenario, ended=ended).history()

    assert moments(history) == []
    lines = picture(history)
    assert [line.split()[-1] for line in lines[2:6]] == ["0", "0", "0", "0"]
