"""`tickproof check RUN --spark` as users type it."""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.long import LONG
from tickproof.conformance import spark_check
from tickproof.conformance.cli.main import cli
from tickproof.conformance.spark_check import spark as starting
from tickproof.conformance.verdicts import EXIT_OK


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    return str(tmp_path)


def said(*arguments) -> str:
    """Run a command that is wrong usage; return what it said, on one line."""
    done = CliRunner().invoke(cli, list(arguments), terminal_width=500)
    assert done.exit_code == 2
    return done.output


def test_master_without_spark_is_wrong_usage(run):
    assert "--master: expected together with --spark" in said("check", run, "--master", "local")


def test_missing_extra_is_named(run, monkeypatch):
    monkeypatch.setattr(spark_check, "find_spec", lambda name: None if name == "pyspark" else name)
    text = said("check", run, "--spark")
    assert "--spark: pyspark not found" in text
    assert "pip install 'tickproof[spark]'" in text


def test_wrong_java_home_is_named(run, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    assert "--spark: JAVA_HOME=/no/such/java: no program bin/java" in said("check", run, "--spark")


@LONG
def test_master_that_spark_does_not_know_is_named(recorded, sessions):
    done = sessions.tickproof("check", recorded.run("double"), "--spark", "--master", "moon://x")
    assert done.status == 2
    assert "--spark: Spark did not start on moon://x" in done.err


def test_verdict_and_status_are_those_of_the_local_check(recorded, spark, monkeypatch):
    monkeypatch.setattr(starting, "session", lambda _master: contextlib.nullcontext(spark))
    local, done = (
        CliRunner().invoke(
            cli, ["check", str(recorded.run("double")), *words], standalone_mode=False
        )
        for words in ((), ("--spark", "--master", "local[1]"))
    )
    assert (done.return_value, done.output) == (local.return_value, local.output)
    assert done.return_value == EXIT_OK
    assert "SL-DOUBLE" in done.output


@LONG
def test_a_command_of_its_own_says_the_same(recorded, sessions):
    run = recorded.run("double")
    local = sessions.tickproof("check", run)
    done = sessions.tickproof("check", run, "--spark", "--master", "local[1]")
    assert (done.status, done.out) == (local.status, local.out)
    assert "SL-DOUBLE" in done.out


def test_kit_is_found_by_executors_wherever_the_command_is_started():
    from tickproof.conformance.spark_check.spark import settings

    root = settings("local[2]")["spark.executorEnv.PYTHONPATH"]
    (kit,) = importlib.util.find_spec("conformance").submodule_search_locations
    assert Path(kit).samefile(Path(root) / "conformance")
