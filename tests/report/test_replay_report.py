"""What `tickproof replay` prints of several runs."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from tickproof.conformance.report import replay_report
from tickproof.conformance.verdicts import Outcome, Verdict


def test_what_is_told_of_failures_alone_passes_where_no_replay_tells_it() -> None:
    then = [Outcome("PR-STAYS-UP", Verdict.FAIL), Outcome("SL-DOUBLE", Verdict.FAIL)]
    now = [[Outcome("SL-DOUBLE", Verdict.PASS)], [Outcome("SL-DOUBLE", Verdict.FAIL)]]
    out = StringIO()
    replay_report.summary(Console(file=out, width=80), then, now, {})
    rows = [line.split() for line in out.getvalue().splitlines() if line.startswith(("PR", "SL"))]
    assert [row[0] for row in rows] == ["PR-STAYS-UP", "SL-DOUBLE"]
    assert [row[-3:] for row in rows] == [["0", "of", "2"], ["1", "of", "2"]]
    assert ["pass" in rows[0], "pass" in rows[1]] == [True, False]
