"""Rogues of the control plane and of the end, through the command line."""

from __future__ import annotations

import pytest

#: Rogue, its limits, the requirement that must fail, with which reason, quoting what.
ROGUES = [
    ("exits", {}, "PR-HELLO", "EXITED", "exited with status 3 before it answered hello"),
    ("mute", {"startup": 0.5}, "PR-HELLO", "NO_ANSWER", "no answer to hello within 0."),
    ("garbage", {}, "PR-HELLO", "BAD_LINE", r"not JSON: \x1b[31mhello, \x07kit\x1b[0m"),
    ("chatty", {}, "PR-CONTROL-LINES", "BAD_LINE", "INFO answered hello"),
    ("endless_line", {}, "PR-CONTROL-LINES", "BAD_LINE", "longer than 1048576 bytes: xxx"),
    ("BadExit", {}, "PR-STOP", "BAD_EXIT", "3"),
    ("Detaches", {}, "PR-NO-LEFTOVERS", "LEFT_OVER", "python"),
    ("IgnoresEof", {"drain": 1}, "PR-STDIN-EOF", "NO_EXIT", "after the end of its stdin"),
]
FLOOD = "floods_stderr"

pytestmark = pytest.mark.xdist_group("control-rogues")


@pytest.fixture(scope="module")
def judged(shared_sessions):
    """All of them, judged one after another by one command."""
    engines = [shared_sessions.rogue(name, **limits) for name, limits, *_ in ROGUES]
    only = ",".join(dict.fromkeys(requirement for _, _, requirement, *_ in ROGUES))
    return shared_sessions.tickproof(
        "run", *engines, shared_sessions.rogue(FLOOD, drain=2),
        "--only", only, "--seed", 1, "--out", "out", "-n", 1,
    )  # fmt: skip


@pytest.mark.parametrize(("rogue", "limits", "requirement", "reason", "quoted"), ROGUES)
def test_each_gets_its_own_verdict(judged, rogue, limits, requirement, reason, quoted):
    result = judged.results_of(rogue)[requirement]

    assert (result["verdict"], result["reason"]) == ("fail", reason)
    assert quoted in result["actual"]
    assert judged.status == 1


def test_the_last_words_on_stderr_are_in_the_report(judged, shared_sessions):
    result = judged.results_of("exits")["PR-HELLO"]

    assert result["evidence"]["stderr"] == ["cannot find my configuration"]
    said = shared_sessions.folder / "out/exits" / result["run"] / "stderr.log"
    assert said.read_text() == "cannot find my configuration\n"


def test_a_flood_on_stderr_is_no_failure_and_is_bounded(judged, shared_sessions):
    results = judged.results_of(FLOOD)

    assert (results["PR-HELLO"]["verdict"], results["PR-STOP"]["verdict"]) == ("pass", "pass")
    folder = shared_sessions.folder / "out" / FLOOD
    sizes = [path.stat().st_size for path in folder.glob("runs/**/stderr.log")]
    assert all(0 < size <= (64 << 20) + 100 for size in sizes)
    assert sizes


def test_text_of_an_engine_is_harmless_everywhere(sessions):
    """Terminal codes and markup in name, version, error and stderr come out escaped."""
    loud = r"\x1b[2J\x1b[31m[red]loud[/red]<b>&\x07\u202e"
    engine = sessions.rogue("Loud")
    text = engine.read_text().replace('"Loud"\n', r'"Loud \u001b[2J[red]<b>"' + "\n", 1)
    engine.write_text(text)
    done = sessions.run(engine, "PR-STOP")

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
