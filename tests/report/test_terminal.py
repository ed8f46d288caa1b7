from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from tickproof.conformance.jobs.requirements import JB
from tickproof.conformance.report import json_report, terminal
from tickproof.conformance.report.style import JOB_TIER_NAMES, tier_names, tier_title
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.hints import halves
from tickproof.conformance.verdicts import Outcome, Verdict


def printed(show, width=80, encoding="utf-8"):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
    show(Console(file=file, width=width, markup=False, emoji=False, highlight=False))
    file.flush()
    return file.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [80, 120])
def test_one_row_for_each_requirement_with_its_verdict(one_of_each, ids, width):
    lines = printed(
        lambda c: terminal.summary(c, one_of_each, Path("out"), verbose=True), width
    ).splitlines()

    for verdict, id_ in ids.items():
        (row,) = [line for line in lines if line.startswith(f"  {id_} ")]
        assert verdict.value in row
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [80, 100])
def test_passes_are_one_line_a_tier_unless_all_are_asked_for(make_report, width):
    known = registry.load()
    report = make_report(*(Outcome(id_, Verdict.PASS, seconds=1.0) for id_ in known))

    def lines(verbose):
        show = partial(terminal.summary, report=report, folder=Path("out"), verbose=verbose)
        return printed(show, width).splitlines()

    short, whole = lines(verbose=False), lines(verbose=True)

    tiers = Counter(requirement.tier for requirement in known.values())
    for tier, count in tiers.items():
        (row,) = [line.split() for line in short if line.split()[:1] == [f"T{tier}"]]
        assert row[-4:] == [str(count), "pass", f"{count:.1f}", "s"]
    assert len(short) <= len(tiers) + 6
    assert max(map(len, short + whole)) <= width
    assert "…" not in "".join(whole)
    text = "".join("".join(whole).split())
    for id_, requirement in known.items():
        assert any(line.startswith(f"  {id_} ") for line in whole)
        if width == 100 and len(requirement.title) <= 50:
            assert requirement.title.replace(" ", "") in text


def test_tiers_of_a_job_are_named_for_a_job():
    assert tier_title(2, tier_names("JB-RESTART")) == "a restart"
    assert tier_title(2, tier_names("MS-REJECTS")) == "T2 Market Spread, no faults"
    assert {one.tier for one in JB.values()} == set(JOB_TIER_NAMES)


def test_what_was_not_claimed_is_always_listed(one_of_each, ids):
    text = printed(lambda c: terminal.summary(c, one_of_each, Path("out")))

    assert f"not-claimed  b: {ids[Verdict.NOT_CLAIMED]}" in text
    assert f"by {ids[Verdict.FAIL]}: CODE" in text.split("blocked 1 ")[1]


def test_what_blocked_requirements_showed_meanwhile_is_told(make_report, outcome):
    """One failure of tier 0 leaves nothing to count of runs that were played beside it."""
    report = make_report(
        outcome(Verdict.FAIL),
        *(
            replace(outcome(Verdict.BLOCKED, evidence={"played": verdict}), requirement=id_)
            for id_, verdict in (("ST-TOTALS", "fail"), ("EO-TAIL", "pass"), ("EO-SOME", "pass"))
        ),
    )
    text = printed(lambda c: terminal.summary(c, report, Path("out")))
    assert "meanwhile  1 fail, 2 pass; fail: ST-TOTALS" in text


def test_a_failure_shows_its_counterexample(make_report, outcome):
    report = make_report(
        outcome(
            Verdict.FAIL,
            stimulus="SIGKILL worker 4711",
            expected="n=3 total=30",
            actual="n=3 total=40",
            evidence={"where": {"key": 1234567, "offset": 43210}},
            run="runs/a",
            reproduce="tickproof run miniature --only EO-WORKER-DEATH --seed 42 --out elsewhere",
        )
    )
    text = printed(lambda c: terminal.summary(c, report, Path("out/toy")))

    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "stimulus SIGKILL worker 4711",
        "expected n=3 total=30",
        "actual n=3 total=40",
        "where key 1234567, offset 43,210",
        "reproduce " + report.requirements[0].reproduce,
        "run folder out/toy/runs/a",
        "report out/toy/report.html",
    ):
        assert line in lines
    assert "exit status 1" in text


def test_likely_causes_come_after_the_story_as_what_is_so_in_general(make_report):
    story = {"lines": ["It was staged twice."], "brief": ["It was staged twice."]}
    failed = Outcome("DL-AFTER-COMMIT", Verdict.FAIL, reason="lost", story=story)
    report = make_report(failed)
    text = " ".join(printed(lambda c: terminal.summary(c, report, Path("out"))).split())
    promise, causes = halves(registry.load()["DL-AFTER-COMMIT"].promise)

    assert causes
    places = [
        text.index(" ".join(part.split()))
        for part in (f"promise {promise}", "story It was staged twice.", f"likely {causes}")
    ]
    assert places == sorted(places)


