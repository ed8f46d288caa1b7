"""A run folder: written, torn, tidied, damaged, and opened again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.engines.output_streams import MAX_LINE
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.fault_steps import KillEngineStep
from tickproof.conformance.history import seal
from tickproof.conformance.history.control_log import ControlLog
from tickproof.conformance.history.event_log import KEEP_PER_KIND, EventLog
from tickproof.conformance.history.events import Network
from tickproof.conformance.history.folder import FORMAT, History, write_json
from tickproof.conformance.history.json_lines import read_json_lines
from tickproof.conformance.history.outputs import ARRIVAL
from tickproof.conformance.history.rows import FETCH, PUBLISH
from tickproof.conformance.history.tables import Table, read_table
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import RunFolder
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT

KILL = KillEngineStep("fetched", fraction=0.5)
RECIPE = {"kind": "keyed", "records": 500, "keys": 20, "partitions": 3, "seed": 5}


@pytest.fixture
def folder(tmp_path):
    """A folder with input, and three outputs in two arrivals."""
    run = RunFolder(tmp_path, Scenario("made", "count", {"emit": "every"}, RECIPE))
    outputs = np.zeros(3, COUNT_OUT)
    outputs["n"] = [1, 2, 3]
    run.outputs(output_log(outputs, [2, 1]))
    return tmp_path


def test_what_was_staged_and_dropped_since_is_not_missed(folder):
    (folder / "output" / "staged.bin").write_bytes(b"open")
    seal.write(folder, {})
    History(folder).verify()
    (folder / "output" / "staged.bin").unlink()
    History(folder).verify()


def test_a_network_that_failed_counts_as_a_pause_of_twice_the_time(tmp_path):
    run = RunFolder(tmp_path, Scenario("made", "count", {"emit": "every"}, RECIPE))
    parted = Network(t_ns=5_000, do="partition", host="host-2", from_ns=3_000, packets=7)
    run.events(parted)
    assert run.history().pauses() == [(3_000, 7_000)]


def test_round_trip(folder):
    history = History(folder)
    assert (history.app, history.scenario, history.input_records) == ("count", "made", 500)
    assert history.ended.how == "completed"
    assert history.outputs(COUNT_OUT).payloads["n"].tolist() == [1, 2, 3]
    assert sum(map(len, history.inputs(COUNT_IN))) == 500
    assert history.faults == []
    assert history.stderr_tail() == []
    assert len(history.fetches) == len(history.releases) == 0


@pytest.mark.parametrize("cut", [1, 27, 28, 29, 56, 83])
def test_torn_output_counts_whole_arrivals_only(folder, cut):
    path = folder / "output" / "s0.log"
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    whole = (len(data) - cut) // 28
    seen = History(folder).outputs(COUNT_OUT)
    # The two arrivals hold records 0 to 1, and 2: what is torn is left out with its arrival.
    assert seen.payloads["n"].tolist() == ([1, 2] if whole == 2 else [])


@pytest.mark.parametrize("cut", [1, ARRIVAL.itemsize - 1])
def test_torn_arrival_is_left_out_with_its_records(folder, cut):
    path = folder / "output" / "s0.arrivals"
    path.write_bytes(path.read_bytes()[:-cut])
    assert History(folder).outputs(COUNT_OUT).payloads["n"].tolist() == [1, 2]


@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 2**62),
            st.integers(0, 9),
            st.integers(0, 9),
            st.integers(0, 2**63),
            st.integers(0, 2**63),
        ),
        max_size=8,
    ),
    torn=st.integers(0, FETCH.itemsize - 1),
)
def test_table_gives_back_every_whole_row(tmp_path_factory, rows, torn):
    path = tmp_path_factory.mktemp("table") / "fetches.bin"
    table = Table(path, FETCH)
    for row in rows:
        table.add(*row)
    table.close()
    table.close()
    with path.open("ab") as file:
        file.write(bytes(torn))
    assert [tuple(row) for row in read_table(path, FETCH).tolist()] == rows


def test_table_that_is_missing_has_no_rows(tmp_path):
    assert len(read_table(tmp_path / "none.bin", PUBLISH)) == 0


def test_input_is_made_again_after_it_was_dropped(folder):
    before = [part.tobytes() for part in History(folder).inputs(COUNT_IN)]
    for path in (folder / "input").iterdir():
        path.unlink()
    assert [part.tobytes() for part in History(folder).inputs(COUNT_IN)] == before


def test_input_that_comes_out_otherwise_is_no_evidence(folder):
    for path in (folder / "input").iterdir():
        path.unlink()
    run = json.loads((folder / "run.json").read_text())
    run["input"]["partitions"][1]["sha256"] = "0" * 64
    write_json(folder / "run.json", run)
    with pytest.raises(HistoryError, match=r"s0p1.*other bytes than in the run"):
        History(folder).inputs(COUNT_IN)


def test_input_that_is_cut_is_named(folder):
    path = folder / "input" / "s0p0.log"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(HistoryError, match=r"s0p0\.log"):
        History(folder).inputs(COUNT_IN)


@pytest.mark.parametrize("name", ["x", "../s0p0.log", "input/s7p7.log", "9" * 5_000])
def test_input_under_another_name_is_named(folder, name):
    run = json.loads((folder / "run.json").read_text("utf-8"))
    run["input"]["partitions"][0]["file"] = name
    (folder / "run.json").write_text(json.dumps(run), "utf-8")
    with pytest.raises(HistoryError, match=r"s7p7\.log|file"):
        History(folder).inputs(COUNT_IN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "not found; expected the folder of an engine's run"),
        ("{", "not JSON"),
        ("[]", "expected a JSON object"),
        ('{"format": 99}', f"format 99, expected {FORMAT}"),
    ],
)
def test_folder_that_is_no_run_is_named(tmp_path, text, message):
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    with pytest.raises(HistoryError, match=message) as error:
        History(tmp_path)
    assert "run.json" in str(error.value)


def test_run_without_an_end_is_the_kits_fault(folder):
    run = json.loads((folder / "run.json").read_text())
    del run["ended"]
    write_json(folder / "run.json", run)
    assert History(folder).ended.how == "kit-error"


def test_events_are_bounded_by_kind_and_counted_beyond(tmp_path):
    heard = []
    log = EventLog(tmp_path / "events.jsonl", heard.append)
    for number in range(KEEP_PER_KIND + 5):
        log.add("have", number=number)
    log.add("fault", t_ns=17, text="last")
    log.close()
    log.add("have", number=-1)
    rows = read_json_lines(tmp_path / "events.jsonl")
    assert len(rows) == KEEP_PER_KIND + 1
    assert rows[-1] == {"t_ns": 17, "event": "fault", "text": "last"}
    assert log.counts == {"have": KEEP_PER_KIND + 6, "fault": 1}
    assert len(heard) == KEEP_PER_KIND + 7


def test_torn_last_line_is_left_out_and_a_broken_one_is_named(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "a"}\n{"event": "b"}\n{"eve')
    assert [row["event"] for row in read_json_lines(path)] == ["a", "b"]
    path.write_text('{"event": "a"}\n{"eve\n{"event": "b"}\n')
    with pytest.raises(ValueError, match=r"events\.jsonl.*line 2"):
        read_json_lines(path)
    assert read_json_lines(tmp_path / "none.jsonl") == []


def test_the_longest_line_that_is_allowed_comes_back_whole(tmp_path):
    log = ControlLog(tmp_path / "control.jsonl")
    log.add("from", "x" * MAX_LINE, 1)
    log.close()
    assert len(read_json_lines(tmp_path / "control.jsonl")[0]["line"]) == MAX_LINE


@given(st.lists(st.text(), max_size=5))
def test_control_lines_come_back_whatever_they_hold(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("control") / "control.jsonl"
    log = ControlLog(path)
    for number, line in enumerate(lines):
        log.add("from", line, number)
    log.close()
    log.add("to", "late", 0)
    rows = read_json_lines(path)
    assert [(row["t_ns"], row["line"]) for row in rows] == list(enumerate(lines))


@pytest.mark.parametrize("text", ["{", '{"requirement": "EO-TAIL"}', '["EO-TAIL"]', '[{"id": 1}]'])
def test_verdicts_that_are_none_are_named(folder, text):
    (folder / "verdict.json").write_text(text, encoding="utf-8")
    with pytest.raises(HistoryError, match=r"verdict\.json: expected a list of verdicts"):
        History(folder).decided()


@pytest.mark.parametrize(("faults", "kept"), [((), [0, 1, 3]), ((KILL,), [0, 1, 2, 3, 4])])
def test_going_back_counts_only_where_there_is_cause(tmp_path, faults, kept):
    scenario = Scenario("made", "count", {"emit": "every"}, RECIPE, faults=faults)
    run = RunFolder(tmp_path, scenario)
    rows = [(1, 0, 0, 0, 5), (2, 0, 1, 0, 9), (3, 0, 0, 4, 7), (4, 0, 0, 7, 9), (5, 0, 1, 0, 9)]
    run.tables(fetches=rows)
    history = run.history()
    assert history.fetches_with_cause.tolist() == [rows[n] for n in kept]
