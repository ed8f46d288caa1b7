"""What a session looks like from its events, and that none of them can break the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import examples
from tickproof.conformance.report.live_page import snapshot
from tickproof.conformance.report.live_page.follower import Follower
from tickproof.conformance.report.session_log import FILE_NAME, SessionLog
from tickproof.conformance.report.session_state import SPAN_S, SessionState
from tickproof.conformance.verdicts import Outcome, Verdict

EVENTS = ("session-started", "session-ended", "tier-started", "decided", "run-started",
          "progress", "fault", "run-ended", "odd")  # fmt: skip
KEYS = ("t", "run", "scenario", "records", "served", "published", "outputs", "rss", "requirement",
        "verdict", "reason", "do", "target", "pid", "tier", "engine", "ended")  # fmt: skip
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just([])
ROWS = st.builds(
    lambda event, more: more | {"event": event},
    st.sampled_from(EVENTS),
    st.dictionaries(st.sampled_from(KEYS), VALUES),
)


def watched(*rows: dict) -> SessionState:
    watch = SessionState()
    for row in ({"t": 100.0, "event": "session-started", "engine": "e 1"}, *rows):
        watch.take(row)
    return watch


def progress(t: float, **counts: int) -> dict:
    return {"t": t, "event": "progress", "run": "r", **counts}


STARTED = {"t": 101.0, "event": "run-started", "run": "r", "scenario": "count", "records": 1000}


def test_rates_and_backlog_follow_from_progress() -> None:
    watch = watched(STARTED, progress(102.0, published=600, served=400, outputs=300, rss=5))
    (run,) = watch.runs.values()
    assert (run.rates["served"], run.backlog, run.wait_s) == (400.0, 200, 0.5)
    watch.take(progress(102.5, published=600, served=600, outputs=600, rss=7))
    assert (run.rates["served"], run.backlog, run.memory) == (400.0, 0, 7)
    assert watch.totals["outputs"] == 600
    watch.take(
        {
            "t": 103.0,
            "event": "run-ended",
            "run": "r",
            "ended": "completed",
            "records": 1000,
            "served": 1000,
            "outputs": 1000,
        }
    )
    assert not watch.runs
    assert watch.totals == {"published": 1000, "served": 1000, "outputs": 1000, "released": 0}
    assert [one["served"] for one in watch.seconds()] == [0, 0, 600]


def test_the_worst_verdict_of_a_requirement_stays() -> None:
    rows = [
        {"event": "decided", "requirement": "A", "verdict": verdict, "t": 1}
        for verdict in ("pass", "fail", "pass")
    ]
    watch = watched(*rows, rows[0] | {"requirement": "B"})
    assert watch.counts == {"fail": 1, "pass": 1}
    shown = snapshot.of(watch)
    assert [one["id"] for one in shown["verdicts"]] == ["A", "B"], "what did not pass comes first"
    assert shown["verdict"] == "fail"


def test_only_the_last_minutes_are_kept() -> None:
    watch = watched(STARTED)
    for second in range(102, 102 + 3 * SPAN_S):
        watch.take(progress(float(second), served=second))
    assert len(watch.seconds()) == SPAN_S
    assert len(watch._by_second) <= SPAN_S + 2


@settings(max_examples=examples(800))
@given(st.lists(ROWS, max_size=30))
def test_no_event_breaks_what_is_shown(rows: list[dict]) -> None:
    watch = watched()
    for row in rows:
        watch.take(row)
    text = json.dumps(snapshot.of(watch), allow_nan=False)
    assert len(text) < 200_000


def outcome(verdict: Verdict) -> dict:
    made = Outcome("EO-X", verdict, "count", reason="lost", actual="x" * 900)
    return {"event": "decided", "outcome": made.to_json()}


def test_a_log_is_followed_as_it_grows(tmp_path: Path) -> None:
    follower, seen = Follower(tmp_path), []
    assert list(follower.new()) == []
    (tmp_path / "engine").mkdir()
    passed_on: list[dict] = []
    with SessionLog(tmp_path / "engine", {"engine": "e 1"}, passed_on.append) as log:
        seen += [rows for _, rows in follower.new()]
        log(outcome(Verdict.FAIL))
        log.came_out("fail")
        seen += [rows for _, rows in follower.new()]
    seen += [rows for _, rows in follower.new()]
    (started,), (decided,), (ended,) = seen
    assert started["engine"] == "e 1"
    assert (decided["requirement"], decided["verdict"]) == ("EO-X", "fail")
    assert len(decided["said"]) <= 300
    assert (ended["event"], ended["verdict"]) == ("session-ended", "fail")
    assert passed_on == [outcome(Verdict.FAIL)]
    follower.close()


def test_another_session_begins_anew(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    for number in range(2):
        with SessionLog(tmp_path, {"engine": f"e {number}"}, print):
            pass
        ((began, rows),) = follower.new()
        assert began
        assert rows[0]["engine"] == f"e {number}"
        assert rows[-1]["verdict"] == "interrupted", "nobody said how it came out"
    follower.close()


@pytest.mark.parametrize("content", [b"", b"{", b"[]\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n"])
def test_what_is_no_event_is_passed_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content + b'{"event": "fault"}\n')
    follower = Follower(tmp_path)
    rows = [row for _, found in follower.new() for row in found]
    assert rows in ([], [{"event": "fault"}])
    follower.close()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"event": "session-started", "engine": "secret"}\n')
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / FILE_NAME).symlink_to(secret)
    assert list(Follower(tmp_path / "out").new()) == []
