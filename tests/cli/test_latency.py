"""`tickproof latency` and `profiles`: wrong requests, what is printed, the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from tickproof.conformance.cli import main
from tickproof.conformance.engines import interruption
from tickproof.conformance.errors import HistoryError, KitStopped
from tickproof.conformance.latency import profiles
from tickproof.conformance.latency.figures import RunFigures
from tickproof.conformance.performance import (
    latency_terminal,
    measurement,
    rate_search,
    rounds,
    search_session,
)

LEVELS = {name: 1_000.0 for name in ("p50", "p90", "p95", "p99", "p99.9", "p99.99", "max")}


def figures(number: int = 1, **changed) -> RunFigures:
    """Return the figures of a run that is well under every limit of profile ci."""
    good = {
        "number": number,
        "seed": number,
        "run": f"run-{number}",
        "ended": "completed",
        "samples": 6_000,
        "percentiles": LEVELS,
        "quiet_samples": 6_000,
        "quiet_percentiles": LEVELS,
        "floor": dict.fromkeys(LEVELS, 200.0),
        "late": dict.fromkeys(LEVELS, 50.0),
        "hiccup": dict.fromkeys(LEVELS, 20.0),
    }
    return RunFigures(**good | changed)


@pytest.fixture
def played(monkeypatch) -> list[RunFigures]:
    """Let rounds be played by nobody; give the figures that they return, to be filled."""
    script: list[RunFigures] = []
    monkeypatch.setattr(rounds.Rounds, "timed", lambda *_: script.pop(0))
    return script


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected ENGINE and --profile NAME|PATH, or --again FOLDER"),
        (["miniature"], "expected ENGINE and --profile"),
        (["miniature", "--profile", "cii"], "did you mean ci?"),
        (["nobody", "--profile", "ci"], "no such engine"),
        (["mutant:nobody", "--profile", "ci"], "no such mutant"),
        (["miniature", "--profile", "ci", "--runs", "4"], "--runs"),
        (["miniature", "--profile", "ci", "--low", "500"], "together with --search"),
        (["miniature", "--profile", "ci", "--search", "--low", "9000", "--high", "8000"],
         "expected a range of rates, in steps of 2,000 records a second; got 8,000 to 8,000"),
        (["miniature", "--profile", "ci", "--search", "--high", "10000001"], "--high"),
        (["--again", "."], "latency.json: expected a latency.json: No such file"),
        (["miniature", "--again", "."], "expected without ENGINE and --profile"),
    ],
)  # fmt: skip
def test_wrong_requests(tickproof, played, arguments, said):
    played.append(None)  # it would be taken
    status, out, err = tickproof("latency", *arguments)
    assert status == 2
    assert said in " ".join(err.split()) and "Traceback" not in err
    assert played == [None] and out == ""


def test_a_profile_with_a_wrong_key_is_named(tickproof, tmp_path):
    text = (Path(profiles.__file__).parents[2] / "fixtures/profiles/ci.toml").read_text()
    (tmp_path / "own.toml").write_text(text.replace("p99 = 250_000", "p99 = 40_000"))
    status, _, err = tickproof("latency", "miniature", "--profile", "own.toml")
    assert status == 2
    assert "own.toml: [limits] p99: expected at least the limit of p50, 50 ms" in err


def test_an_app_that_is_not_offered_is_said_and_nothing_is_played(tickproof, engine, played):
    status, out, _ = tickproof("latency", engine(), "--profile", "ci", "--out", "out")
    assert status == 5
    assert "not-claimed toy does not offer market-spread inputs=merged" in " ".join(out.split())
    assert not list(Path("out").glob("*seed*"))


def test_a_kill_that_is_not_claimed_to_be_survived_is_not_made(tickproof, played):
    played.append(None)
    minimal = ["latency", "minimal", "--profile", "recovery", "--out", "out"]
    status, out, _ = tickproof(*minimal)
    assert status == 5 and played == [None]
    assert "minimal does not claim to survive a kill of engine" in " ".join(out.split())
    status, out, _ = tickproof(*minimal, "--json")
    assert status == 5 and json.loads(out)["decision"]["verdict"] == "not-claimed"


def test_a_disk_that_is_too_small_is_named_before_an_engine_starts(tickproof, played, monkeypatch):
    played.append(None)
    usage = type("Usage", (), {"free": 1 << 20})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    for more in ([], ["--search"]):
        status, _, err = tickproof("latency", "miniature", "--profile", "ci", *more)
        assert status == 2 and played == [None]
        assert "but tickproof-out/latency has 1 MiB left" in " ".join(err.split())
    assert not list(Path("tickproof-out/latency").glob("*seed*"))


def test_more_cores_than_there_are_is_unknown_before_an_engine_starts(
    tickproof, played, monkeypatch
):
    floor = {"p50": 90.0, "p99": 200.0}
    monkeypatch.setattr(rounds.Rounds, "floor_alone", lambda *_: floor)
    data = profiles.load("ci").to_json() | {"cores": {"kit": 2_000, "engine": 2_000}}
    monkeypatch.setattr(profiles, "load", lambda _: profiles.Profile.from_json(data))
    played.append(None)
    status, out, _ = tickproof("latency", "miniature", "--profile", "ci", "--out", "out")
    assert status == 3 and played == [None]
    assert "HOST_NOT_OK not as asked: cores" in " ".join(out.split())
    assert "wanted 2000 for the kit, 2000 for the engine" in " ".join(out.split())
    assert "floor      p50 0.0900, p99 0.200 ms" in out


def test_what_ended_a_session_early_is_in_its_document(tickproof, played, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(rounds.Rounds, "floor_alone", interrupted)
    data = profiles.load("ci").to_json() | {"cores": {"kit": 2_000, "engine": 2_000}}
    monkeypatch.setattr(profiles, "load", lambda _: profiles.Profile.from_json(data))
    status, _, err = tickproof("latency", "miniature", "--profile", "ci", "--out", "out")
    assert status == 130
    assert "0 runs are reported in" in " ".join(err.split())
    (document,) = Path("out").glob("*/latency.json")
    assert json.loads(document.read_text())["interrupted"] == interruption.words()


def session(tickproof, *more: str) -> tuple[int, str, dict]:
    status, out, _ = tickproof(
        "latency", "miniature", "--profile", "ci", "--seed", 3, "--out", "out", *more
    )
    (folder,) = Path("out").glob("*seed3")
    return status, out, json.loads((folder / "latency.json").read_text())


def test_the_verdict_comes_first_and_the_table_fits(tickproof, played):
    played += [figures(number) for number in range(1, 6)]
    status, out, document = session(tickproof)
    assert status == 0 and document["decision"]["verdict"] == "pass"
    assert out.split()[:5] == ["✓", "pass", "miniature", "1.0.0", "on"]
    (row,) = [line.split() for line in out.splitlines() if line.startswith("  p99 ")]
    assert row == ["p99", "250", "1.00", "1.00", "1.00", "0.200", "✓", "pass"]
    assert "late by p50 0.0500 ms, p99 0.0500 ms, max 0.0500 ms" in " ".join(out.split())
    assert "tickproof latency miniature --profile ci --seed 3\n" in out


def test_a_limit_that_is_missed_asks_for_more_runs_and_fails_by_all(tickproof, played):
    slow = LEVELS | {"p99": 900_000.0, "p99.9": 900_000.0}
    played += [figures(n, percentiles=slow, quiet_percentiles=slow) for n in range(1, 10)]
    status, out, document = session(tickproof)
    assert status == 1 and len(document["runs"]) == 9
    assert "OVER_LIMIT" in out and "[900 900]" in out
    assert max(map(len, out.splitlines()[:-1])) <= 100


def test_a_run_that_fell_behind_shows_no_percentile(tickproof, played):
    fell = {"achieved": 0.8, "backlog_growth": 4_000.0, "percentiles": {}, "quiet_percentiles": {}}
    played += [figures(number, **fell) for number in range(1, 10)]
    status, out, _ = session(tickproof)
    assert status == 1
    assert "UNSUSTAINABLE" in out and "no percentile is shown" in " ".join(out.split())
    assert "p99.9 " not in out.split("generator")[0].split("figures")[-1]
    assert "80.0% of the rate achieved; the backlog grew by up to 4,000" in " ".join(out.split())


def test_json_is_the_file(tickproof, played):
    played += [figures(number, recovery_s=float("inf")) for number in range(1, 6)]
    status, out, document = session(tickproof, "--json")
    assert status == 0 and json.loads(out) == document
    assert document["runs"][0]["recovery_s"] == "inf"


def test_recoveries_are_shown_never_among_them(tickproof, played):
    times = [1.5, 2.0, float("inf"), 1.5, 1.5, 1.5, 1.5, 1.5, 1.5]
    played += [figures(n, recovery_s=s, quiet_recovery_s=s) for n, s in enumerate(times, 1)]
    status, out, _ = tickproof("latency", "miniature", "--profile", "recovery", "--out", "out")
    assert status == 0
    (row,) = [
        line.split()
        for line in out.splitlines()
        if line.startswith("  recovery ") and "s," not in line
    ]
    assert row[:5] == ["recovery", "10,000", "1,500", "1,500", "never"]
    assert "p99 back under its limit after 1.5 s, 2.0 s, never, 1.5 s" in " ".join(out.split())


def test_more_runs_can_be_asked_for(tickproof, played):
    played += [figures(number) for number in range(1, 13)]
    status, out, document = session(tickproof, "--runs", 12)
    assert status == 0 and len(document["runs"]) == 12
    assert "--seed 3 --runs 12\n" in out


def test_a_kit_that_breaks_is_not_blamed_on_the_engine(tickproof, monkeypatch):
    def broken(*_, **__):
        raise KitStopped("the disk is full")

    monkeypatch.setattr(rounds.playing, "play", broken)
    status, out, document = session(tickproof)
    assert status == 4
    assert "kit-error" in out and "run-1: the disk is full" in " ".join(out.split())
    assert len(document["runs"]) == 1


def test_profiles_are_listed():
    listed = CliRunner().invoke(main.cli, ["profiles"]).output
    as_json = json.loads(CliRunner().invoke(main.cli, ["profiles", "--json"]).output)
    names = [profile.name for profile in profiles.available()]
    assert [row["name"] for row in as_json] == names
    assert all(name in listed for name in names)


@pytest.mark.parametrize(
    ("changed", "result", "said"),
    [
        ({}, "ok", ""),
        ({"noisy": 1.0}, "ok", ""),
        ({"percentiles": LEVELS | {"p99": 240_000.0}}, "ok", ""),
        ({"percentiles": LEVELS | {"p99": 900_000.0}}, "over", "p99 900 ms, limit 250 ms"),
        ({"percentiles": LEVELS | {"p99": 900_000.0}, "noisy": 0.9}, "void", "HOST_NOISE"),
        ({"percentiles": LEVELS | {"p99": 900_000.0}, "floor": LEVELS | {"p99": 2e5}},
         "void", "KIT_FLOOR"),
        # Of two that are over, the one that can be judged decides.
        ({"percentiles": LEVELS | {"p50": 60_000.0, "p99": 900_000.0},
          "floor": LEVELS | {"p50": 26_000.0}}, "over", "p99 900 ms, limit 250 ms"),
        ({"achieved": 0.9, "percentiles": {}}, "over", "90.0% of the rate was done"),
        ({"achieved": 0.9, "percentiles": {}, "floor": {}}, "void", "KIT_FLOOR"),
        ({"late": LEVELS | {"p99": 1e6}}, "void", "GENERATOR_LATE"),
        ({"host_changed": ["governor"]}, "void", "HOST_CHANGED"),
        ({"wrong": "lost: expected 1"}, "broken", "lost: expected 1"),
        ({"ended": "engine-failure", "wrong": "EXITED: it ended"}, "broken", "EXITED: it ended"),
        ({"ended": "kit-error", "wrong": "disk"}, "void", "disk"),
    ],
)  # fmt: skip
def test_what_a_step_of_a_search_shows(changed, result, said):
    tried = search_session.attempt_of(profiles.load("ci"), figures(**changed))
    assert (tried.result, tried.why) == (result, said)
    near = changed.get("percentiles", {}).get("p99") == 240_000.0
    assert tried.near is near


def test_a_search_says_rate_and_steps(tickproof, monkeypatch):
    def play(_self, profile, _cores, number, *_):
        slow = LEVELS if profile.load.rate <= 30_000 else LEVELS | {"p99": 9e5, "p99.9": 9e5}
        return figures(number, percentiles=slow, quiet_percentiles=slow)

    monkeypatch.setattr(rounds.Rounds, "timed", play)
    status, out, _ = tickproof(
        "latency", "miniature", "--profile", "ci", "--search", "--seed", 3, "--out", "out"
    )
    assert status == 0
    assert "30,000 records a second; not 32,000" in " ".join(out.split())
    assert "--seed 3 --search\n" in out
    (path,) = Path("out").glob("*seed3/search.json")
    found = json.loads(path.read_text())["found"]
    assert (found["kind"], found["rate"], found["below"]) == ("found", 30_000, 32_000)
    assert {step["rate"] for step in found["steps"]} >= {2_000, 30_000, 32_000}


def test_a_slower_rate_is_played_for_longer_where_a_percentile_needs_it():
    data = profiles.load("ci").to_json()
    load = {"app": "passthrough", "params": {}, "rate": 20_000, "duration_s": 2.0}
    kept = {k: v for k, v in data["load"].items() if k not in ("probes_per_s", *load)}
    profile = profiles.Profile.from_json(data | {"load": kept | load})
    assert search_session.at_rate(profile, 40_000).load.duration_s == 2.0
    slow = search_session.at_rate(profile, 1_000)
    assert slow.load.duration_s * slow.load.rate >= 2_995
    assert search_session.span(profile, None, None) == search_session.Span(2_000, 160_000, 1_000)


def test_milliseconds_have_three_figures_that_count():
    said = [latency_terminal.milliseconds(us) for us in (0.0, 0.5, 81.24, 1_000, 12_345, 1_234_567)]
    assert said == ["0", "0.000500", "0.0812", "1.00", "12.3", "1,235"]
    assert (
        latency_terminal.milliseconds(None) == "-"
        and latency_terminal.milliseconds(float("inf")) == "never"
    )


def test_a_status_line_says_what_and_how_long(capsys):
    with latency_terminal.Status(Console(force_terminal=False)) as status:
        status("run 1 of 5", 8.0)
        status("run 1 of 5: judging", 0)
    assert capsys.readouterr().out == "run 1 of 5, 8 s\nrun 1 of 5: judging\n"


def test_answers_of_a_search_are_words_where_there_is_no_number():
    step = rate_search.Step(1_000, "over", "p99 2 s, limit 1 s", ())
    rates = search_session.Span(1_000, 8_000, 1_000)
    kinds: list[rate_search.Kind] = ["not-even-at-low", "still-at-high", "void", "broken", "found"]
    said = [
        search_session.answer(rate_search.SearchResult(kind, 1_000, 2_000, (step,)), rates)
        for kind in kinds
    ]
    assert said[0].startswith("not even at 1,000")
    assert "still holds at 8,000" in said[1]
    assert said[2].startswith("no answer") and said[3].startswith("no answer")
    assert said[4] == "1,000 records a second; not 2,000"


def test_figures_come_from_the_folder_of_the_round(tmp_path):
    with pytest.raises(HistoryError, match=r"run-1/run\.json: not found"):
        measurement.figures(tmp_path, 1, profiles.load("ci"))


def test_a_percentile_without_its_samples_is_shown_only_where_it_has_a_limit(tickproof, played):
    def shown(samples: int) -> set[str]:
        played.extend(figures(number, samples=samples) for number in range(1, 6))
        _, out, _ = tickproof("latency", "miniature", "--profile", "ci", "--out", "out")
        return {line.split()[0] for line in out.splitlines() if line.startswith(("  p", "  max"))}

    assert shown(29_956) == {*LEVELS}
    assert shown(29_955) == {*LEVELS} - {"p99.99"}
    assert shown(2_000) == {*LEVELS} - {"p99.99"}  # p99.9 has a limit: unknown, and it says why


def test_what_was_played_stays_when_a_later_round_breaks_the_kit(tickproof, played, tmp_path):
    played.extend(figures(number) for number in range(1, 4))  # then there is none to be given
    status, out, err = tickproof("latency", "miniature", "--profile", "ci", "--out", "out")
    assert status == 4 and "kit-error" in err and "pass" not in out
    (path,) = Path("out").glob("*/latency.json")
    found = json.loads(path.read_text())
    assert [run["number"] for run in found["runs"]] == [1, 2, 3]
    assert found["decision"]["verdict"] == "unknown"
    assert [one["code"] for one in found["decision"]["reasons"]] == ["TOO_FEW_RUNS"]
    status, _, err = tickproof("report", str(path.parent), "-o", "run.svg")
    assert status == 2 and "a session of latency has no picture of one run" in err
    assert not Path("run.svg").exists()
