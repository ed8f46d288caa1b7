"""`tickproof bench engines` on real engines: relations and presence, never times."""

from __future__ import annotations

import json
import shutil
from collections import namedtuple

import pytest

from tests.long import only_if_asked
from tickproof.conformance.session import playing

SMALL = ("--messages", 150_000, "--seconds", 3, "--pace", 15_000)


@pytest.fixture(scope="module")
def measured(session_type, tmp_path_factory):
    """Return the document of a bench of two engines, and the same from bench.json."""
    only_if_asked()
    sessions = session_type(tmp_path_factory.mktemp("bench"))
    done = sessions.tickproof(
        "bench",
        "engines",
        "miniature",
        "minimal",
        *SMALL,
        "--rounds",
        2,
        "--json",
        "--keep",
        "--out",
        "out",
    )
    sessions.close()  # with the runs kept, their ids tell whether a process is left
    assert done.status == 0, done.err
    assert len(sessions.runs()) == 2 * (3 + 2) + 2 * 2 + 2 * 2
    page = (sessions.folder / "out/report.html").read_text("utf-8")
    assert "records a second of market-spread" in page and "after a kill of engine" in page
    assert "2 against 2 runs are too few" in page
    return json.loads(done.out), json.loads((sessions.folder / "out/bench.json").read_text())


def rows(document, engine, key="apps"):
    (found,) = (one for one in document["engines"] if one["name"] == engine)
    return {row["target" if key == "kills" else "app"]: row for row in found[key]}


def test_the_document_says_what_was_done_and_where(measured):
    document, written = measured
    assert document == written
    assert {"cpu", "cpus", "python", "kit"} <= document["machine"].keys()
    plan = document["parameters"]
    assert (plan["messages"], plan["rounds"], plan["workers"], plan["seed"]) == (150_000, 2, [2], 1)
    assert plan["kills"] == ["worker", "engine"]


@pytest.mark.parametrize(
    ("engine", "app"),
    [("miniature", "passthrough"), ("miniature", "count"), ("miniature", "market-spread"),
     ("minimal", "passthrough"), ("minimal", "count")],
)  # fmt: skip
def test_every_app_that_is_offered_has_its_figures(measured, engine, app):
    row = rows(measured[0], engine)[app]
    assert (row["status"], row["why"], len(row["rounds"])) == ("measured", "", 2)
    assert len({one["seed"] for one in row["rounds"]}) == 2
    assert 0 < row["rate"]["min"] <= row["rate"]["median"] <= row["rate"]["max"]
    for one in row["rounds"]:
        window = one["window"]
        assert one["records"] == 150_000
        assert 0 < window["records"] <= 0.8 * one["records"]
        assert 0 < window["seconds"] <= one["whole_s"]
        assert window["progress"] == ("release" if engine == "miniature" else "fetch")
        assert one["rate"] == pytest.approx(window["records"] / window["seconds"])
        assert one["whole_rate"] == pytest.approx(one["records"] / one["whole_s"])
        assert one["cpu_s"] > 0
    base = rows(measured[0], engine)["passthrough"]["rate"]["median"]
    assert row["to_passthrough"] == pytest.approx(row["rate"]["median"] / base)


def test_outputs_are_those_of_the_apps(measured):
    passthrough = rows(measured[0], "minimal")["passthrough"]["rounds"][0]
    market = rows(measured[0], "miniature")["market-spread"]["rounds"][0]
    assert passthrough["outputs"] == passthrough["records"]
    assert market["outputs"] < market["records"] / 1000


def test_only_an_engine_with_checkpoints_has_state(measured):
    kept = rows(measured[0], "miniature")["count"]["rounds"][0]
    assert kept["state_files"] >= 1
    assert kept["state_bytes"]["end"] >= 10_000 * 16  # a key and a total each
    none = rows(measured[0], "minimal")["count"]["rounds"][0]
    assert (none["state_bytes"]["end"], none["state_files"]) == (0, 0)


def test_an_app_that_is_not_offered_is_not_measured(measured):
    row = rows(measured[0], "minimal")["market-spread"]
    assert (row["status"], row["rate"], row["rounds"]) == ("not-offered", None, [])


@pytest.mark.parametrize("engine", ["miniature", "minimal"])
def test_latency_is_that_of_a_paced_run_without_a_kill(measured, engine):
    (row,) = rows(measured[0], engine, "latency").values()
    assert (row["status"], row["app"], row["params"]) == ("measured", "count", {"emit": "every"})
    for one in row["rounds"]:
        assert one["answers"] == 0.8 * 45_000
        assert 0 < one["p50"] <= one["p99"] <= one["max"]


@pytest.mark.parametrize("target", ["worker", "engine"])
def test_deaths_are_measured_where_they_are_claimed_to_be_survived(measured, target):
    row = rows(measured[0], "miniature", "kills")[target]
    assert (row["status"], row["app"], row["params"]) == ("measured", "count", {"emit": "every"})
    assert row["output_s"]["median"] > 0
    assert row["release_s"]["median"] > 0
    assert 0.3 < row["rounds"][0]["killed_at"] / 45_000 < 0.8
    row = rows(measured[0], "minimal", "kills")[target]
    assert (row["status"], row["output_s"]) == ("not-claimed", None)
    assert "no death" in row["why"]


