"""Freedoms: their table, what recorded runs reached of them, and the command that adds it up."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.tools.pages import DOCS, clauses
from tests.suites import tampering
from tickproof.conformance.history.folder import opened
from tickproof.conformance.suites.freedoms import FREEDOMS, Ranges, Seen
from tickproof.conformance.suites.reached import reached

U64 = st.integers(0, 2**64 - 1)


def reached_by(folder: Path) -> dict[str, set[str]]:
    """Return what a run reached of each freedom."""
    with opened(folder) as history:
        seen = Seen(history)
        return {f"{one.clause} {one.what}": set(one.reached(seen)) for one in FREEDOMS}


@given(st.lists(U64, min_size=1, max_size=6, unique=True).map(sorted), st.lists(U64))
def test_a_number_is_in_the_range_that_begins_last_before_it(edges: list[int], values: list[int]):
    ranges = Ranges(*edges)
    expected = {
        name
        for name, low, high in zip(ranges.names, edges, [*edges[1:], 2**64], strict=True)
        if any(low <= value < high for value in values)
    }
    assert ranges.of(values) == ranges.of(np.array(values, np.uint64)) == expected


def test_ranges_are_named_by_their_ends():
    assert Ranges(0, 1, 2, 2**8, 2**16, 2**63, 2**64 - 1).names == (
        "0", "1", "2 to 2^8 - 1", "2^8 to 2^16 - 1", "2^16 to 2^63 - 1", "2^63 to 2^64 - 2",
        "2^64 - 1",
    )  # fmt: skip
    assert Ranges(3, 8).names == ("3 to 7", "8 and up")


def test_each_is_left_free_by_a_clause_and_has_classes_to_choose_from():
    known = clauses((DOCS / "protocol.md").read_text("utf-8"))
    for freedom in FREEDOMS:
        assert freedom.clause in known
        assert len(set(freedom.classes)) == len(freedom.classes) > 1
    assert len({(one.clause, one.what) for one in FREEDOMS}) == len(FREEDOMS)


@pytest.mark.parametrize(
    ("scenario", "what", "expected"),
    [
        ("count-engine-death", "toml-claim-survives deaths in one run", {"1"}),
        ("count-engine-death", "ctl-deploy-workers workers for the partitions", {"fewer workers"}),
        ("count-edges", "log-end-flag partitions without a record", {"none"}),
        ("empty-input", "log-end-flag partitions without a record", {"all"}),
        ("empty-input", "log-offsets records of a partition", {"0"}),
        ("passthrough-extra-members", "ctl-ignore-members members that no engine knows", {"some"}),
        ("tiny-payloads", "app-passthrough-sizes bytes of a payload", {"1"}),
        ("market-merged-verdicts", "ms-order side", {"buy", "sell"}),
        (
            "market-boundaries",
            "ms-accept how far a quote is crossed",
            {"1 to 2^31 - 1", "2^31 to 2^49 - 1", "2^49 to 2^53"},
        ),
    ],
)
def test_a_run_reached_what_was_played(recorded, scenario, what, expected):
    assert reached_by(recorded.run(scenario))[what] == expected


@pytest.mark.parametrize(
    "scenario", ["count-edges", "count-engine-death", "double", "market-merged-verdicts"]
)
def test_what_was_reached_is_in_the_table(recorded, scenario):
    found = reached_by(recorded.run(scenario))
    for freedom in FREEDOMS:
        assert found[f"{freedom.clause} {freedom.what}"] <= set(freedom.classes)
    assert sum(map(bool, found.values())) > 9


def test_what_one_run_alone_reached_is_constant(recorded):
    folder = recorded.run("count-engine-death")
    one = reached([folder])
    assert one.runs == 1
    assert not one.unread
    assert "deaths in one run" in [freedom.what for freedom in one.constant]
    assert all(freedom.of == "kit" for freedom in one.constant)
    two = reached([folder, recorded.run("empty-input")])
    assert "deaths in one run" not in [freedom.what for freedom in two.constant]
    rows = {(freedom.what, name): found for freedom, name, found in two.rows()}
    killed, quiet = rows["deaths in one run", "1"], rows["deaths in one run", "0"]
    assert (killed.runs, killed.with_faults, killed.faults) == (1, 1, {"kill engine"})
    assert (quiet.runs, quiet.with_faults) == (1, 0)


def test_a_run_that_cannot_be_read_is_named_and_not_counted(recorded, tmp_path):
    folder = shutil.copytree(recorded.run("empty-input"), tmp_path / "run")
    tampering.in_run(input={})(folder)
    found = reached([folder])
    assert found.runs == 0
    assert str(folder) in found.unread[0]


def test_input_that_is_made_for_the_look_is_not_left_and_what_was_there_stays(recorded, tmp_path):
    folder = shutil.copytree(recorded.run("count-edges"), tmp_path / "run")
    held = sorted((folder / "input").iterdir())
    assert reached([folder]).runs == 1
    assert sorted((folder / "input").iterdir()) == held
    shutil.rmtree(folder / "input")
    assert reached([folder]).runs == 1
    assert not (folder / "input").exists()


def test_a_request_of_another_shape_costs_its_run_only(recorded, tmp_path):
    folder = shutil.copytree(recorded.run("empty-input"), tmp_path / "run")
    tampering.unsealed(folder)
    line = json.dumps({"id": 1, "op": "deploy", "workers": ["two"], "data": 1})
    (folder / "control.jsonl").write_text(
        json.dumps({"t_ns": 1, "direction": "to", "line": line}) + "\n"
    )
    found = reached([folder, recorded.run("empty-input")])
    assert found.runs == 1
    assert str(folder) in found.unread[0]


def test_the_command_tells_what_was_not_reached(recorded, sessions):
    folder = recorded.run("count-engine-death")
    done = sessions.tickproof("coverage", folder, "--varied", "--classes")
    assert done.status == 1
    assert f"of {sum(len(one.classes) for one in FREEDOMS)} classes reached by 1 runs" in done.out
    assert "not reached  ctl-ignore-members, members that no engine knows: some" in done.out
    assert "constant     toml-claim-survives, deaths in one run" in done.out
    assert re.search(r" 1 +1 +kill engine *$", done.out, re.MULTILINE)
    assert sessions.tickproof("coverage", folder).status == 0


def test_nothing_to_read_is_no_coverage(sessions, tmp_path):
    done = sessions.tickproof("coverage", tmp_path, "--varied")
    assert done.status == 2
    assert "expected points of the fault space, or a run" in done.err
