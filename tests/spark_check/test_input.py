"""Input written by the tasks of Spark is the input that one process writes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time

import psutil
import pytest
from click.testing import CliRunner

from tests.long import LONG
from tickproof.conformance import spark_check
from tickproof.conformance.cli.main import cli
from tickproof.conformance.spark_check import input
from tickproof.conformance.spark_check import spark as starting
from tickproof.generators.recipes import build

MARKET = {"kind": "market", "seed": 5, "records": 60_000, "symbols": 50, "reject_one_in": 9}
RECIPES = {
    "payloads": {"kind": "payloads", "seed": 1, "records": 6000, "size": 90, "partitions": 3},
    "numbers": {"kind": "numbers", "seed": 2, "records": 50_000},
    "keyed": {
        "kind": "keyed", "seed": 3, "records": 50_000, "keys": 90, "partitions": 6,
        "empty": [0], "ended_early": [2, 4], "skew": 0.5,
    },
    "market": MARKET | {"partitions": 4, "event_times": "limits", "probe_one_in": 70},
    "two": MARKET | {"inputs": "two", "partitions": 2, "crossed": True},
    "script": {"kind": "script", "rows": [["keyed", 7, -1], ["keyed", 8, 1]], "repeat": 20_000},
    "nothing": MARKET | {"records": 0, "partitions": 2},
}  # fmt: skip


#: For one command, on a machine that may be busy.
DEADLINE_S = 300


@pytest.fixture
def many_slices(monkeypatch):
    monkeypatch.setattr(input, "SLICE_BYTES", 300_000)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", RECIPES)
def test_the_files_are_those_of_one_process(spark, many_slices, tmp_path, name):
    seen = []
    input.write(spark, RECIPES[name], tmp_path / "spark", seen.append)
    built = build(RECIPES[name], tmp_path / "local")
    assert contents(tmp_path / "spark") == contents(tmp_path / "local")
    assert seen == sorted(seen) and seen[-1:] == [built.records][: built.records]
    assert len(list((tmp_path / "spark").iterdir())) == len(built.partitions)
    hashes = input.digests(spark, [part.path for part in built.partitions])
    assert hashes == [part.sha256 for part in built.partitions]


def test_a_recorded_market_is_read_by_each_worker(spark, many_slices, tmp_path):
    quotes = "".join(f"{2 * n},S{n % 40},1,2,1,1\n" for n in range(9000))
    orders = "".join(f"{2 * n + 1},S{n % 41},BUY,1.5,1\n" for n in range(9000))
    (tmp_path / "q.csv").write_text("ts_ns,symbol,bid,offer,bid_size,offer_size\n" + quotes)
    (tmp_path / "o.csv").write_text("ts_ns,symbol,side,price,qty\n" + orders)
    paths = {"quotes": str(tmp_path / "q.csv"), "orders": str(tmp_path / "o.csv")}
    recipe = {"kind": "market-csv", "partitions": 3, **paths}
    input.write(spark, recipe, tmp_path / "spark")
    build(recipe, tmp_path / "local")
    assert contents(tmp_path / "spark") == contents(tmp_path / "local")


def test_an_error_of_a_task_is_one_of_the_file(spark, tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        input.digests(spark, [tmp_path / "none"])
    assert error.value.filename == str(tmp_path / "none")


def test_a_folder_that_a_task_does_not_see_is_named(spark, many_slices, tmp_path, monkeypatch):
    @contextlib.contextmanager
    def elsewhere(paths):
        yield [tmp_path / "elsewhere" / path.name for path in paths]

    monkeypatch.setattr(input, "replacing_all", elsewhere)
    with pytest.raises(FileNotFoundError, match="folder that every machine of the cluster sees"):
        input.write(spark, RECIPES["numbers"], tmp_path / "spark")


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(RECIPES["keyed"]))
    return path


def generated(recipe, *words):
    return CliRunner().invoke(
        cli, ["generate", "partitions", str(recipe), *map(str, words)], terminal_width=500
    )


def test_the_command_writes_on_spark_what_it_writes_alone(recipe, spark, tmp_path, monkeypatch):
    asked = []

    def session(master):
        asked.append(master)
        return contextlib.nullcontext(spark)

    monkeypatch.setattr(starting, "session", session)
    alone = generated(recipe, "--out", tmp_path / "alone")
    assert (alone.exit_code, asked) == (0, [])
    done = generated(recipe, "--out", tmp_path / "spark", "--spark", "--master", "local[1]")
    assert (done.exit_code, asked) == (0, ["local[1]"])
    assert "50,000 records, 1,000,000 bytes" in done.output
    assert contents(tmp_path / "spark") == contents(tmp_path / "alone")


def test_wrong_usage_is_one_sentence(recipe, tmp_path, monkeypatch):
    out = tmp_path / "out"
    wrong = tmp_path / "wrong.json"
    monkeypatch.setattr(spark_check, "find_spec", lambda _name: None)
    cases = [
        (recipe, ("--spark",), "--spark: pyspark and pandas not found; pip install"),
        (recipe, ("--master", "local"), "--master: expected together with --spark"),
    ]
    for text, said in (
        ("[", "expected JSON: "),
        ("[" * 100_000, "expected JSON: nested too deep"),
        ("[1]", "expected a JSON object"),
        ('{"kind": "numbers", "seed": 1}', "recipe: missing key 'records'"),
        ('{"kind": "numbers", "seed": 1, "records": "many"}', "records: expected a whole"),
    ):
        wrong.write_text(text)
        done = generated(wrong, "--out", out)
        assert (done.exit_code, f"RECIPE {wrong}: " in done.output) == (2, True)
        assert said in done.output
    for file, words, said in cases:
        done = generated(file, "--out", out, *words)
        assert (done.exit_code, said in done.output) == (2, True), done.output
    assert not out.exists()
    out.mkdir()
    (out / "s0p0.log").write_bytes(b"mine")
    done = generated(recipe, "--out", out)
    assert done.exit_code == 2
    assert f"--out {out}: expected a new folder, or an empty one" in done.output
    assert contents(out) == {"s0p0.log": b"mine"}


@LONG
def test_the_death_of_an_executor_leaves_the_same_files(tmp_path):
    recipe = {"kind": "keyed", "seed": 3, "records": 20_000_000, "partitions": 5, "skew": 0.5}
    path, out = tmp_path / "recipe.json", tmp_path / "spark"
    path.write_text(json.dumps(recipe))
    command = ["generate", "partitions", path, "--out", out, "--spark"]
    master = ["--master", "local-cluster[2,1,1024]"]
    with subprocess.Popen([sys.executable, "-m", "tickproof", *command, *master]) as running:
        executor_once_it_writes(running, out).kill()
        assert list(out.glob("*.part"))  # it is not done yet
        assert running.wait(DEADLINE_S) == 0
    build(recipe, tmp_path / "local")
    assert contents(out) == contents(tmp_path / "local")


def executor_once_it_writes(running, out):
    """Return an executor when the first bytes are written; there is more to write."""
    deadline = time.monotonic() + DEADLINE_S
    executors = []
    while not (executors and any(part.stat().st_size for part in out.glob("*.part"))):
        assert running.poll() is None and time.monotonic() < deadline
        executors = executors or executors_below(running.pid)
        time.sleep(0.01)
    return executors[0]


def executors_below(pid):
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            if any(word.endswith("CoarseGrainedExecutorBackend") for word in process.cmdline()):
                found.append(process)
    return found