def test_a_wrong_answer_gets_no_figure(tickproof, tmp_path):
    status, out, _ = tickproof(
        "bench",
        "engines",
        "minimal",
        "mutant:all-twice",
        *SMALL,
        "--app",
        "passthrough",
        "--kill",
        "none",
        "--no-latency",
        "--out",
        "out",
    )
    assert status == 1
    found = json.loads((tmp_path / "out/bench.json").read_text())
    row = rows(found, "miniature+all-twice")["passthrough"]
    assert (row["status"], row["rate"], row["rounds"]) == ("failed", None, [])
    assert row["why"].startswith("duplicate") or "repeats a payload" in row["why"]
    assert rows(found, "minimal")["passthrough"]["rate"]["median"] > 0
    text = " ".join(out.split())
    assert "miniature+all-twice, passthrough: failed:" in text
    assert row["run"] in text
    # The run that went wrong is kept, the others are not.
    kept = [path.parent for path in (tmp_path / "out").rglob("run.json")]
    assert [str(path.relative_to(tmp_path)) for path in kept] == [row["run"]]
    status, out, _ = tickproof("check", row["run"])
    assert status == 1 and "SL-PASSTHROUGH" in out


def test_what_is_kept_of_a_bench_can_be_judged_again(tickproof, tmp_path):
    apps = ("--app", "passthrough,double,count,market-spread")
    options = ("--kill", "worker,engine", "--keep", "--out", "out")
    status, out, _ = tickproof("bench", "engines", "miniature", *apps, *SMALL, *options)
    assert status == 0, out
    runs = [path.parent for path in (tmp_path / "out").rglob("run.json")]
    assert len(runs) == 4 + 1 + 2
    for run in runs:
        status, out, _ = tickproof("check", str(run))
        assert status == 0 and "1 pass" in out, (run, out)


def test_a_recovery_with_wrong_totals_gets_no_figure(tickproof, tmp_path):
    status, out, _ = tickproof(
        "bench",
        "engines",
        "mutant:worker-restarts-fresh",
        *SMALL,
        "--app",
        "passthrough",
        "--kill",
        "worker",
        "--no-latency",
        "--out",
        "out",
        "--json",
    )
    assert status == 1
    (engine,) = json.loads(out)["engines"]
    assert [row["status"] for row in engine["apps"]] == ["measured"]
    (row,) = engine["kills"]
    assert (row["status"], row["output_s"], row["release_s"]) == ("failed", None, None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["minimal", "--app", "passthrough,word-count"], "--app: expected some of passthrough"),
        (["minimal", "--kill", "coordinator"], "--kill: expected some of worker, engine, none"),
        (["minimal", "--app", "market-spread"], "expected an app that one of the engines offers"),
        (["minimal", "--messages", "0"], "--messages"),
        (["minimal", "--symbols", "99999999"], "symbols: expected a whole number 1 to"),
        (["minimal", "--keys", "350,0"], "--keys: expected keys from 1 to 4,294,967,296, as 350,"),
        (["minimal", "--workers", "1,x"], "--workers: expected workers from 1 to 1,024, as 1,2,4;"),
        (["nobody"], "no such engine"),
        ([], "ENGINE: expected"),
    ],
)
def test_wrong_usage_starts_nothing(tickproof, tmp_path, arguments, said):
    status, _, err = tickproof("bench", "engines", *arguments, "--out", "out")
    assert status == 2
    assert said in " ".join(err.replace("│", " ").split())
    assert not (tmp_path / "out" / "runs").exists()


@pytest.mark.parametrize("at", ["passthrough-2-0-1", "passthrough-2-0-0"])
def test_ctrl_c_reports_what_was_measured(tickproof, tmp_path, monkeypatch, at):
    play = playing.play

    def interrupted(scenario, spec, folder, **given):
        if folder.name == at and spec.name == "minimal":
            raise KeyboardInterrupt
        return play(scenario, spec, folder, **given)

    monkeypatch.setattr(playing, "play", interrupted)
    small = ("--messages", 2000, "--rounds", 2, "--app", "passthrough", "--kill", "none")
    status, out, err = tickproof("bench", "engines", "single", "minimal", *small, "--out", "out")
    assert status == 130
    last = err.splitlines()[-1]
    text = " ".join(out.split())
    if at.endswith("-0"):
        assert last == "tickproof: interrupted with Ctrl-C: 1 run reported in out"
        assert "single, passthrough: 1 of 2; single, latency: 0 of 2; minimal, pass" in text
        assert "single passthrough" in text
    else:
        assert last == "tickproof: interrupted with Ctrl-C: 3 runs reported in out"
        assert (
            "interrupted with Ctrl-C; rounds measured: single, latency: 0 of 2; "
            "minimal, passthrough: 1 of 2; minimal, latency: 0 of 2"
        ) in text
    # Each run was named when it began, as nothing is drawn here.
    assert "single: passthrough-2-0-0" in err
    found = json.loads((tmp_path / "out/bench.json").read_text())
    assert found["interrupted"] == "interrupted with Ctrl-C"
    assert "interrupted with Ctrl-C" in (tmp_path / "out/report.html").read_text("utf-8")
    status, out, _ = tickproof("compare", "out")
    assert status == 5
    assert "bench.json: interrupted with Ctrl-C; rounds measured" in out
    assert "p50 of latency" not in out


def test_ctrl_c_before_the_first_figure_leaves_the_earlier_bench(tickproof, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/bench.json").write_text("earlier")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(playing, "play", interrupted)
    status, _, err = tickproof("bench", "engines", "minimal", "--messages", 2000, "--out", "out")
    assert status == 130
    assert err.splitlines()[-1] == "tickproof: interrupted with Ctrl-C: nothing was measured"
    assert (tmp_path / "out/bench.json").read_text() == "earlier"


def test_an_input_that_the_disk_cannot_hold_is_refused(tickproof, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(2**30, 2**20, 2**30 - 2**20))
    status, _, err = tickproof("bench", "engines", "minimal")
    assert status == 2
    assert "--messages: input and output of one run take" in err
