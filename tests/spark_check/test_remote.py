"""`tickproof check URI --spark`: runs read through the file systems of Hadoop."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark import cloudpickle

from tests.long import LONG
from tests.reference.hdfs import hdfs
from tests.spark_check.damage import damaged
from tests.suites import tampering as t
from tickproof.conformance import spark_check
from tickproof.conformance.cli.main import cli
from tickproof.conformance.session.judging import recheck
from tickproof.conformance.spark_check import history, remote
from tickproof.conformance.spark_check import spark as starting
from tickproof.conformance.verdicts import EXIT_FAIL, Verdict
from tickproof.generators.layouts import NUMBER, framed, in_frames

# Executors know the kit, not its tests: functions of this module travel whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.usefixtures("many_parts")
SCENARIOS = ["passthrough", "count-some", "market-merged-rejects", "market-two-verdicts"]


@pytest.fixture(autouse=True)
def on_the_spark_of_all_tests(spark, monkeypatch):
    monkeypatch.setattr(starting, "session", lambda _master: contextlib.nullcontext(spark))


@pytest.fixture
def copy_of(recorded, tmp_path):
    def copy(scenario):
        folder = tmp_path / "run"
        shutil.copytree(recorded.run(scenario), folder, copy_function=os.link)
        t.unsealed(folder)
        return folder

    return copy


@pytest.fixture
def mounted(spark, tmp_path):
    """Return the URI of a folder in a file system that only Spark's settings know."""
    link = "fs.viewfs.mounttable.runs.link./here"
    spark._jsc.hadoopConfiguration().set(link, tmp_path.as_uri())
    yield lambda folder: f"viewfs://runs/here/{folder.relative_to(tmp_path)}"
    spark._jsc.hadoopConfiguration().unset(link)


def judged(uri) -> list[dict]:
    with spark_check.fetched(uri, "") as (_, judge):
        return list(map(dict_of, judge()))


def dict_of(outcome) -> dict:
    return outcome.to_json() | {"seconds": 0, "run": ""}


@pytest.mark.parametrize(
    "scenario", [pytest.param(one, marks=[LONG] * (one not in SCENARIOS[1:3])) for one in SCENARIOS]
)
def test_a_run_by_its_uri_is_judged_as_by_its_path(copy_of, scenario):
    folder = copy_of(scenario)
    t.sealed(folder)
    assert judged(folder.as_uri()) == list(map(dict_of, recheck(folder)))


@pytest.mark.parametrize(
    "scenario", [SCENARIOS[0], *(pytest.param(s, marks=LONG) for s in SCENARIOS[1:])]
)
def test_damage_shows_by_the_uri_too(copy_of, mounted, scenario):
    folder = copy_of(scenario)
    damaged(seed=1)(folder)
    t.sealed(folder)
    outcomes = judged(mounted(folder))
    assert outcomes == list(map(dict_of, recheck(folder)))
    assert "fail" in {outcome["verdict"] for outcome in outcomes}


@LONG
def test_a_run_on_hdfs_is_judged_as_by_its_path(spark, copy_of, tmp_path):
    folder = copy_of("market-merged-rejects")
    damaged(seed=1)(folder)
    t.sealed(folder)
    path = spark._jvm.org.apache.hadoop.fs.Path
    (tmp_path / "hdfs").mkdir()
    with hdfs(tmp_path / "hdfs") as url:
        system = path(url).getFileSystem(spark._jsc.hadoopConfiguration())
        system.copyFromLocalFile(path(folder.as_uri()), path(f"{url}/run"))
        assert judged(f"{url}/run") == list(map(dict_of, recheck(folder)))
        system.close()


def test_the_command_says_the_same(copy_of):
    run = copy_of("double")
    damaged(seed=1)(run)
    t.sealed(run)
    path, uri = (
        CliRunner().invoke(cli, ["check", words, "--spark"], standalone_mode=False)
        for words in (str(run), run.as_uri())
    )
    assert uri.return_value == path.return_value == EXIT_FAIL
    assert uri.output.replace(run.as_uri(), str(run)) == path.output
    assert f"run folder {run.as_uri()}\n" in uri.output


