"""Copies of the kit's own jobs: sound, with or without their oracle, or with a mistake."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tickproof.conformance.jobs import declaration, session
from tickproof.conformance.resources import fixtures
from tickproof.conformance.verdicts import Outcome

JOBS = fixtures() / "jobs"


def twins(name: str) -> dict[str, dict]:
    return tomllib.loads((JOBS / name / "twins.toml").read_text("utf-8"))


def copy(
    name: str,
    folder: Path,
    *,
    twin: str = "",
    oracle: bool = True,
    replaced: dict[str, str] | None = None,
) -> declaration.Job:
    """Copy a job; ``replaced``: texts of job.toml."""
    made = folder / "-".join(filter(None, (name, twin)))
    shutil.copytree(JOBS / name, made, symlinks=True)  # to jars
    (app,) = made.glob("[Aa]pp.*")
    edits = twins(name)[twin]["edits"] if twin else []
    for old, new in edits:
        source = app.read_text("utf-8")
        assert source.count(old) == 1, old
        app.write_text(source.replace(old, new), "utf-8")
    text = (made / "job.toml").read_text("utf-8")
    if twin:
        text = "\n".join(line for line in text.split("\n") if not line.startswith("settled"))
    if not oracle:
        text = text.replace('oracle = "oracle.py:expect"\n', "")
    for old, new in (replaced or {}).items():
        assert old in text, old
        text = text.replace(old, new)
    (made / "job.toml").write_text(text, "utf-8")
    return declaration.load(made)


def judged(
    job: declaration.Job,
    folder: Path,
    seed: int = 1,
    on_event: Callable[[dict[str, Any]], None] = lambda _: None,
    only: Sequence[str] = (),
) -> dict[str, Outcome]:
    """Return the outcome of each requirement; ``only``: play the runs that these need."""
    runs = folder / "-".join(("runs", *only))
    runs.mkdir()
    settings = session.Settings(folder, seed, only=only)
    made = session.Session(job, settings, runs, on_event)
    return {one.requirement: one for one in made.judge()}
