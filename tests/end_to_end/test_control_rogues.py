"""Rogues of the control plane and of the end, through the command line."""

from __future__ import annotations

import pytest

from tests.long import LONG, few

#: By the group that one command judges: rogue, its limits, and the requirement that must
#: fail, with which reason, quoting what.
ROGUES = {
    "at hello": [
        ("exits", {}, "PR-HELLO", "EXITED", "exited with status 3 before it answered hello"),
        ("mute", {"startup": 0.5}, "PR-HELLO", "NO_ANSWER", "no answer to hello within 0."),
        ("garbage", {}, "PR-CONTROL-LINES", "BAD_LINE", r"not JSON: \x1b[31mhello, \x07kit\x1b[0m"),
        ("chatty", {}, "PR-CONTROL-LINES", "BAD_LINE", "INFO answered hello"),
        ("endless_line", {}, "PR-CONTROL-LINES", "BAD_LINE", "longer than 1048576 bytes: xxx"),
    ],
    "at the end": [
        ("BadExit", {}, "PR-STOP", "BAD_EXIT", "3"),
        ("Detaches", {}, "PR-NO-LEFTOVERS", "LEFT_OVER", "python"),
        ("IgnoresEof", {"drain": 1}, "PR-STDIN-EOF", "NO_EXIT", "after the end of its stdin"),
    ],
}


@pytest.mark.parametrize("group", few(ROGUES))
def test_each_gets_its_own_verdict(sessions, group):
    engines = [sessions.rogue(name, **limits) for name, limits, *_ in ROGUES[group]]
    only = dict.fromkeys(requirement for _, _, requirement, *_ in ROGUES[group])
    done = sessions.judge(engines, *only)

    assert done.status == 1
    for rogue, _, requirement, reason, quoted in ROGUES[group]:
        result = done.results_of(rogue)[requirement]
        assert (result["verdict"], result["reason"]) == ("fail", reason), rogue
        assert quoted in result["actual"], rogue


@LONG
def test_standard_error_is_kept_bounded_and_shown(sessions):
    """A flood is no failure; the last words of an engine that gave up are in the report."""
    done = sessions.judge([sessions.rogue("exits"), sessions.rogue("floods_stderr")], "PR-HELLO")

    assert done.results_of("floods_stderr")["PR-HELLO"]["verdict"] == "pass"
    last = done.results_of("exits")["PR-HELLO"]["evidence"]["stderr"]
    assert last == ["cannot find my configuration"]
    sizes = {run.parts[-4]: (run / "stderr.log").stat().st_size for run in sessions.runs()}
    assert sizes["exits"] == len("cannot find my configuration\n")
    assert 0 < sizes["floods_stderr"] <= (64 << 20) + 100


def test_text_of_an_engine_is_harmless_everywhere(sessions):
    """Terminal codes and markup in name, version, error and stderr come out escaped."""
    loud = r"\x1b[2J\x1b[31m[red]loud[/red]<b>&\x07\u202e"
    engine = sessions.rogue("Loud")
    text = engine.read_text().replace('"Loud"\n', r'"Loud \u001b[2J[red]<b>"' + "\n", 1)
    engine.write_text(text)
    done = sessions.judge([engine], "PR-STOP")

    assert done.status == 1
    assert done.results["PR-STOP"]["actual"] == f"stop was refused: {loud}"
    assert done.results["PR-STOP"]["evidence"]["stderr"] == [loud]
    assert loud in " ".join(done.out.split())
    folder = next(sessions.folder.glob("out/*/report.json")).parent
    for shown in (
        done.out,
        done.err,
        (folder / "report.json").read_text(),
        (folder / "junit.xml").read_text(),
    ):
        assert all(char.isprintable() or char == "\n" for char in shown)
    assert "<b>" not in (folder / "junit.xml").read_text()
