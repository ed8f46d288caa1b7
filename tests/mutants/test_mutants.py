"""Every mutant is failed by the requirement that names its defect, on a live engine."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import mutants
from conformance.requirements import registry
from conformance.resources import fixtures, reference
from conformance.verdicts import EXIT_FAIL

SEED = 20_260
DEADLINE_S = 400
ALL = mutants.available(fixtures())


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.id)
def test_its_requirement_fails_it(mutant: mutants.Mutant, tmp_path: Path) -> None:
    if mutant.engine == "spark" and importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed: pip install 'tickproof[spark]'")
    words = ["run", f"mutant:{mutant.id}", "--only", mutant.requirement, "-n", "1"]
    words += ["--seed", str(SEED), "--out", str(tmp_path)]
    ended = subprocess.run(
        [sys.executable, "-m", "conformance.cli", *words],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
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


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.id)
def test_its_edits_fit_the_engine_and_compile(mutant: mutants.Mutant, tmp_path: Path) -> None:
    engine = mutants.make(mutant, fixtures(), tmp_path / "copy")
    original = fixtures() / "engines" / mutant.engine
    changed = set()
    for file in [*engine.parent.rglob("*.py"), engine]:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".py":
            compile(text, file, "exec")
        path = file.relative_to(engine.parent)
        before = (reference().parent if path.parts[0] == "reference" else original) / path
        if text != before.read_text(encoding="utf-8"):
            changed.add(path.as_posix())
    assert changed == {"engine.toml", *(edit.file for edit in mutant.edit)}


def test_they_name_requirements_of_the_registry() -> None:
    assert {mutant.requirement for mutant in ALL} <= registry.load().keys()
