from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.shell_completion import ShellComplete

from tickproof.conformance.cli import main
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.jobs.requirements import JB
from tickproof.conformance.report import json_report, machine
from tickproof.conformance.session import judging
from tickproof.conformance.session.request import Request
from tickproof.conformance.suites import registry
from tickproof.conformance.verdicts import Outcome, Reason, Verdict
from tickproof.generators.layouts import MESSAGE, NUMBER, framed

DEADLINE_S = 60


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (Verdict.PASS, 0),
        (Verdict.FAIL, 1),
        (Verdict.GAP_FIXED, 1),
        (Verdict.UNKNOWN, 3),
        (Verdict.BLOCKED, 1),
        (Verdict.KIT_ERROR, 4),
        (Verdict.NOT_CLAIMED, 5),
    ],
)
def test_the_exit_status_is_that_of_the_verdicts(tickproof, engine, session, verdict, status):
    session.answers["toy"] = verdict
    code, out, _ = tickproof("run", engine(), "--only", "PR-HELLO", "--seed", 7)

    assert code == status
    report = json_report.Report.read(Path("tickproof-out/toy/report.json"))
    assert (report.exit_status, report.seed) == (status, 7)
    assert Path("tickproof-out/toy/junit.xml").is_file()
    assert f"exit status {status}" in out
    assert "tickproof-out/toy/report.html" in out


def test_options_reach_the_session(tickproof, engine, session, tmp_path):
    (tmp_path / "q.csv").write_text(
        "ts_ns,symbol,bid,offer,bid_size,offer_size\n1,ABC,10.0,10.1,1,1\n"
    )
    (tmp_path / "o.csv").write_text("ts_ns,symbol,side,price,qty\n2,ABC,BUY,10,1\n")
    toml = engine()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]  # free again below
    tickproof(
        "run",
        "--engine",
        toml,
        "--profile",
        "full",
        "--tier",
        0,
        "--tier",
        1,
        "-n",
        1,
        "--only",
        "pr-hello,PR-STOP",
        "--only",
        "ST-TOTALS",
        "--seed",
        5,
        "--out",
        "o",
        "--port",
        port,
        "--quotes",
        "q.csv",
        "--orders",
        "o.csv",
        "--strict",
    )

    (request,) = session.requests
    assert session.engines == [toml]
    assert Request.from_json(request.to_json()) == request
    assert (request.profile, request.tiers, request.workers) == ("full", (0, 1), 1)
    assert request.only == ("PR-HELLO", "PR-STOP", "ST-TOTALS")
    assert (request.seed, request.port, request.strict) == (5, port, True)
    assert (request.quotes, request.orders) == (Path("q.csv"), Path("o.csv"))
    assert session.folders == [Path("o/toy")]


def test_as_many_runs_at_a_time_as_suit_the_engine(tickproof, engine, session, monkeypatch):
    monkeypatch.setattr(machine, "usable_cpus", lambda: 4)
    monkeypatch.setattr(machine, "memory_bytes", lambda: 1 << 40)
    light, heavy, only = engine("light"), engine("heavy"), ("--only", "PR-HELLO")
    text = heavy.read_text().replace("[claims]", "runs_per_processor = 1\n[claims]")
    heavy.write_text(text)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for given in ([], ["-n", 5], ["--port", port]):
        tickproof("run", light, heavy, *only, *given)
    assert [request.workers for request in session.requests] == [12, 4, 5, 5, 1, 1]


def test_a_secret_is_drawn_and_not_printed(tickproof, engine, session):
    for given in ((), (), ("--secret", "C0FFEE")):
        _, out, _ = tickproof("run", engine(), "--only", "PR-HELLO", "--seed", 7, *given)
        assert session.requests[-1].secret not in out
    first, second, given = (request.secret for request in session.requests)
    assert given == "c0ffee"
    assert first != second and len(first) == len(second) == 32


def test_a_random_seed_is_printed(tickproof, engine, session):
    _, out, _ = tickproof("run", engine(), "--only", "PR-HELLO")

    assert f"seed {session.requests[0].seed}," in out


def test_a_requirement_that_nobody_decided_is_a_kit_error(tickproof, engine, session):
    code, out, _ = tickproof("run", engine(), "--tier", 0)

    assert code == 4
    assert "NO_OUTCOME" in out


