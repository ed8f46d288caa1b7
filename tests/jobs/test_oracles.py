"""The oracles of docs/oracles.md against slow obvious answers over all records at once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from tickproof.conformance.jobs import oracle
from tickproof.conformance.jobs.declaration import OutputTable
from tickproof.conformance.jobs.records import Record

TEXT = (Path(__file__).parents[2] / "docs" / "oracles.md").read_text("utf-8")
SHAPES: dict[str, Any] = {}
for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[1:]:
    exec(block, SHAPES)
CLOSING = 10**9
ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 400), st.integers(1, 99)))


def records(rows: list[tuple[str, int, int]], **more: Any) -> list[dict[str, Any]]:
    """Return records, and one for each key that closes all windows."""
    made = [{"customer": key, "time": time, "cents": cents} for key, time, cents in rows]
    made += [{"customer": key, "time": CLOSING, "cents": 0} for key in "ab"]
    return [one | {"id": number} | more for number, one in enumerate(made)]


def due(shape: str, values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what an oracle says is due."""
    made = [Record(n, one["customer"], 0, one, b"") for n, one in enumerate(values, 1)]
    return [row for _, row in oracle.outputs(SHAPES[shape], Path("oracle.py"), made)]


def windows(rows: list[dict[str, Any]]) -> Counter:
    return Counter((one["customer"], one["start"], one["cents"]) for one in rows)


@given(ROWS)
def test_tumbling_in_order(rows: list) -> None:
    rows.sort(key=lambda one: one[1])
    sums: Counter = Counter()
    for key, time, cents in rows:
        sums[key, time // 60 * 60] += cents
    assert windows(due("tumbling", records(rows))) == Counter((*one, n) for one, n in sums.items())


@given(ROWS)
def test_sliding_in_order(rows: list) -> None:
    rows.sort(key=lambda one: one[1])
    sums: Counter = Counter()
    for key, time, cents in rows:
        for start in range(-60, 420, 20):
            sums[key, start] += cents if start <= time < start + 60 else 0
    expected = Counter((*one, n) for one, n in sums.items() if n)
    assert windows(due("sliding", records(rows))) == expected


@given(ROWS)
def test_session_in_order(rows: list) -> None:
    rows.sort(key=lambda one: one[1])
    expected = []
    for key in "ab":
        times = [time for one, time, _ in rows if one == key]
        starts = [n for n, time in enumerate(times) if n == 0 or time - times[n - 1] >= 30]
        for at, end in zip(starts, [*starts, len(times)][1:], strict=True):
            expected.append((key, times[at], times[end - 1], end - at))
    found = [(one["customer"], one["start"], one["end"], one["n"]) for one in
             due("session", records(rows))]  # fmt: skip
    assert sorted(found) == sorted(expected)


@given(ROWS, st.data())
def test_a_join_pairs_each_order_with_each_payment_near_it(rows: list, data: st.DataObject) -> None:
    values = records(rows)
    for one in values:
        one["side"] = data.draw(st.sampled_from(["order", "payment"]))
    pairs = Counter(
        (a["id"], b["id"])
        for a in values
        for b in values
        if (a["side"], b["side"]) == ("order", "payment")
        and a["customer"] == b["customer"]
        and abs(a["time"] - b["time"]) <= 60
    )
    assert Counter((one["order"], one["payment"]) for one in due("joined", values)) == pairs


@given(ROWS)
def test_late_records_are_dropped_and_no_window_comes_twice(rows: list) -> None:
    sums: Counter = Counter()
    for n, (key, time, cents) in enumerate(rows):
        before = max((t for k, t, _ in rows[:n] if k == key), default=0)
        if time // 60 * 60 + 70 > before:
            sums[key, time // 60 * 60] += cents
    found = windows(due("without_late", records(rows)))
    assert found == Counter((*one, n) for one, n in sums.items())


@given(ROWS)
def test_top(rows: list) -> None:
    values = records(rows)
    last = {one["customer"]: one["best"] for one in due("top", values)}
    for key in "ab":
        mine = [one for one in values if one["customer"] == key]
        mine.sort(key=lambda one: (-one["cents"], one["id"]))
        assert last[key] == [[one["cents"], one["id"]] for one in mine[:3]]


def test_an_output_may_have_another_key_than_its_record() -> None:
    record = Record(1, "line", 0, {"words": "a"}, b"")
    counted = {"@key": "a", "n": 1}
    assert oracle.row(OutputTable(), record, counted) == ("a", {"n": 1})
    assert oracle.row(OutputTable(), record, {"n": 1}) == ("line", {"n": 1})
    assert oracle.row(OutputTable(identity=["n"]), record, {"n": 1}) == ("[1]", {"n": 1})
