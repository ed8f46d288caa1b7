"""Every mutant is failed by each requirement that it names, on a live engine."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.long import LONG
from tickproof.conformance.engines import spec
from tickproof.conformance.resources import fixtures
from tickproof.conformance.selftest import mutants, plan, session
from tickproof.conformance.selftest.mutants import Copy, Mutant
from tickproof.conformance.selftest.trial import Task, attempt
from tickproof.conformance.suites import registry
from tickproof.conformance.verdicts import EXIT_FAIL

SEED = 20_260
DEADLINE_S = 400
ALL = mutants.available(fixtures())
VARIANTS = mutants.sound_variants(fixtures())
#: Where time counts, other tests beside are noise: those are left to `tickproof selftest`.
TIMED = {one.id for one in registry.load().values() if one.family == "LT"}
#: Those of the miniature over Kafka are played by `tickproof selftest --engine kafka-miniature`.
LIVE = [m for m in ALL if m.requirement not in TIMED and m.engine != "kafka-miniature"]


def needs_spark(mutant: Mutant) -> None:
    if mutant.engine.startswith("spark") and importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed: pip install 'tickproof[spark]'")


@LONG  # `tickproof selftest` plays the same, and CI a part of it
@pytest.mark.parametrize("mutant", LIVE, ids=lambda mutant: mutant.id)
def test_what_it_names_fails_it(mutant: Mutant, tmp_path: Path) -> None:
    needs_spark(mutant)
    toml = mutants.make(mutant, fixtures(), tmp_path / "copy")
    cells = [
        cell
        for scenario in plan.scenarios_of([mutant])
        for cell in attempt(Task(mutant.id, toml, scenario, SEED, tmp_path / "runs")).cells
    ]
    kills = [session.kill_of(mutant, requirement, cells) for requirement in mutant.breaks]
    assert [kill for kill in kills if not kill.killed] == []


@LONG
@pytest.mark.parametrize("name", ["offset-not-state", "prints-on-stdout", "no-have"])
def test_the_command_line_says_the_same(name: str, tmp_path: Path) -> None:
    mutant = mutants.find(f"mutant:{name}", fixtures())
    words = ["run", f"mutant:{mutant.id}", "--only", mutant.requirement, "-n", "1"]
    words += ["--seed", str(SEED), "--out", str(tmp_path)]
    ended = subprocess.run(
        [sys.executable, "-m", "tickproof.conformance.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.returncode == EXIT_FAIL, ended.stdout + ended.stderr
    (path,) = tmp_path.glob(f"{mutant.engine}-{mutant.id}/report.json")
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["engine"]["name"] == f"{mutant.engine}+{mutant.id}"
    (decided,) = report["requirements"]
    assert (decided["id"], decided["verdict"]) == (mutant.requirement, "fail")
    assert re.search(mutant.shows, f"{decided['reason']}: {decided['actual']}")
    assert processes_of(tmp_path) == []


def processes_of(out: Path) -> list[str]:
    """Return the command lines of living processes that carry the id of a run in ``out``."""
    runs = [json.loads(path.read_text(encoding="utf-8"))["id"] for path in out.rglob("run.json")]
    assert runs, "no run was recorded"
    marks = [f"TICKPROOF_RUN={run}".encode() for run in runs]
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            if any(mark in environment for mark in marks):
                found.append((process / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue  # it ended, or is another user's
    return found


@pytest.mark.parametrize("mutant", [*ALL, *VARIANTS], ids=lambda mutant: mutant.id)
def test_its_edits_fit_the_engine_and_compile(mutant: Copy, tmp_path: Path) -> None:
    engine = mutants.make(mutant, fixtures(), tmp_path / "copy")
    spec.load(engine)  # its engine.toml is still a good one
    original = tmp_path / "original"
    mutants.copy_engine(fixtures() / "engines" / mutant.engine, original)
    changed = set()
    for file in [*engine.parent.rglob("*.py"), engine]:
        text = file.read_text(encoding="utf-8")
        path = file.relative_to(engine.parent)
        if text == (original / path).read_text(encoding="utf-8"):
            continue
        changed.add(path.as_posix())
        if file.suffix == ".py":
            compile(text, file, "exec")
    edits = [*mutant.edit]
    if mutant.variant:
        edits += mutants.find(f"variant:{mutant.variant}", fixtures()).edit
    assert changed == {"engine.toml", *(edit.file for edit in edits)}


def test_they_name_requirements_of_the_registry() -> None:
    named = {requirement for mutant in ALL for requirement in mutant.breaks}
    assert named <= registry.load().keys()