def test_a_stack_trace_is_cut_to_its_last_frame(make_report):
    trace = [line for n in range(9) for line in (f'  File "a.py", line {n}', f"    f{n}()")]
    evidence = {"stderr": ["Traceback (most recent call last):", *trace, "KeyError: 1"]}
    failed = Outcome("PR-STOP", Verdict.FAIL, reason="EXITED", evidence=evidence)
    report = make_report(failed)
    text = printed(lambda c: terminal.summary(c, report, Path("out")))

    assert "KeyError: 1" in text
    assert "f8()" in text
    assert "f7()" not in text


def test_standard_error_is_shown_once_and_later_failures_in_a_line_each(make_report):
    ids = ["PR-HELLO", "PR-STOP", "EO-TAIL", "EO-PAUSE", "ST-SOME", "DL-NO-LOSS", "BP-SLOW-SINK"]
    evidence = {"stderr": ["Traceback", "KeyError: \x1b[31mred"]}
    report = make_report(
        *(
            Outcome(
                id_,
                Verdict.FAIL,
                reason="EXITED",
                expected="a",
                actual=f"because {id_}",
                evidence=evidence,
            )
            for id_ in ids
        )
    )
    lines = printed(lambda c: terminal.summary(c, report, Path("out"))).splitlines()

    assert [line for line in lines if "KeyError" in line] == ["    KeyError: \\x1b[31mred"]
    assert sum(line.startswith("  expected") for line in lines) == 5
    short = [line for line in lines if line.startswith("✗") and "because" in line]
    assert len(short) == 2


def test_an_unknown_shows_its_reason(make_report, outcome):
    report = make_report(outcome(Verdict.UNKNOWN, reason="KILL_MISSED", actual="came too late"))
    text = printed(lambda c: terminal.summary(c, report, Path("out")))

    assert "KILL_MISSED: came too late" in text
    assert "exit status 3" in text


def test_engine_text_reaches_the_terminal_escaped_and_without_markup(make_report, outcome, hostile):
    fields = dict.fromkeys(("reason", "stimulus", "actual", "run", "reproduce"), hostile)
    report = make_report(
        outcome(Verdict.FAIL, evidence={"where": {hostile: hostile}}, **fields), name=hostile
    )
    text = printed(lambda c: terminal.summary(c, report, Path("out")))

    assert not any(ord(char) < 32 and char != "\n" for char in text)
    assert "\\x1b[31mred" in text
    assert "[bold]x[/bold]" in text


def test_rejects_by_symbol_are_shown_once(make_report):
    evidence = {"by_symbol": {"BTCUSDT": [5700, 19904], "QUIET": [0, 0]}}
    report = make_report(
        Outcome("MS-MERGED", Verdict.PASS, evidence=evidence),
        Outcome("MS-REJECTS", Verdict.PASS, evidence=evidence),
    )
    text = printed(lambda c: terminal.summary(c, report, Path("out")))

    rows = [line.split() for line in text.splitlines()]
    assert rows.count(["BTCUSDT", "5,700", "19,904", "28.6%"]) == 1
    assert ["QUIET", "0", "0"] in rows
    assert ["all", "5,700", "19,904", "28.6%"] in rows


def test_a_table_of_two_streams_says_why_it_may_differ(make_report):
    evidence = {"by_symbol": {"A": [1, 2]}, "inputs": "merged"}
    report = make_report(
        Outcome("MS-MERGED", Verdict.PASS, evidence=evidence),
        Outcome("MS-TWO-STREAMS", Verdict.PASS, evidence=evidence | {"inputs": "two"}),
    )
    text = printed(lambda c: terminal.summary(c, report, Path("out")))

    merged, two = text.split("Rejects by symbol: MS-TWO-STREAMS")
    assert "Rejects by symbol: MS-MERGED" in merged
    assert "Two streams have no agreed order" not in merged
    assert "Two streams have no agreed order" in two


def test_many_symbols_are_summed_up(make_report):
    table = {f"S{n:03}": [1, 1000 - n] for n in range(30)}
    report = make_report(Outcome("MS-MERGED", Verdict.PASS, evidence={"by_symbol": table}))
    rows = [
        r.split() for r in printed(lambda c: terminal.summary(c, report, Path("out"))).splitlines()
    ]

    assert ["S019", "1", "981", "0.1%"] in rows
    assert ["10", "more", "10", "9,755", "0.1%"] in rows
    assert ["all", "30", "29,565", "0.1%"] in rows


def test_ascii_terminals_get_ascii(one_of_each):
    text = printed(
        lambda c: terminal.summary(c, one_of_each, Path("out"), verbose=True), encoding="ascii"
    )

    assert "x fail" in text
    assert "\\u" not in text.replace("\\u2026", "")


