"""Nothing selected, judged, compared or measured is ever green, whichever command is asked."""

from __future__ import annotations

import json
from contextlib import nullcontext

import click
import pytest

from tickproof.conformance.cli.main import cli
from tickproof.conformance.session import judging, pack
from tickproof.conformance.verdicts import Outcome, Verdict


@pytest.mark.parametrize("given", ["", ",", "PR-HELLO,", "PR-HELLO,,ST-TOTALS", " "])
@pytest.mark.parametrize(
    "command",
    [
        ("run", "minimal", "--only"), ("run", "minimal", "--require"), ("run", "minimal", "--tier"),
        ("survey", "minimal", "--only"), ("survey", "minimal", "--tier"), ("selftest", "--only"),
        ("mutate", "minimal", "--only"), ("mutate", "minimal", "--match"),
        ("bench", "engines", "minimal", "--app"), ("bench", "engines", "minimal", "--kill"),
        ("requirements", "--tier"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_list_with_nothing_in_it_is_wrong_usage(tickproof, session, command, given):
    status, out, err = tickproof(*command, given)
    assert status == 2
    assert f"{command[-1]}: expected " in " ".join(err.split())
    assert not session.requests
    assert out == ""


def test_one_empty_list_beside_a_full_one_is_wrong_usage(tickproof, session):
    status, _, err = tickproof("run", "minimal", "--only", "PR-HELLO", "--only", "")
    assert status == 2
    assert "--only: expected names between commas; got 'PR-HELLO' ''" in err
    assert not session.requests


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "minimal", "--only", "PR-HELO"), "--only: no requirement PR-HELO; the nearest"),
        (("run", "minimal", "--only", "PR-HELLO", "--tier", "3"), "no requirement is in both"),
        (("run", "minimal", "--require", "t9"), "--require: no requirement or tier t9"),
        (("run",), "ENGINE: expected"),
        (("survey", "minimal", "--seeds", "0"), "--seeds"),
        (("survey",), "ENGINE: expected"),
        (("selftest", "--only", "no-such"), "no mutant, sound variant or sound engine no-such"),
        (("latency", "minimal", "--profile", "ci", "--runs", "0"), "--runs"),
        (("bench", "engines"), "ENGINE: expected"),
        (("bench", "engines", "minimal", "--rounds", "0"), "--rounds"),
        (("bench", "engines", "minimal", "--seconds", "0"), "--seconds"),
        (("bench", "engines", "minimal", "--app", "market-spread"), "that one of the engines"),
        (("ladder", "single"), "and its steps in engine.toml, as miniature, spark"),
        (("explore", "minimal"), "expected an app with state exactly-once"),
        (("explore", "miniature", "--budget", "0s"), "--budget"),
        (("replay", ".", "--times", "0"), "--times"),
        (("requirements", "--family", "EO", "--tier", "2"), "no requirement is in both"),
        (("requirements", "--tier", "9"), "no requirement is in both"),
        (("requirements", "--family", ""), "--family: expected one of"),
        (("compare", "."), "expected a folder with one of report.json"),
        (("coverage", "."), "expected points of the fault space, or a run"),
        (("report", "."), "expected a report.json"),
        (("check", "."), "holds no run.json"),
        (("check", "/dev/zero"), "expected a run folder or a pack, a regular file"),
        (("explain", "."), "holds no run.json"),
        (("pack", "."), "holds no run.json"),
        (("replay", "."), "holds no run.json"),
        (("latency", "--again", "."), "latency.json: No such file"),
        (("log", ".", "--output", "8"), "expected partition files"),
        (("runs", "list", "nowhere"), "nowhere: expected a folder"),
        (("runs", "prune", "nowhere", "--older", "1d"), "nowhere: expected a folder"),
        (("generate", "market", "--out", "x", "--from-csv", "empty.csv", "empty.csv"), "empty"),
        (("generate", "numbers", "--out", "x", "--app", "count", "--from-csv", "empty.csv"),
         "empty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_an_empty_selection_or_input_is_named_before_anything_starts(
    tickproof, tmp_path, arguments, said
):
    (tmp_path / "empty.csv").touch()
    status, _, err = tickproof(*arguments)
    assert status == 2
    assert said in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize("more", [(), ("--search",), ("--json",)], ids=" ".join)
def test_latency_of_an_engine_that_does_not_claim_the_app_judges_nothing(tickproof, engine, more):
    status, out, _ = tickproof("latency", engine(), "--profile", "ci", *more)
    assert status == 5
    if "--json" in more:
        assert json.loads(out)["decision"]["verdict"] == "not-claimed"
    else:
        assert "nothing was played, and nothing judged" in " ".join(out.split())


def test_a_bench_of_an_engine_that_offers_nothing_of_it_is_not_green(tickproof, engine):
    """The other engine is measured; the row of this one is empty."""
    status, out, err = tickproof(
        "bench",
        "engines",
        engine("empty"),
        "minimal",
        "--app",
        "double",
        "--messages",
        20_000,
        "--no-latency",
        "--kill",
        "none",
    )
    assert status == 5, out + err
    assert "empty: nothing was measured: it offers or claims none of it; exit status 5" in err
    assert "minimal: nothing" not in err


def test_a_recorded_run_of_which_nothing_is_claimed_is_not_green(tickproof, monkeypatch, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    monkeypatch.setattr(pack, "opened_run", nullcontext)
    for outcomes in ([], [Outcome("EO-PAUSE", Verdict.NOT_CLAIMED)]):
        monkeypatch.setattr(judging, "recheck", lambda _folder, found=outcomes: found)
        status, out, _ = tickproof("check", "run")
        assert status == 5
        assert "Nothing was judged" in out


@pytest.mark.parametrize(
    ("verdict", "arguments", "status", "word"),
    [
        (Verdict.PASS, (), 0, "pass"),
        (Verdict.PASS, ("--require", "ST-TOTALS"), 5, "not judged"),
        (Verdict.KNOWN_GAP, (), 0, "known-gap"),
        (Verdict.KNOWN_GAP, ("--require", "PR-HELLO"), 1, "fail"),
        (Verdict.UNKNOWN, ("--require", "PR-HELLO"), 5, "not judged"),
        (Verdict.UNKNOWN, (), 3, "unknown"),
        (Verdict.NOT_CLAIMED, (), 5, "not judged"),
        (Verdict.FAIL, ("--require", "ST-TOTALS"), 1, "fail"),
    ],
)
def test_the_last_line_of_a_run_agrees_with_its_exit_status(
    tickproof, session, engine, tmp_path, verdict, arguments, status, word
):
    session.answers["toy"] = verdict
    found, out, _ = tickproof("run", engine(), "--only", "PR-HELLO", *arguments)
    assert found == status
    line = next(line for line in out.splitlines() if f"exit status {status}" in line)
    assert f" {word} " in line.partition("judged:")[0]
    report = json.loads((tmp_path / "tickproof-out" / "toy" / "report.json").read_text())
    assert report["exit_status"] == status
    badge = (tmp_path / "tickproof-out" / "toy" / "badge.svg").read_text()
    assert f"tickproof: {word}, " in badge
    page = (tmp_path / "tickproof-out" / "toy" / "report.html").read_text()
    assert f"<title>toy 1: {word}</title>" in page
    if "ST-TOTALS" in arguments and status == 5:
        assert "required, and not judged: ST-TOTALS" in out
    if word == "fail" and verdict is Verdict.KNOWN_GAP:
        assert "required, and a known gap: PR-HELLO" in out


def test_no_option_that_takes_a_list_takes_an_empty_one():
    taking = [
        (name, option)
        for name, command in _commands(cli)
        for option in command.params
        if option.param_type_name == "option" and "..." in (option.metavar or "")
    ]
    assert len(taking) >= 10
    for name, option in taking:
        assert option.callback is not None, f"{name} {option.opts[0]}"
        with pytest.raises(click.UsageError):
            option.callback(click.Context(cli), option, ("",) if option.multiple else "")


def _commands(group, path=""):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command