def test_several_engines_are_compared_and_the_worst_counts(tickproof, engine, session):
    session.answers["bad"] = Verdict.FAIL
    code, out, _ = tickproof("run", engine("good"), engine("bad"), "--only", "PR-HELLO")

    assert code == 1
    assert "Comparison" in out
    assert json_report.Report.read(Path("tickproof-out/good/report.json")).exit_status == 0


def test_an_engine_that_claims_nothing_is_not_hidden_by_another(tickproof, engine, session):
    session.answers["empty"] = Verdict.NOT_CLAIMED

    assert tickproof("run", engine("good"), engine("empty"), "--only", "PR-HELLO")[0] == 5


def test_folders_follow_names_and_never_collide_or_escape(tickproof, engine, session):
    tickproof("run", engine("toy"), engine("toy"), engine("../../x"), "--only", "PR-HELLO")

    out = Path("tickproof-out")
    assert session.folders == [out / "toy", out / "toy-2", out / "x"]


def test_engines_of_one_name_keep_folders_of_their_own_over_sessions(tickproof, engine, session):
    one, other = engine("toy"), engine("toy")
    for toml in (one, other, one, other):
        tickproof("run", toml, "--only", "PR-HELLO")
    one.unlink()
    tickproof("run", engine("toy"), "--only", "PR-HELLO")

    out = Path("tickproof-out")
    first, second = out / "toy", out / "toy-2"
    assert session.folders == [first, second, first, second, first]
    assert (second / "engine-path.txt").read_text() == f"{other}\n"


def test_an_exception_is_a_kit_error_with_its_traceback_kept(tickproof, engine, session):
    session.answers["toy"] = ZeroDivisionError("boom")
    toml = engine()
    old = Path("tickproof-out/toy/report.json")
    old.parent.mkdir(parents=True)
    old.write_text("an old report")
    code, out, _ = tickproof("run", toml, engine("other"), "--only", "PR-HELLO")

    assert code == 4
    assert "kit-error: the kit itself broke (ZeroDivisionError: boom)" in out
    assert "traceback: tickproof-out/toy/kit-error.txt" in out
    assert "ZeroDivisionError: boom" in Path("tickproof-out/toy/kit-error.txt").read_text()
    assert old.read_text() == "an old report"  # nothing was judged that could replace it
    assert Path("tickproof-out/other/report.json").exists()


def test_the_command_of_a_report_has_the_secret(tickproof, engine, session):
    tickproof("run", engine(), "--only", "PR-HELLO", "--secret", "c0ffee")
    report = json_report.Report.read(Path("tickproof-out/toy/report.json"))
    assert report.selection.secret == session.requests[0].secret == "c0ffee"
    assert "--secret c0ffee" in Path("tickproof-out/toy/report.html").read_text()


def test_ctrl_c_is_one_clear_line_and_130(tickproof, engine, session):
    session.answers["toy"] = KeyboardInterrupt()
    code, _, err = tickproof("run", engine(), "--only", "PR-HELLO")

    assert code == 130
    (session_folder,) = Path("tickproof-out/toy/runs").iterdir()
    assert err.strip() == (
        f"tickproof: interrupted with Ctrl-C: 0 of 1 requirements judged, runs in {session_folder}"
    )
    report = json_report.Report.read(Path("tickproof-out/toy/report.json"))
    assert (report.exit_status, report.interrupted.judged) == (130, 0)


def test_an_interrupt_before_anything_was_judged_leaves_the_earlier_report(
    tickproof, engine, session
):
    toml = engine()
    tickproof("run", toml, "--only", "PR-HELLO")
    names = ("report.json", "junit.xml", "report.html", "badge.svg")
    files = {path: path.read_bytes() for path in map(Path("tickproof-out/toy").joinpath, names)}
    session.answers["toy"] = KeyboardInterrupt()
    code, _, _ = tickproof("run", toml, "--only", "PR-HELLO")
    assert code == 130
    assert files == {path: path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "ENGINE: expected a path to an engine.toml, or one of: "),
        (("ENGINE", "--only", "PR-HELO"), "no requirement PR-HELO; the nearest are PR-HELLO"),
        (("ENGINE", "--tier", "9"), "--tier: there are tiers 0, 1, 2, 3, 4, 5, and no 9"),
        (("ENGINE", "--tier", "0", "--only", "EO-TAIL"), "no requirement is in both"),
        (("ENGINE", "--quotes", "f"), "--quotes and --orders: expected both or none"),
        (("ENGINE", "--port", "4000", "-n", "2"), "--port: expected -n 1"),
        (("ENGINE", "--strict"), "--strict: expected together with --quotes"),
        (("ENGINE", "--profile", "slow"), "'slow' is not one of 'quick', 'full'"),
        (("ENGINE", "--seed", "x"), "'x' is not a valid integer"),
        (("ENGINE", "--secret", "x"), "expected 1 to 32 hexadecimal digits, got 'x'"),
        (("nothing-of-that-name",), "nothing-of-that-name"),
        (("f",), "f"),
    ],
)
def test_wrong_usage_is_2_and_starts_nothing(tickproof, engine, session, arguments, said):
    path = engine()
    Path("f").write_text("= no toml")
    given = [path if argument == "ENGINE" else argument for argument in arguments]
    code, _, err = tickproof("run", *given)

    assert code == 2
    assert said in err
    assert not session.requests
    assert not Path("tickproof-out").exists()


