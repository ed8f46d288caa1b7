"""The action, and the recipes of docs/ci.md: each command is run, in order, in an empty folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.jobs.twins import copy
from tests.kafka.presence import expect_broker
from tests.long import ASKED, LONG
from tests.modest_engine import toml
from tickproof.conformance.report.json_report import Report

yaml = pytest.importorskip("yaml")

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = ACTION["runs"]["steps"]
RECIPES = {str(one): one for one in blocks(ROOT / "docs" / "ci.md") if one.kind == "yaml"}
DEADLINE_S = 900
OWN_PROJECT = """\
[project]
name = "mine"
version = "1"
[tool.setuptools]
py-modules = []
"""
BROKEN = toml("broken")
#: What it exits with on the commands of the page, by how they begin: it fails what it claims.
STATUSES = {"tickproof compare": 0, "tickproof run path/to/engine.toml --only EO-": 5}


@pytest.fixture
def kit(tmp_path):
    """A folder of programs: the kit of this checkout, and the Python of these tests."""
    programs = tmp_path / "temp" / "tickproof" / "bin"
    programs.mkdir(parents=True)
    for name, words in (("tickproof", "-m tickproof"), ("python", "")):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        script.chmod(0o755)
    return programs


@pytest.fixture
def here(tmp_path):
    """An empty folder but for an engine."""
    engine = tmp_path / "here" / "path" / "to" / "engine.toml"
    engine.parent.mkdir(parents=True)
    engine.write_text(BROKEN)
    return tmp_path / "here"


class Runner:
    """Plays the ``run:`` steps of the action as a runner of GitHub does."""

    def __init__(self, here: Path, temp: Path, inputs: dict[str, str]) -> None:
        self.here, self.temp = here, temp
        self.inputs = {name: one.get("default", "") for name, one in ACTION["inputs"].items()}
        self.inputs |= inputs
        self.outputs: dict[str, str] = {}
        self.summary, self.said = "", ""

    def play(self, steps) -> int:
        """Play steps; return the status of the first that failed, 0 if none did."""
        failed = 0
        for number, step in enumerate(steps):
            if "run" not in step or (failed and "always()" not in step.get("if", "")):
                continue
            failed = self._play(number, step) or failed
        return failed

    def _play(self, number: int, step: dict) -> int:
        output, summary = (self.temp / f"{name}-{number}" for name in ("output", "summary"))
        output.write_text("")
        summary.write_text("")
        given = {name: self._evaluated(text) for name, text in step.get("env", {}).items()}
        files = {
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_ACTIONS": "true",
            "CI": "true",
            "RUNNER_TEMP": str(self.temp),
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.here,
            env={**os.environ, **files, **given},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE_S,
        )
        self.said += done.stdout
        self.summary += summary.read_text("utf-8")
        for line in output.read_text("utf-8").splitlines():
            name, _, value = line.partition("=")
            self.outputs[f"steps.{step['id']}.outputs.{name}"] = value
        return done.returncode

    def _evaluated(self, text: str) -> str:
        known = {f"inputs.{name}": value for name, value in self.inputs.items()} | self.outputs
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: known[found[1]], text)


def test_no_step_puts_an_expression_into_a_shell():
    for step in STEPS:
        assert "${{" not in step.get("run", "")
        assert ("run" in step) == ("shell" in step) != ("uses" in step)
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text("utf-8")))
    assert used == set(ACTION["inputs"])


@pytest.mark.parametrize("installed", [False, pytest.param(True, marks=LONG)])
def test_the_action_judges_summarises_annotates_packs_and_compares(
    kit, here, tmp_path, installed, monkeypatch
):
    steps = STEPS if installed else STEPS[1:]
    if installed:
        shutil.rmtree(kit.parent)
        # What the kit depends on is there already; the kit itself is built and installed.
        monkeypatch.setenv("PYTHONPATH", sysconfig.get_path("purelib"))
        monkeypatch.setenv("PIP_NO_DEPS", "1")
        monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # which turns isolation off
    else:
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
    inputs = {"engine": "path/to/engine.toml\n", "only": "PR-HELLO"}
    runner = Runner(here, tmp_path / "temp", inputs)

    assert runner.play(steps) == 1, runner.said

    assert runner.outputs["steps.judge.outputs.status"] == "1"
    report = Report.read(here / "tickproof-out" / "broken" / "report.json")
    (result,) = report.requirements
    assert runner.summary.startswith("## ✗ broken 1: fail")
    assert result.reproduce.startswith("tickproof run path/to/engine.toml --only PR-HELLO")
    assert result.reproduce in runner.summary
    line = BROKEN.splitlines().index("[claims]") + 1
    assert f"::error file=path/to/engine.toml,line={line},title=PR-HELLO fail%3A " in runner.said
    packs = list((here / "tickproof-out" / "packs").iterdir())
    assert packs and all(one.name.endswith(".tickproof.zip") for one in packs)

    # Held against itself it is no worse, but it still fails.
    (tmp_path / "base").mkdir()
    shutil.copy(here / "tickproof-out" / "broken" / "report.json", tmp_path / "base")
    again = Runner(here, tmp_path / "temp", inputs | {"compare-with": str(tmp_path / "base")})
    again.outputs = dict(runner.outputs)
    first = next(number for number, step in enumerate(STEPS) if step.get("id") == "compare")
    assert again.play(STEPS[first:]) == 1
    assert again.outputs["steps.compare.outputs.status"] == "0", again.said
    assert (here / "tickproof-out" / "compare.md").read_text("utf-8") in again.summary


def test_what_an_engine_says_is_no_command_of_the_runner(kit, here, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    masks = ("{python}", "-c", "raise SystemExit('::add-mask::fail')")
    (here / "path" / "to" / "engine.toml").write_text(toml("broken", masks))
    inputs = {"engine": "path/to/engine.toml\n", "only": "PR-HELLO"}
    runner = Runner(here, tmp_path / "temp", inputs)
    assert runner.play(STEPS[1:]) == 1, runner.said
    assert "::add-mask::fail" in runner.said
    stopped = re.search(r"^::stop-commands::(\w{32})$(.*)^::\1::$", runner.said, re.M | re.S)
    assert stopped, runner.said
    assert not re.search(r"^\s*::add-mask", runner.said.replace(stopped[2], ""), re.M)
    assert "\n::error " in runner.said.replace(stopped[2], "")


@LONG
def test_a_session_that_holds_ends_with_0(kit, here, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    inputs = {"engine": "minimal", "only": "PR-HELLO,PR-STOP", "require": "PR-HELLO"}
    runner = Runner(here, tmp_path / "temp", inputs)
    assert runner.play(STEPS[1:]) == 0, runner.said
    assert "minimal" in runner.summary and "::error" not in runner.said
    assert not list((here / "tickproof-out" / "packs").iterdir())


def scripts(document) -> list[str]:
    """Return the commands of a workflow or of a GitLab pipeline, in order."""
    found = []
    for job in (*document.get("jobs", {}).values(), *document.values()):
        if isinstance(job, dict):
            found += [step["run"] for step in job.get("steps", ()) if "run" in step]
            found += job.get("script", ())
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=LONG) if "job.toml" in recipe.body else name
        for name, recipe in RECIPES.items()
    ],
)
def test_the_commands_of_a_recipe_run_in_order(name, kit, here, monkeypatch):
    commands = scripts(yaml.safe_load(RECIPES[name].body))
    assert commands
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", f"{kit}{os.pathsep}{os.environ['PATH']}")
    (here / "tickproof").symlink_to(ROOT)
    # The action was run, of which the last steps of its recipe keep the report.
    report = here / "tickproof-out" / "broken" / "report.json"
    report.parent.mkdir(parents=True)
    report.write_text("{}")
    of_job = "job.toml" in RECIPES[name].body
    if of_job:
        expect_broker()
        shutil.rmtree(here / "tickproof-out")
        copy("totals-sql", here, twin="early").folder.rename(here / "kill")
        (here / "pyproject.toml").write_text(OWN_PROJECT)
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here / "shown.md"))
    for command in commands:
        if command.startswith("pip install") and not ASKED:
            continue
        if command.startswith("pip install"):
            command = f"{sys.executable} -m {command} --dry-run --no-deps --quiet"
        if command.startswith("tickproof run"):
            command += " --only JB-COMMIT" if of_job else " --only PR-HELLO"
        done = subprocess.run(
            command, shell=True, cwd=here, capture_output=True, text=True, timeout=DEADLINE_S
        )
        expected = 1 if command.startswith("tickproof run") else 0
        assert done.returncode == expected, done.stdout + done.stderr
    if of_job:
        assert "JB-COMMIT" in (here / "shown.md").read_text("utf-8")


def test_the_commands_of_the_page_run_in_order(kit, here, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", f"{kit}{os.pathsep}{os.environ['PATH']}")
    pages = (one for one in blocks(ROOT / "docs" / "ci.md") if one.kind == "console")
    commands = [line for one in pages if "worktree" not in one.body for line in one.commands]
    assert len(commands) > len(STATUSES)
    report = here / "tickproof-out" / "my-engine" / "report.json"
    for command in commands:
        command = command.partition(" #")[0]
        if command.startswith("pytest"):
            command = f"{sys.executable} -m {command} -p no:cacheprovider"
        done = subprocess.run(
            command, shell=True, cwd=here, capture_output=True, text=True, timeout=DEADLINE_S
        )
        known = [status for begin, status in STATUSES.items() if command.startswith(begin)]
        assert done.returncode == (known or [1])[0], command + done.stdout + done.stderr
        if not report.exists():  # the first run's is what the page compares
            for copied in (report, here / "main" / "report.json"):
                copied.parent.mkdir(parents=True)
                shutil.copy(here / "tickproof-out" / "broken" / "report.json", copied)
    assert "nothing is worse" in (here / "comment.md").read_text("utf-8").lower()


@LONG
def test_an_engine_that_became_slow_is_told_from_one_that_did_not(kit, tmp_path, monkeypatch):
    (recipe,) = (one for one in blocks(ROOT / "docs" / "ci.md") if "git worktree" in one.body)
    adds, measures, compares = (line.removeprefix("$ ") for line in recipe.body.splitlines())
    measures += " --messages 40000"
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", f"{kit}{os.pathsep}{os.environ['PATH']}")

    def run(command: str, where: Path) -> int:
        return subprocess.run(command, shell=True, cwd=where, timeout=DEADLINE_S).returncode

    main, here = tmp_path / "main", tmp_path / "here"
    shutil.copytree(ROOT / "fixtures" / "engines" / "minimal", main / "path" / "to")
    author = "-c user.name=author -c user.email=author@example.org"
    assert run(f"git init -qb main && git add . && git {author} commit -qm 1", main) == 0
    assert run("git clone -q main here", tmp_path) == 0
    adapter = here / "path" / "to" / "adapter.py"
    usual = adapter.read_text("utf-8")
    lookup = "        n, total = state.get(key, (0, 0))\n"
    assert lookup in usual
    adapter.write_text(usual.replace(lookup, f"        sum(range(500))\n{lookup}"), "utf-8")
    assert [run(command, here) for command in (adds, measures, compares)] == [0, 0, 1]
    shutil.rmtree(here / "tickproof-out")
    adapter.write_text(usual, "utf-8")
    assert [run(command, here) for command in (measures, compares)] == [0, 0]


@LONG
@pytest.mark.parametrize(
    ("name", "given"),
    [("conformance", ["minimal", "--only", "PR-HELLO"]), ("kill", ["kill", "--only", "JB-CALM"])],
)
def test_the_recipe_of_tox_runs(here, name, given):
    pytest.importorskip("tox")
    recipes = [one.body for one in blocks(ROOT / "docs" / "ci.md") if one.kind == "ini"]
    (recipe,) = (one for one in recipes if f"[testenv:{name}]" in one)
    (here / "tickproof").symlink_to(ROOT)
    (here / "tox.ini").write_text(recipe)
    (here / "path" / "to" / "engine.toml").write_text(BROKEN)
    if name == "kill":
        expect_broker()
        copy("totals-sql", here).folder.rename(here / "kill")
        (here / "pyproject.toml").write_text(OWN_PROJECT)
    words = ["-m", "tox", "-e", name, "--", *given]
    done = subprocess.run(
        [sys.executable, *words], cwd=here, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 judged: 1 pass" in done.stdout