@pytest.mark.parametrize("records", [0, 1, 999, 1000, 1001, 3000, 3123])
@pytest.mark.parametrize("torn", [b"", b"12345"])
def test_slices_are_the_whole_file(spark, tmp_path, records, torn):
    numbers = np.arange(records, dtype=np.uint64).view(NUMBER)
    path = tmp_path / "s0.log"
    path.write_bytes(in_frames(numbers).tobytes() + torn)

    def look(start, some):
        column = pa.array([some["payload"].tobytes()], pa.binary())
        yield pa.RecordBatch.from_pydict({"start": pa.array([start], pa.int64()), "data": column})

    layout, size = framed(NUMBER), 1000 * framed(NUMBER).itemsize
    made = remote.over_slices(
        spark, path.as_uri(), layout, records, look, size, "start long, data binary"
    )
    found = sorted((row.start, bytes(row.data)) for row in made.collect())
    assert b"".join(data for _, data in found) == numbers.tobytes()
    starts = [start for start, data in found if data]  # the last two may be one
    assert starts in ([*range(0, records, 1000)], [*range(0, records, 1000)][:-1])


def wrong(uri) -> str:
    """Return what is said of a run that is not judged."""
    done = CliRunner().invoke(cli, ["check", uri, "--spark"], terminal_width=500)
    assert done.exit_code == 2
    return done.output


def test_a_uri_needs_spark():
    done = CliRunner().invoke(cli, ["check", "s3a://bucket/run"])
    assert done.exit_code == 2
    assert "RUN: s3a://bucket/run: a URI needs --spark" in done.output


def test_what_is_no_run_folder_is_named(tmp_path):
    nothing = (tmp_path / "nothing").as_uri()
    assert f"RUN: {nothing}/run.json: not found" in wrong(nothing)
    (tmp_path / "file").write_text("")
    assert f"{(tmp_path / 'file').as_uri()}/run.json: not found" in wrong(
        (tmp_path / "file").as_uri()
    )
    (tmp_path / "run.json").write_text("[]")
    assert f"{tmp_path.as_uri()}/run.json: expected a JSON object" in wrong(tmp_path.as_uri())


def test_a_file_system_that_spark_does_not_know_is_named():
    text = wrong("moon://x/run")
    assert "RUN: moon://x/run: cannot be read: " in text
    assert 'No FileSystem for scheme "moon"' in text


def test_what_changed_after_the_run_is_named(copy_of):
    folder = copy_of("double")
    t.sealed(folder)
    first, *_ = paths = sorted((folder / "input").glob("s*.log"))
    data = first.read_bytes()
    t.fresh(first).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert f"{first.as_uri()}: changed after it was recorded" in wrong(folder.as_uri())
    t.fresh(first).write_bytes(data)
    extra = first.with_name("s9p9.log")
    extra.write_bytes(b"")
    assert f"{extra.as_uri()}: added after the run" in wrong(folder.as_uri())
    extra.unlink()
    (folder / "output" / "more").write_text("")
    assert f"{folder.as_uri()}/output/more: added after the run" in wrong(folder.as_uri())
    (folder / "output" / "more").unlink()
    for path in paths:
        path.unlink()
    assert f"{first.as_uri()}: 0 bytes, expected" in wrong(folder.as_uri())


def test_the_driver_copies_no_large_input(copy_of, monkeypatch):
    monkeypatch.setattr(history, "DRIVER_BYTES", 0)
    folder = copy_of("market-boundaries")
    t.sealed(folder)
    with spark_check.fetched(folder.as_uri(), "") as (copy, judge):
        assert {(one.verdict, one.reason) for one in judge()} == {(Verdict.UNKNOWN, "NOT_AT_SCALE")}
        assert not list(copy.glob("input/s*"))