def test_a_port_that_is_taken_is_wrong_usage(tickproof, engine, session):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = tickproof("run", engine(), "--port", port)

    assert code == 2
    assert f"--port: expected a free port, got {port}: " in err
    assert not session.requests


def test_all_wrong_engine_tomls_are_named_before_anything_starts(tickproof, engine, session):
    one, two = engine(), engine()
    one.write_text(one.read_text().replace('state = "none"', 'state = "some"'))
    two.write_text(two.read_text().replace("{python}", "no-such-program"))
    code, _, err = tickproof("run", engine(), one, two)

    assert code == 2
    assert str(one) in err
    assert "state" in err
    assert "no-such-program" in err
    assert not session.requests


def test_requirements_as_json_are_those_of_the_registry(tickproof):
    code, out, _ = tickproof("requirements", "--family", "ms", "--json")

    assert code == 0
    expected = [id_ for id_, known in registry.load().items() if known.family == "MS"]
    assert [entry["id"] for entry in json.loads(out)] == expected


def test_requirements_as_a_table(tickproof):
    _, out, _ = tickproof("requirements", "--tier", 2)

    rows = [line.split()[:3] for line in out.splitlines()]
    assert ["MS-MERGED", "T2", "must"] in rows
    assert not any(row[:1] == ["PR-HELLO"] for row in rows)


def test_an_unknown_family_is_wrong_usage(tickproof):
    code, _, err = tickproof("requirements", "--family", "XX")

    assert code == 2
    assert "expected one of PR, SL" in err


def test_engines_lists_what_comes_with_the_kit(tickproof):
    code, out, _ = tickproof("engines")

    assert code == 0
    assert "miniature" in out


def test_engines_as_json_have_what_an_engine_toml_says(tickproof):
    _, out, _ = tickproof("engines", "--json")

    (found,) = [one for one in json.loads(out) if one["name"] == "kafka-streams"]
    assert found["transports"] == ["kafka"]
    assert Path(found["toml"]).is_file()


