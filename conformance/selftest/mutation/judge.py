"""One mutant, judged as `tickproof run` judges an engine, until something fails it."""

from __future__ import annotations

import shutil
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tomli_w

from tickproof.conformance.engines.spec import FILE_NAME
from tickproof.conformance.selftest import mutants
from tickproof.conformance.selftest.model import Cell
from tickproof.conformance.selftest.mutation import source
from tickproof.conformance.selftest.mutation.results import Fate, Result
from tickproof.conformance.selftest.mutation.source import Mutation
from tickproof.conformance.selftest.trial import Task, alone, attempt, tests_of
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.catalog import seconds
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Verdict

#: Time limits, in seconds, of all copies, the control too: a mutant that hangs waits so long.
LIMITS: Final = {"startup_timeout_s": 10, "drain_timeout_s": 15, "recovery_timeout_s": 10}
#: Limits of an engine that starts slowly are left as they are.
_QUICK_START_S: Final = 10
#: What settles a mutant, the strongest first.
_FATES: Final = {
    Verdict.FAIL: Fate.KILLED,
    Verdict.KIT_ERROR: Fate.BROKEN,
    Verdict.UNKNOWN: Fate.UNKNOWN,
}
_SAID: Final = 300


@dataclass(frozen=True)
class Case:
    """A mutant, or the control (no mutation), to be judged on some scenarios, in this order.

    engine: the folder of the sound engine. folder: gets the copy and the runs.
    """

    engine: Path
    folder: Path
    scenarios: tuple[str, ...]
    seed: int
    mutation: Mutation | None = None


def scenarios(transport: str, only: Sequence[str] = ()) -> list[str]:
    """Return the scenarios to judge by, lowest tier and shortest first.

    transport: of the engine. only: requirements, empty for all that apply. Left out is what
    measures time: it needs the machine to itself.
    """
    known = registry.load()
    tiers = {
        name: min(known[requirement].tier for requirement, _ in judges)
        for name, judges in tests_of(set(only) or None, transport).items()
        if not alone(name)
    }
    return sorted(tiers, key=lambda name: (tiers[name], seconds(name)))


def judged(case: Case) -> Result:
    """Make the copy and judge it; what is kept are runs that were left without evidence."""
    began = time.monotonic()
    toml = copied(case.engine, case.folder / "engine")
    mutation = case.mutation or Mutation("", "none", 0, 0, "", "")
    if case.mutation:
        source.apply(case.mutation, toml.parent)
    settled: tuple[str, Cell] | None = None
    played = 0
    for scenario in case.scenarios:
        task = Task("mutant", toml, scenario, case.seed, case.folder / "runs")
        trial = attempt(task)
        played += 1
        worse = _worst(trial.cells)
        if worse and (settled is None or worse.verdict is not Verdict.UNKNOWN):
            settled = scenario, worse
        if worse and worse.verdict is not Verdict.UNKNOWN:
            break
        if trial.run and not worse:
            shutil.rmtree(trial.run)
    fate = _FATES[settled[1].verdict] if settled else Fate.SURVIVED
    decided = fate in (Fate.KILLED, Fate.SURVIVED)
    shutil.rmtree(case.folder if decided else toml.parent)
    said = (
        {
            "scenario": settled[0],
            "requirement": settled[1].requirement,
            "test": settled[1].test,
            "reason": settled[1].reason,
            "said": shown(settled[1].said, _SAID),
        }
        if settled
        else {}
    )
    return Result(
        id=mutation.id,
        file=mutation.file,
        line=mutation.line,
        old=mutation.old,
        new=mutation.new,
        fate=fate,
        played=played,
        seconds=round(time.monotonic() - began, 1),
        **said,
    )


def copied(engine: Path, folder: Path) -> Path:
    """Copy an engine with time limits for mutants; return the copy's engine.toml."""
    mutants.copy_engine(engine, folder)
    path = folder / FILE_NAME
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    if content["engine"].get("startup_timeout_s", 30) <= _QUICK_START_S:
        content["engine"] |= LIMITS
    path.write_text(tomli_w.dumps(content), encoding="utf-8")
    return path


def _worst(cells: Iterable[Cell]) -> Cell | None:
    """Return the cell that says most against a run: fail before kit-error before unknown."""
    order = list(_FATES)
    against = [cell for cell in cells if cell.verdict in order]
    return min(against, key=lambda cell: order.index(cell.verdict), default=None)
