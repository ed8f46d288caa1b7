"""`tickproof compare`: what differs, what is worse, in every form; documents of all three kinds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import tickproof as tickproof
from tests.report.conftest import hostile as hostile
from tests.report.conftest import make_report as make_report
from tests.report.conftest import outcome as outcome
from tests.service_level.made_documents import MACHINE, latency_session, steady_round
from tickproof.conformance.latency.figures import RunFigures
from tickproof.conformance.performance import comparison
from tickproof.conformance.performance import comparison_words as words
from tickproof.conformance.performance.bench import EngineResult, document
from tickproof.conformance.performance.bench_plan import Plan
from tickproof.conformance.performance.document import MeasuredEngine
from tickproof.conformance.performance.series import Series
from tickproof.conformance.performance.subject import Figure, Subject, read
from tickproof.conformance.report.json_report import Interrupted, of_session
from tickproof.conformance.suites import registry
from tickproof.conformance.verdicts import DOES_NOT_APPLY, JUDGED, Outcome, Reason, Verdict

IDS = ("PR-HELLO", "ST-TOTALS", "EO-WORKER-DEATH")


@pytest.fixture
def session(make_report, tmp_path):
    """Write the report of a session in which the three requirements came out as said."""

    def write(name, *verdicts, actual="", engine="toy"):
        found = [
            Outcome(id_, verdict, actual=actual) for id_, verdict in zip(IDS, verdicts, strict=True)
        ]
        (tmp_path / name).mkdir()
        make_report(*found, name=engine).write(tmp_path / name)
        return tmp_path / name

    return write


PASS, FAIL, UNKNOWN, GAP, NOT = (
    Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN, Verdict.KNOWN_GAP, Verdict.NOT_CLAIMED,
)  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        (PASS, PASS, 0),
        (PASS, FAIL, 1),
        (FAIL, PASS, 0),
        (PASS, UNKNOWN, 1),
        (PASS, NOT, 1),
        (PASS, GAP, 1),
        (UNKNOWN, FAIL, 1),
        (UNKNOWN, UNKNOWN, 0),
        (NOT, PASS, 0),
        (PASS, Verdict.GAP_FIXED, 0),
        (FAIL, Verdict.KIT_ERROR, 1),
        # What was judged and is not any more is neither worse nor the same.
        (GAP, NOT, 5),
        (FAIL, NOT, 5),
        (FAIL, UNKNOWN, 5),
        (FAIL, Verdict.BLOCKED, 5),
    ],
)
def test_worse_is_what_is_worse_for_a_user(tickproof, session, before, after, status):
    one, two = session("a", PASS, PASS, before), session("b", PASS, PASS, after)
    code, out, _ = tickproof("compare", one, two)
    assert code == status
    assert ("EO-WORKER-DEATH" in out) == (before is not after)
    assert "ST-TOTALS" not in out
    assert ("Nothing is worse than with" in out) == (status == 0)
    assert tickproof("compare", "--only-common", one, two)[0] == (0 if status == 5 else status)


def test_what_does_not_apply_is_no_difference_and_no_comparison(tickproof, session):
    why = f"{DOES_NOT_APPLY}: about the log"
    one = session("a", PASS, PASS, PASS)
    code, out, _ = tickproof("compare", one, session("b", PASS, NOT, NOT, actual=why))
    assert code == 0
    assert "the same for all: 1 pass" in out
    code, out, _ = tickproof("compare", one, session("c", NOT, NOT, NOT, actual=why))
    assert code == 5
    assert "Nothing was compared" in out


def test_what_one_side_was_not_asked_is_listed_with_the_reason(tickproof, make_report, tmp_path):
    lacks, dies, log = "offers no app double", "does not claim to survive: engine", "about the log"
    found = {
        "PR-HELLO": (PASS, "", PASS, ""),
        "ST-TOTALS": (NOT, lacks, PASS, ""),
        "EO-ENGINE-DEATH": (FAIL, "", NOT, dies),
        # Unknown against what does not apply was in no list at all.
        "EO-FULL-DISK": (UNKNOWN, "", NOT, f"{DOES_NOT_APPLY}: {log}"),
        "EO-PAUSE": (NOT, lacks, NOT, dies),
    }
    for at, name in ((0, "one"), (2, "two")):
        (tmp_path / name).mkdir()
        made = [Outcome(id_, row[at], actual=row[at + 1]) for id_, row in found.items()]
        make_report(*made, name=name).write(tmp_path / name)
    for form in ("terminal", "markdown", "html"):
        _, out, _ = tickproof("compare", tmp_path / "one", tmp_path / "two", "--format", form)
        assert (
            f"two 1.0 was not asked for 2 of what one 1.0 was asked for: EO-ENGINE-DEATH ({dies}); "
            f"EO-FULL-DISK ({DOES_NOT_APPLY}: {log})."
        ) in out
        assert (
            f"one 1.0 was not asked for 1 of what two 1.0 was asked for: ST-TOTALS ({lacks})."
            in out
        )
    _, out, _ = tickproof("compare", tmp_path / "one", tmp_path / "two", "--format", "json")
    assert json.loads(out)["overlaps"][0]["not_asked"][0] == {
        "engine": "two 1.0",
        "other": "one 1.0",
        "why": dies,
        "ids": ["EO-ENGINE-DEATH"],
    }


def test_an_app_that_one_engine_of_a_bench_lacks_is_listed(tickproof, tmp_path):
    lacks = series(status="not-offered", why="app count is not offered")
    more = series(*[9.0] * 4, app="passthrough")
    bench(tmp_path, ("one", more, series(*[9.0] * 4)), ("two", more, lacks))
    _, out, _ = tickproof("compare", tmp_path)
    assert "two 1 was not asked for 1 of what one 1 was asked for: measured: records a" in out
    assert "(app count is not offered)." in out


@pytest.fixture
def report(make_report, tmp_path):
    """Write the report of a session with these verdicts, by id."""

    def write(name, engine="toy", **verdicts):
        found = [Outcome(id_.replace("_", "-"), verdict) for id_, verdict in verdicts.items()]
        (tmp_path / name).mkdir()
        make_report(*found, name=engine).write(tmp_path / name)
        return tmp_path / name

    return write


def test_many_passes_against_one_failure_of_another_requirement_are_not_compared(tickproof, report):
    ids = list(registry.load())[:23]
    many = report("a", engine="one", **dict.fromkeys(ids, PASS))
    other = report("b", engine="two", EO_PAUSE=FAIL)
    for more in ([], ["--only-common"]):
        code, out, _ = tickproof("compare", many, other, *more)
        assert code == 5
        assert f"Not compared with two 1.0, 23 of 23 of one 1.0: {ids[0]}, {ids[1]}," in out
        assert f"{ids[11]} and 11 more." in out
        assert "Asked of two 1.0 and not of one 1.0, 1: EO-PAUSE; these do not hold" in out
        assert "Nothing was compared" in out
        assert "Nothing is worse" not in out


def test_a_part_that_was_not_judged_again_is_named_in_every_form(tickproof, report):
    before = report("a", PR_HELLO=PASS, ST_TOTALS=PASS)
    after = report("b", PR_HELLO=PASS)
    for form in ("terminal", "markdown", "html"):
        code, out, _ = tickproof("compare", before, after, "--format", form)
        assert code == 5
        plain = out.replace("\\#", "#")
        assert "Not compared with toy 1.0 #2, 1 of 2 of toy 1.0 #1: ST-TOTALS." in plain
        assert "Not all of toy 1.0 #1 was compared" in plain
    code, out, _ = tickproof("compare", before, after, "--format", "json")
    found = json.loads(out)
    assert (code, found["exit_status"]) == (5, 5)
    assert found["overlaps"] == [
        {
            "engine": "toy 1.0 #2",
            "compared": ["PR-HELLO"],
            "missing": ["ST-TOTALS"],
            "extra": [],
            "failed": [],
            "not_asked": [],
        }
    ]
    code, out, _ = tickproof("compare", before, after, "--only-common")
    assert code == 0
    assert "Nothing is worse than with toy 1.0 #1 in the 1 that were compared." in out


def test_more_than_before_is_green_as_long_as_it_holds(tickproof, report):
    before = report("a", PR_HELLO=PASS)
    assert tickproof("compare", before, report("b", PR_HELLO=PASS, EO_PAUSE=PASS))[0] == 0
    failing = report("c", PR_HELLO=PASS, EO_PAUSE=FAIL)
    assert tickproof("compare", before, failing)[0] == 5
    assert tickproof("compare", before, failing, "--only-common")[0] == 0


@given(st.lists(st.tuples(*[st.sampled_from([None, *Verdict])] * 3), max_size=4), st.booleans())
def test_last_line_and_exit_status_agree(rows, only_common):
    found = comparison.Comparison(
        ("a", "b", "c"),
        tuple(
            comparison.VerdictRow(f"X-{n}", "", 0, row, (True,) * 3, ("",) * 3)
            for n, row in enumerate(rows)
        ),
        (),
        0.05,
        "",
        only_common,
    )
    said = words.verdict(found)
    begins = {0: "Nothing is worse than with a", 1: "Against a: ", 5: "No"}[found.status]
    assert said.startswith(begins)
    assert (found.status == 0) == said.startswith("Nothing is worse")
    if found.status == 0:
        judged = [row for row in rows if row[0] in JUDGED]
        assert judged
        assert only_common or all(None not in row for row in judged)


def test_all_is_a_matrix(tickproof, session):
    folders = [session(name, PASS, FAIL, NOT, engine=name) for name in ("one", "two", "three")]
    code, out, _ = tickproof("compare", "--all", "--format", "markdown", *folders)
    assert code == 0
    rows = [line for line in out.splitlines() if line.startswith("| ")]
    assert rows[0] == "| requirement | one 1.0 | two 1.0 | three 1.0 |"
    assert [row.split()[1] for row in rows[1:]] == list(IDS)
    assert all(row.count("|") == 5 for row in rows)


def test_a_page_goes_into_a_folder_that_is_made(tickproof, session, tmp_path):
    folders = [session(name, PASS, PASS, PASS) for name in "ab"]
    page = tmp_path / "no" / "such" / "page.html"
    assert tickproof("compare", "--format", "html", "-o", page, *folders)[0] == 0
    assert page.read_text().startswith("<!doctype html>")
    code, _, error = tickproof("compare", "--format", "html", "-o", page / "x.html", *folders)
    assert code == 2
    assert (
        f"--output: expected a file that can be written, got {page / 'x.html'}: {page} is a file"
        in error
    )


def test_two_sessions_of_one_engine_are_numbered(tickproof, session):
    folders = [session(name, PASS, PASS, verdict) for name, verdict in (("a", PASS), ("b", FAIL))]
    code, out, _ = tickproof("compare", "--format", "json", *folders)
    found = json.loads(out)
    assert code == 1
    assert found["names"] == ["toy 1.0 #1", "toy 1.0 #2"]
    files = [folder / "report.json" for folder in folders]
    assert found["notes"] == [f"toy 1.0 #1 is {files[0]}; toy 1.0 #2 is {files[1]}"]
    assert f"toy 1.0 #2 is {files[1]}." in tickproof("compare", *folders)[1]
    assert found["regressions"] == [{"engine": "toy 1.0 #2", "what": "EO-WORKER-DEATH"}]


def latency(folder, values, rate=20_000, verdict=PASS):
    runs = [
        RunFigures(n, n, f"run-{n}", "completed", percentiles={"p99": value})
        for n, value in enumerate(values, 1)
    ]
    folder.mkdir()
    latency_session(runs, rate=rate, verdict=verdict).write(folder)
    return folder


@pytest.mark.parametrize(
    ("after", "code", "said"),
    [
        ([100, 101, 102, 103, 104], 0, "no difference shown"),
        ([200, 201, 202, 203, 204], 1, "worse"),
        ([50, 51, 52, 53, 54], 0, "better"),
        # All of it is worse, and not by more than a twentieth.
        ([104.1, 104.2, 104.3, 104.4, 104.5], 0, "worse"),
        ([200, 201], 5, "5 against 2 runs are too few, 4 each would do"),
    ],
)
def test_percentiles_are_compared_over_runs(tickproof, tmp_path, after, code, said):
    one = latency(tmp_path / "a", [100, 101, 102, 103, 104])
    found, out, _ = tickproof("compare", one, latency(tmp_path / "b", after))
    assert found == code
    assert said in out
    assert "p99" in out


def test_latencies_under_different_loads_are_not_compared(tickproof, tmp_path):
    one = latency(tmp_path / "a", [100, 101, 102, 103])
    code, _, error = tickproof("compare", one, latency(tmp_path / "b", [1, 2, 3, 4], rate=50_000))
    assert code == 2
    assert "figures of different loads cannot be compared" in error
    assert f"{one / 'latency.json'}: rate 20000; " in error
    assert f"{tmp_path / 'b' / 'latency.json'}: rate 50000\n" in error


def test_benches_that_differ_say_in_what(tickproof, tmp_path):
    one = bench(tmp_path / "a", ("toy", series(9.0)), rounds=3, seed=1)
    two = bench(tmp_path / "b", ("toy", series(9.0)), rounds=3, seed=2, keys=(350,))
    code, _, error = tickproof("compare", one, two)
    assert code == 2
    assert f"{one / 'bench.json'}: keys 10000; {two / 'bench.json'}: keys 350\n" in error


def test_a_figure_that_the_first_has_too_few_runs_of_does_not_blame_the_other(tickproof, tmp_path):
    one = latency(tmp_path / "a", [100])
    _, out, _ = tickproof("compare", one, latency(tmp_path / "b", range(100, 107)))
    assert "1 against 7 runs are too few, 4 each would do" in out
    none = latency(tmp_path / "c", [])
    _, out, _ = tickproof("compare", none, latency(tmp_path / "d", range(100, 107)))
    assert "nothing to compare with" in out and "too few" not in out


def test_a_job_is_not_compared_with_an_engine(tickproof, report):
    engine, job = report("a", PR_HELLO=PASS), report("b", JB_CALM=PASS, JB_LOST=PASS)
    code, _, error = tickproof("compare", engine, job)
    assert code == 2
    assert f"got {job / 'report.json'} of a job and {engine / 'report.json'} of an engine" in error
    assert tickproof("compare", job, report("c", JB_CALM=PASS, JB_LOST=PASS))[0] == 0


def test_an_engine_in_place_of_its_session_is_told_where_that_is(
    tickproof, report, make_report, tmp_path, monkeypatch
):
    session = report("a", PR_HELLO=PASS)
    code, _, error = tickproof("compare", session, "miniature")
    assert code == 2
    assert "SESSION: expected a folder with one of report.json, latency.json, bench.json" in error
    assert "got miniature, an engine; `tickproof run miniature` writes a session to" in error
    monkeypatch.chdir(tmp_path)
    made = Path("tickproof-out/miniature")
    made.mkdir(parents=True)
    make_report(Outcome("PR-HELLO", PASS)).write(made)
    assert f"an engine; its session is in {made}" in tickproof("compare", session, "miniature")[2]
    assert "got nothing, which does not exist" in tickproof("compare", session, "nothing")[2]


def bench(folder, *engines, **plan):
    """Write the bench of engines: name, series of apps."""
    results = [
        EngineResult(MeasuredEngine(name=name, version="1", language=""), list(apps), [], [])
        for name, *apps in engines
    ]
    folder.mkdir(exist_ok=True)
    document(results, Plan(**plan), MACHINE).write(folder)
    return folder


def series(*rates, app="count", **given):
    return Series(app, rounds=[steady_round(rate) for rate in rates], **given)


def test_a_bench_compares_the_engines_in_it(tickproof, tmp_path):
    def engine(name, rate):
        return name, series(*(rate + n for n in range(5)))

    bench(tmp_path, engine("one", 1000.0), engine("two", 500.0), engine("three", 2000.0))
    code, out, _ = tickproof("compare", tmp_path, "--format", "markdown")
    assert code == 1
    assert "Against one 1: two 1 is worse in records a second of count." in out
    assert (
        "| records a second of count (higher is better) | 1,002 /s "
        "| 502 /s: 0.50 times (0.50 to 0.50), worse |"
    ) in out


def test_no_word_of_a_heading_is_split_at_80_columns(tickproof, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    row = series(*[9.0] * 4, app="market-spread")
    bench(tmp_path, ("kafka-streams", row), ("kafka-miniature", row))
    _, out, _ = tickproof("compare", tmp_path)
    assert "median over runs" in out
    heading = out.splitlines()[0]
    assert heading.split()[-4:] == ["kafka-streams", "1", "kafka-miniature", "1"]


def test_two_engines_of_one_name_in_a_bench_are_told_apart_by_their_files(tickproof, tmp_path):
    toy = MeasuredEngine(name="toy", version="1", language="")
    both = [EngineResult(toy, [series(*[9.0] * 4)], [], [], f"{one}/engine.toml") for one in "ab"]
    document(both, Plan(), MACHINE).write(tmp_path)
    _, out, _ = tickproof("compare", tmp_path)
    file = tmp_path / "bench.json"
    assert f"toy 1 #1 is {file}, a/engine.toml; toy 1 #2 is {file}, b/engine.toml." in out


def test_what_weakens_the_figures_of_a_bench_is_told_in_its_comparison(tickproof, tmp_path):
    rounds = [steady_round(9.0, steps=3), *[steady_round(9.0, other_cores=0.7)] * 3]
    few = Series("count", rounds=rounds)
    bench(tmp_path, ("one", few), ("two", series(*[9.0] * 4)))
    for form in ("terminal", "markdown", "html"):
        _, out, _ = tickproof("compare", tmp_path, "--format", form)
        assert out.count("Other programs kept up to 0.700 of 2 processors busy meanwhile") == 1
        assert "one, count: RELEASEs of a partition after the warm-up: only 3" in out


@pytest.mark.parametrize("verdict", [FAIL, UNKNOWN, Verdict.KIT_ERROR])
def test_a_latency_session_that_came_out_worse_is_worse_without_figures(
    tickproof, tmp_path, verdict
):
    good = latency(tmp_path / "a", [100, 101, 102, 103])
    code, out, _ = tickproof("compare", good, latency(tmp_path / "b", [], verdict=verdict))
    assert code == 1 and "is worse in latency." in out
    # Its limits hold, and there is no figure to compare.
    without = latency(tmp_path / "c", [])
    assert tickproof("compare", good, without)[0] == 5
    assert tickproof("compare", good, without, "--only-common")[0] == 0


@pytest.mark.parametrize(
    ("status", "rates", "code"),
    [("failed", [], 1), ("unknown", [], 1), ("kit-error", [], 1), ("measured", [None], 1),
     ("not-offered", [], 5), ("not-claimed", [], 5), ("measured", [9.0], 5),
     ("measured", [9.0] * 4, 0)],
)  # fmt: skip
def test_a_series_of_a_bench_that_gave_a_figure_and_gives_none_is_worse(
    tickproof, tmp_path, status, rates, code
):
    before = bench(tmp_path / "a", ("toy", series(*[9.0] * 4)))
    after = bench(tmp_path / "b", ("toy", series(*rates, status=status)))
    assert tickproof("compare", before, after)[0] == code


def test_each_number_of_keys_and_workers_is_a_figure_of_its_own(tmp_path):
    rows = [
        series(9.0, app=app, keys=keys)
        for app, keys in (("passthrough", 0), ("count", 350), ("count", 10_000))
    ]
    bench(tmp_path, ("one", *rows), keys=(350, 10_000), workers=(2, 4))
    (found,) = read(tmp_path)
    assert [name.removeprefix("records a second of ") for name in found.figures] == [
        "passthrough, 2 workers",
        "count, 350 keys, 2 workers",
        "count, 10,000 keys, 2 workers",
    ]


def test_the_threshold_is_one_of_the_whole_interval(tmp_path):
    before = Figure("rate", "/s", "higher", (100, 100, 100, 100, 100))
    after = Figure("rate", "/s", "higher", (80, 85, 88, 90, 96))
    subjects = [
        Subject(name, tmp_path, {}, {"rate": one}) for name, one in (("a", before), ("b", after))
    ]
    assert comparison.compare(subjects, 0.05).regressions == []
    assert comparison.compare(subjects, 0.0).regressions == [("b", "rate")]


def test_what_an_engine_is_called_is_text(tickproof, session, hostile):
    name = "<script>alert(1)</script>|" + hostile
    folders = [session(one, PASS, FAIL, PASS, engine=name) for one in ("a", "b")]
    code, out, _ = tickproof("compare", "--all", "--format", "html", *folders)
    assert code == 0
    assert "<script" not in out
    code, out, _ = tickproof("compare", "--all", "--format", "markdown", *folders)
    assert "<script" not in out
    assert {line.replace("\\|", "").count("|") for line in out.splitlines() if line[:1] == "|"} == {
        4
    }


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("report.json", "{}", "format: Field required"),
        ("latency.json", "[]", "latency.json: expected a latency.json: expected an object, got []"),
        ("latency.json", '{"format": 7}', "format: expected 1, got 7"),
        (
            "bench.json",
            '{"format": 1}',
            "bench.json: expected a bench.json: machine: Field required",
        ),
        ("bench.json", '{"format": 2}', "bench.json: format: expected 1, got 2"),
        ("bench.json", "[" * 100_000, "Invalid JSON"),
        ("latency.json", "[" * 100_000, "Invalid JSON"),
        ("other.txt", "", "expected a folder with one of report.json, latency.json, bench.json"),
    ],
)
def test_what_cannot_be_read_is_named(tickproof, session, tmp_path, name, content, said):
    good, bad = session("a", PASS, PASS, PASS), tmp_path / "bad"
    bad.mkdir()
    (bad / name).write_text(content)
    code, _, error = tickproof("compare", good, bad)
    assert code == 2
    assert said in error


def test_one_session_is_too_few(tickproof, session):
    code, _, error = tickproof("compare", session("a", PASS, PASS, PASS))
    assert code == 2
    assert "SESSION: expected at least two sessions, as `tickproof compare BEFORE AFTER`" in error
    assert "report.json alone" in error


def test_what_an_interrupt_left_open_is_not_worse(tickproof, make_report, report, tmp_path):
    before = report("a", PR_HELLO=PASS, ST_TOTALS=PASS)
    left = [Outcome("PR-HELLO", PASS), Outcome("ST-TOTALS", UNKNOWN, reason=Reason.INTERRUPTED)]
    cut = Interrupted(by="interrupted with Ctrl-C", exit_status=130, judged=1, of=2)
    (tmp_path / "b").mkdir()
    of_session(make_report(*left, name="toy"), "1", cut).write(tmp_path / "b")
    for form in ("terminal", "markdown", "html", "json"):
        code, out, _ = tickproof("compare", before, tmp_path / "b", "--format", form)
        assert code == 5
        assert "interrupted with Ctrl-C" in out
        assert "is worse" not in out.replace("nothing is worse", "")
    assert tickproof("compare", before, tmp_path / "b", "--only-common")[0] == 0
    code, out, _ = tickproof("compare", tmp_path / "b", before)
    assert "Asked of toy 1.0 #2 and not of toy 1.0 #1, 1: ST-TOTALS." in out


def test_a_report_that_is_not_of_the_newest_session_says_so(tickproof, make_report, tmp_path):
    for name, newest in (("a", "20260101-000000-seed1"), ("b", "20260102-000000-seed1")):
        (tmp_path / name / "runs" / newest).mkdir(parents=True)
        made = make_report(Outcome("PR-HELLO", PASS), name="toy")
        of_session(made, "20260101-000000-seed1", None).write(tmp_path / name)
    _, out, _ = tickproof("compare", tmp_path / "a", tmp_path / "b")
    assert f"{tmp_path / 'b'}: this report is not of its newest session, 20260102-000000" in out
    assert f"{tmp_path / 'a'}: this report" not in out


def test_how_sessions_were_made_is_told_where_it_differs(tickproof, make_report, tmp_path):
    for name, profile in (("a", "quick"), ("b", "full"), ("c", "quick")):
        (tmp_path / name).mkdir()
        made = make_report(Outcome("PR-HELLO", PASS), name=name)
        made.model_copy(update={"profile": profile}).write(tmp_path / name)
    _, out, _ = tickproof("compare", tmp_path / "a", tmp_path / "b")
    assert "These sessions were not made alike: a 1.0: profile quick," in out
    assert "made alike" not in tickproof("compare", tmp_path / "a", tmp_path / "c")[1]


def test_what_looks_worse_and_may_be_chance_is_undecided():
    def subject(name, *values):
        return Subject(name, Path(name), figures={"rate": Figure("rate", "/s", "higher", values)})

    before = subject("a", 580.0, 590.0, 600.0, 380.0, 610.0, 605.0)
    after = subject("b", 400.0, 410.0, 420.0, 600.0, 390.0, 620.0)
    found = comparison.compare([before, after], 0.05)
    assert (found.regressions, found.status) == ([], 0)
    assert [(name, row.name) for name, row, _ in found.undecided] == [("b", "rate")]
    assert "Nothing is shown to be worse than with a. Undecided" in words.verdict(found)
    again = comparison.compare([before, before], 0.05)
    assert words.verdict(again) == "Nothing is worse than with a #1."


def test_a_folder_of_sessions_and_one_without_a_report_say_what_to_name(
    tickproof, report, tmp_path
):
    session = report("a", PR_HELLO=PASS)
    _, _, said = tickproof("compare", session, tmp_path)
    assert f"sessions are in {session}" in said
    (tmp_path / "killed" / "runs").mkdir(parents=True)
    _, _, said = tickproof("compare", session, tmp_path / "killed")
    assert f"`tickproof report {tmp_path / 'killed'}` writes that of a session" in said