def test_tables_are_not_folded_into_a_pipe(tickproof, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    _, engines, _ = tickproof("engines")
    _, requirements, _ = tickproof("requirements")

    assert all(line.rstrip().endswith("/engine.toml") for line in engines.splitlines()[1:])
    assert len(requirements.splitlines()) == 1 + len(registry.load())


def test_a_requirement_is_explained(tickproof):
    code, out, _ = tickproof("requirements", "eo-tail")

    one = registry.load()["EO-TAIL"]
    assert code == 0
    said = " ".join(out.split())
    for text in (one.title, *one.clauses, *(entry.name for entry in one.judges)):
        assert text in said
    assert "tickproof run ENGINE --only EO-TAIL\n" in out
    _, out, _ = tickproof("requirements", "EO-TAIL", "--json")
    assert json.loads(out)["scenarios"].keys() == {entry.name for entry in one.judges}


def test_requirements_of_own_jobs_are_listed_and_explained(tickproof):
    _, out, _ = tickproof("requirements", "--family", "jb")
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(JB)
    _, out, _ = tickproof("requirements", "jb-cut")
    assert JB["JB-CUT"].title in " ".join(out.split())
    assert "tickproof run job.toml --only JB-CUT\n" in out
    assert "regressions/" not in out
    _, out, _ = tickproof("requirements", "JB-SCHEDULE")
    assert "schedules in regressions/ beside job.toml" in out


def test_reason_codes_are_explained(tickproof):
    code, out, _ = tickproof("reasons")
    assert code == 0
    assert all(f"{one}  " in out for one in Reason)
    _, out, _ = tickproof("reasons", "KILL_MISSED")
    assert " ".join(out.split()).startswith(f"KILL_MISSED {Reason.KILL_MISSED.meaning} Often:")
    code, _, err = tickproof("reasons", "KILL_MIST")
    assert code == 2 and "the nearest are KILL_MISSED" in err


def test_every_requirement_can_be_explained(tickproof):
    for id_ in (*registry.load(), *JB):
        assert tickproof("requirements", id_)[0] == 0


@pytest.mark.parametrize(
    ("given", "near"),
    [
        (("requirements", "EO-TALE"), "the nearest are EO-TAIL"),
        (("requirements", "EO-TAIL", "--tier", 3), "--tier: expected without ID"),
        (("run", "miniatur"), "did you mean miniature?"),
        (("run", "miniature", "--onyl", "EO-TAIL"), "Did you mean '--only'?"),
        (("latency", "miniature", "--profile", "stedy"), "did you mean steady?"),
    ],
)
def test_a_wrong_name_gets_the_nearest_right_one(tickproof, given, near):
    code, _, err = tickproof(*given)

    assert code == 2
    assert near in err


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["run", "minia"], ["miniature"]),
        (["run", "miniature", "--only", "PR-HELLO,EO-TA"], ["PR-HELLO,EO-TAIL"]),
        (["requirements", "eo-ta"], ["EO-TAIL"]),
        (["latency", "miniature", "--profile", "stea"], ["steady"]),
        (["check", ""], ["tickproof-out/toy/runs/20260101-120002-seed7-1/double"]),
    ],
)
def test_a_shell_completes_words(typed, offered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "tickproof-out/toy/runs/20260101-120002-seed7-1/double"
    run.mkdir(parents=True)
    (run / "run.json").touch()
    complete = ShellComplete(main.cli, {}, "tickproof", "_TICKPROOF_COMPLETE")

    assert [one.value for one in complete.get_completions(typed[:-1], typed[-1])] == offered


def test_check_wants_a_run_folder(tickproof, tmp_path):
    code, _, err = tickproof("check", tmp_path)

    assert code == 2
    assert "expected a run folder" in err


def test_a_run_that_gave_way_is_told_where_to_find_others(tickproof, tmp_path):
    runs = tmp_path / "miniature" / "runs"
    (runs / "20260101-120002-seed7-1" / "double").mkdir(parents=True)
    for command in ("check", "explain", "replay", "pack"):
        code, _, err = tickproof(command, runs / "20260101-120000-seed5-2" / "count")
        said = " ".join(err.split())
        assert code == 2
        assert "these are: 20260101-120002-seed7-1. `tickproof run ENGINE --seed 5` plays" in said
    assert "played double" in tickproof("check", runs / "20260101-120002-seed7-1" / "count")[2]
    assert tickproof("check", tmp_path / "none")[2].endswith("none does not exist\n")


def test_check_of_a_broken_run_folder_is_wrong_usage(tickproof, tmp_path, monkeypatch):
    def recheck(_folder):
        raise HistoryError("run.json: not JSON")

    (tmp_path / "run.json").write_text("{")
    monkeypatch.setattr(judging, "recheck", recheck)
    code, _, err = tickproof("check", tmp_path)

    assert code == 2
    assert "RUN: run.json: not JSON" in err


def test_check_judges_from_disk(tickproof, tmp_path, monkeypatch):
    (tmp_path / "run.json").write_text("{}")
    outcome = Outcome("EO-TAIL", Verdict.FAIL, expected="all", actual="less", reason="lost")
    monkeypatch.setattr(judging, "recheck", lambda _folder: [outcome])
    code, out, _ = tickproof("check", tmp_path)

    assert code == 1
    assert "EO-TAIL" in out
    assert "less" in out


def test_version_names_kit(tickproof):
    code, out, _ = tickproof("--version")

    assert code == 0
    assert out.startswith("tickproof 0.1.0")


@pytest.mark.parametrize("kind", ["quotes", "orders", "market"])
def test_generate_market_files(tickproof, kind):
    code, out, _ = tickproof(
        "generate", kind, "--out", "m.log", "--count", 1000, "--symbols", 10, "--seed", 3
    )

    assert code == 0
    records = np.fromfile("m.log", framed(MESSAGE))
    kinds = {"quotes": {2}, "orders": {1}, "market": {1, 2}}[kind]
    assert set(records["payload"]["kind"].tolist()) == kinds
    assert len(records) == 1000
    assert len(json.loads(Path("universe.json").read_text())["symbols"]) == 10
    assert "1,000 records, 56,000 bytes" in out


def test_generate_is_repeatable(tickproof):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        tickproof("generate", "market", "--out", name, "--messages", 500, "--seed", seed)

    a, b, c = (Path(name).read_bytes() for name in "abc")
    assert a == b != c


def test_generate_numbers(tickproof):
    tickproof("generate", "numbers", "--out", "n.log", "--count", 100)
    values = np.fromfile("n.log", framed(NUMBER))["payload"]["x"]
    assert len(np.unique(values)) == 100

    code, _, _ = tickproof("generate", "numbers", "--out", "k.log", "--app", "count", "--keys", 5)
    assert code == 0


def test_generate_from_csv(tickproof):
    Path("q.csv").write_text(
        "ts_ns,symbol,bid,offer,bid_size,offer_size\n1,AVERYLONGNAME,1,2,1,1\n"
    )
    Path("o.csv").write_text("ts_ns,symbol,side,price,qty\n2,AVERYLONGNAME,BUY,1.5,1\n")
    code, out, _ = tickproof("generate", "market", "--out", "m", "--from-csv", "q.csv", "o.csv")

    assert code == 0
    assert np.fromfile("m", framed(MESSAGE))["payload"]["kind"].tolist() == [2, 1]
    assert "symbol AVERYLONGNAME is " in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("market", "--symbols", 0), "symbols: expected a whole number 1 to 3000, got 0"),
        (("market", "--strict"), "--strict: expected together with --from-csv"),
        (("numbers", "--keys", 5), "--keys: expected only with --app count"),
        (("market", "--from-csv", "bad", "bad", "--seed", 1), "--seed: not together with --from"),
        (("market", "--from-csv", "bad", "bad"), "bad"),
        (("numbers", "--from-csv", "bad"), "bad"),
    ],
)
def test_wrong_generate_usage_is_2_and_leaves_no_file(tickproof, arguments, said):
    Path("bad").write_text("no,columns\n1,2\n")
    code, _, err = tickproof("generate", *arguments, "--out", "x.log")

    assert code == 2
    assert said in err
    assert not list(Path.cwd().glob("x.log*"))


