from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from tickproof.conformance.report import live

EVENTS = (
    {"event": "tier-started", "tier": 3},
    {"event": "run-started", "run": "a", "scenario": "death", "app": "count", "records": 100_000},
    {"event": "progress", "run": "a", "served": 43_210, "outputs": 40_000, "records": 100_000},
    {"event": "fault", "run": "a", "do": "kill", "target": "worker", "pid": 4711},
    {"event": "something-new", "run": "a"},
    {"event": "run-ended", "run": "a", "ended": "ok"},
    {"event": "decided", "outcome": {"requirement": "PR-STOP", "verdict": "pass"}},
    {"event": "decided", "outcome": {"requirement": "X", "verdict": "fail", "reason": "lost"}},
    {"event": "decided", "outcome": {"requirement": "X", "verdict": "pass"}},
)


def play(events, verbose=True, **console):
    file = io.StringIO()
    target = Console(file=file, width=100, **console)
    with live.SessionProgress(target, verbose=verbose) as show:
        for event in events:
            show(event)
    return file.getvalue(), show


def test_without_a_terminal_one_line_a_run_and_one_a_fault():
    text, show = play(EVENTS)

    assert text.splitlines() == [
        "T3 process deaths and network faults",
        "  death count: SIGKILL worker 4711 at 43,210 of 100,000 records",
        "  death count: 100,000 records, ok",
        "  ✗ fail X lost",
    ]
    assert show.counts == {"pass": 1, "fail": 1}


def test_by_default_lines_say_the_tier_and_what_did_not_hold():
    text, _ = play(EVENTS, verbose=False)

    assert text.splitlines() == ["T3 process deaths and network faults", "  ✗ fail X lost"]


@pytest.mark.parametrize(
    ("share", "elapsed_s", "said"),
    [
        ((1, 4), 2.0, ["  1 of 4 scenarios; about 10 s left"]),
        ((1, 4), 30.0, ["  1 of 4 scenarios; about 90 s left"]),
        ((1, 4), 60.0, ["  1 of 4 scenarios; about 3 minutes left"]),
        ((0, 4), 60.0, []),
        ((4, 4), 60.0, []),
    ],
)
def test_without_a_terminal_a_line_says_how_far_a_session_is(monkeypatch, share, elapsed_s, said):
    times = iter([100.0, 100.0 + elapsed_s, 100.0 + elapsed_s + 1])
    monkeypatch.setattr(live.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(live, "LINE_S", 2.0)
    done, of = share
    event = {"event": "scenario-judged", "done": done, "of": of, "done_s": done, "of_s": of}
    assert play([event, event])[0].splitlines() == said  # the second comes too soon for a line


@pytest.fixture
def terminal(monkeypatch):
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return {"force_terminal": True}


def test_on_a_terminal_the_view_shows_runs_and_keeps_faults(terminal):
    text, show = play(EVENTS[:4], **terminal)

    assert show.per_second
    assert "SIGKILL worker 4711 at 43,210 of 100,000 records" in text
    assert "43,210 served" in text
    assert "\x1b[" in text


@pytest.mark.parametrize("verbose", [False, True])
def test_on_a_terminal_a_fault_stays_as_a_line_only_where_asked_for(terminal, verbose):
    text, show = play(EVENTS[:4], verbose=verbose, **terminal)
    target = Console(file=io.StringIO(), width=100)
    target.print(show.render())

    assert "death count: SIGKILL worker 4711" in target.file.getvalue()
    assert ("\x1b[1;31mSIGKILL worker 4711" in text) is verbose


def test_no_color_leaves_colours_out(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text, _ = play(EVENTS, **terminal)

    assert "\x1b[31m" not in text
    assert "\x1b[1;31m" not in text


@pytest.mark.parametrize("name, value", [("CI", "true"), ("TERM", "dumb")])
def test_ci_gets_lines_even_on_a_terminal(terminal, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    text, show = play(EVENTS, **terminal)

    assert show.per_second == 0
    assert "\x1b[2K" not in text


@pytest.mark.parametrize("force", [False, True])
def test_engine_text_is_escaped(terminal, hostile, force):
    events = [
        {"event": "run-started", "run": "a", "scenario": hostile, "app": hostile, "records": 1},
        {"event": "fault", "run": "a", "do": hostile, "target": hostile, "at": hostile},
        {"event": "run-ended", "run": "a", "ended": hostile},
        {"event": "decided", "outcome": {"requirement": "X", "verdict": "fail", "reason": hostile}},
    ]
    text, _ = play(events, force_terminal=force)

    assert "\x1b[31mred" not in text
    assert "\\x1b[31mred" in text
    assert "[bold]" in text


def test_many_runs_at_once_stay_bounded(terminal):
    view = live.SessionProgress(Console(file=io.StringIO(), width=100))
    for number in range(30):
        view({"event": "run-started", "run": str(number), "scenario": f"run{number}"})
    target = Console(file=io.StringIO(), width=100)
    target.print(view.render())

    text = target.file.getvalue()
    assert "and 22 more" in text
    assert len(text.splitlines()) == 10


def test_the_view_rests_while_time_counts(monkeypatch):
    monkeypatch.delenv("CI", raising=False)  # there nothing is drawn
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with live.SessionProgress(console) as view:
        before = view.per_second
        view({"event": "tier-started", "tier": 3})
        assert view.per_second == before
        view({"event": "tier-started", "tier": 5})
        assert view.per_second == live.QUIET_PER_S < before
        assert view._live.is_started


def test_the_view_says_how_much_is_judged_and_how_long_the_rest_takes():
    view = live.SessionProgress(Console(file=io.StringIO(), width=80))
    work = {"event": "scenario-judged", "done": 40, "of": 101, "done_s": 100.0, "of_s": 300.0}
    view(work)
    target = Console(file=io.StringIO(), width=80)
    target.print(view.render())

    (line,) = [one for one in target.file.getvalue().splitlines() if "scenarios" in one]
    assert line.startswith("40 of 101 scenarios")
    assert "elapsed" in line and "left" in line


def test_what_is_left_follows_from_the_whole_session_though_the_work_grows():
    now = [100.0]
    view = live.SessionProgress(Console(file=io.StringIO(), width=80, get_time=lambda: now[0]))
    for second in range(1, 31):
        now[0] += 1
        # A tenth of a second of work a second, with a total that is known better each time.
        view(
            {
                "event": "scenario-judged",
                "done": second,
                "of": 101,
                "done_s": 0.1 * second,
                "of_s": 6.0 + 0.001 * second,
            }
        )
    target = Console(file=io.StringIO(), width=80)
    target.print(view.render())
    assert re.search(r"0:00:3[012] left", target.file.getvalue())