def test_comparison_lists_what_differs_and_counts_the_rest(make_report, outcome):
    one = make_report(outcome(Verdict.FAIL), outcome(Verdict.PASS), name="one")
    two = make_report(Outcome("EO-WORKER-DEATH", Verdict.PASS), outcome(Verdict.PASS), name="two")
    text = printed(lambda c: terminal.comparison(c, [one, two], [Path("1"), Path("2")]))

    rows = [line.split() for line in text.splitlines()]
    assert ["requirement", "one", "two"] in rows
    assert ["EO-WORKER-DEATH", "✗", "fail", "✓", "pass"] in rows
    assert ["verdict", "✗", "fail", "✓", "pass"] in rows
    assert ["the", "same", "for", "all:", "1", "pass"] in rows
    assert not any(row[:1] == ["PR-HELLO"] for row in rows)
    assert "#" not in text


def test_a_comparison_tells_two_engines_of_one_name_apart(make_report, outcome):
    same = [make_report(outcome(verdict), name="toy") for verdict in (Verdict.FAIL, Verdict.PASS)]
    text = printed(lambda c: terminal.comparison(c, same, [Path("out/toy"), Path("out/toy-2")]))
    assert "requirement      toy #1  toy #2" in text
    assert "toy #1 is out/toy; toy #2 is out/toy-2" in text


def test_the_last_line_says_how_much_was_judged_and_why_the_rest_was_not(make_report):
    report = make_report(
        Outcome("PR-HELLO", Verdict.PASS),
        Outcome("MS-MERGED", Verdict.NOT_CLAIMED, actual="offers no market-spread"),
        Outcome("MS-REJECTS", Verdict.NOT_CLAIMED, actual="offers no market-spread"),
        Outcome("EO-TAIL", Verdict.NOT_CLAIMED, actual="claims state = none"),
        Outcome("EO-PAUSE", Verdict.UNKNOWN, reason="KILL_MISSED", actual="0"),
    )
    text = " ".join(printed(lambda c: terminal.summary(c, report, Path("out"))).split())
    assert "offers no market-spread: MS-MERGED, MS-REJECTS" in text
    assert "1 of 5 judged: 1 unknown, 1 pass, 3 not-claimed; " in text
    assert (
        "not judged 1 unknown (KILL_MISSED), "
        "3 not-claimed (2: offers no market-spread, 1: claims state = none)"
    ) in text
    assert [(one.verdict, one.ids) for one in report.not_judged] == [
        (Verdict.UNKNOWN, ["EO-PAUSE"]),
        (Verdict.NOT_CLAIMED, ["MS-MERGED", "MS-REJECTS"]),
        (Verdict.NOT_CLAIMED, ["EO-TAIL"]),
    ]


def test_of_many_reasons_the_most_frequent_are_named(make_report):
    words = [("A", 4), ("B", 3), ("C", 2), ("D", 1), ("E", 1)]
    ids = (id_ for id_ in registry.load())
    left = [
        Outcome(next(ids), Verdict.NOT_CLAIMED, actual=f"offers no {word}")
        for word, count in words
        for _ in range(count)
    ]
    text = " ".join(printed(lambda c: terminal.summary(c, make_report(*left), Path("out"))).split())
    assert (
        "11 not-claimed (4: offers no A, 3: offers no B, 2: offers no C, 2 for other reasons)"
        in text
    )
    assert "offers no E: " in text


def test_what_several_hosts_would_show_is_named_and_changes_no_count(make_report):
    alone = make_report(Outcome("PR-HELLO", Verdict.PASS))
    asked = alone.model_copy(update={"hosts": 3})
    alone = alone.model_copy(update={"not_asked": ["NE-MUTE", "NE-SLOW"]})
    found = [
        " ".join(printed(lambda c, one=one: terminal.summary(c, one, Path("out"))).split())
        for one in (alone, asked)
    ]
    assert "toy: ✓ pass — 1 of 1 judged: 1 pass; exit status 0" in found[0]
    assert "not judged 2 not asked (about several hosts: needs --hosts)" in found[0]
    assert "toy: ✓ pass on 3 hosts — 1 of 1 judged" in found[1]
    assert "not asked" not in found[1]


def test_an_early_end_is_told_in_one_line_and_a_kit_error_without_a_hint(make_report):
    error = Outcome("EO-ENGINE-DEATH", Verdict.KIT_ERROR, reason="NO_SPACE", actual="no space left")
    left = [Outcome(id_, Verdict.UNKNOWN, reason="INTERRUPTED") for id_ in ("PR-HELLO", "PR-STOP")]
    cut = json_report.Interrupted(by="ended by a full disk", exit_status=4, judged=0, of=3)
    report = json_report.of_session(make_report(error, *left), "s", cut)
    out = printed(lambda c: terminal.summary(c, report, Path("out")), 120)
    assert "ended by a full disk after 0 of 3 requirements" in out.splitlines()
    assert "PR-HELLO" not in out
    causes = halves(registry.load()["EO-ENGINE-DEATH"].promise)[1]
    assert causes.split()[:4] and " ".join(causes.split()[:4]) not in " ".join(out.split())
    assert "likely" not in out