def test_an_unwritable_output_is_wrong_usage(tickproof):
    Path("file").write_text("")
    code, _, err = tickproof("generate", "numbers", "--out", "file/x")

    assert code == 2
    assert "--out file/x: Not a directory" in err


def test_the_folder_of_an_output_is_made(tickproof):
    assert tickproof("generate", "numbers", "--out", "no/such/x", "--messages", 10)[0] == 0
    assert Path("no/such/x").is_file()


def test_output_into_a_pipe_has_no_control_characters(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tickproof.conformance.cli.main", "requirements"],
        capture_output=True,
        timeout=DEADLINE_S,
        cwd=Path(main.__file__).parents[3],
    )

    assert done.returncode == 0
    assert not any(byte < 32 and byte != 10 for byte in done.stdout)


def test_what_is_required_has_an_exit_status_of_its_own(tickproof, engine, session):
    code, out, _ = tickproof("run", engine(), "--only", "PR-HELLO", "--require", "pr-hello,t3")
    assert code == 5
    assert "required, and not judged: " in out
    assert tickproof("run", engine(), "--only", "PR-HELLO", "--require", "PR-HELLO")[0] == 0


@pytest.mark.parametrize("given", ["9092", ":9092", "here:", "here:0", "here:70000", "a b:9092"])
def test_a_cluster_has_host_and_port(tickproof, engine, given):
    code, _, err = tickproof("run", engine(), "--kafka", given)
    assert code == 2
    assert f"--kafka: expected HOST:PORT, as localhost:9092; got {given}" in err


def test_an_engine_over_the_log_needs_no_cluster(tickproof, engine):
    code, _, err = tickproof("run", engine(), "--kafka", "localhost:9092")
    assert code == 2
    assert '--kafka: expected an engine whose transports are ["kafka"]' in err


def test_a_requirement_that_nobody_has_cannot_be_required(tickproof, engine):
    code, _, err = tickproof("run", engine(), "--require", "t6")
    assert code == 2
    assert "--require: no requirement or tier t6" in err
