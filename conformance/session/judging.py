"""Judges a run: for a session, `check`, `replay`, `explore` and `selftest` alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.explain.outcomes import outcome_of, with_causes
from tickproof.conformance.history.folder import History, made_input_removed, write_sealed_json
from tickproof.conformance.session.tier_order import by_requirement
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.catalog import judges_of
from tickproof.conformance.suites.evidence import SEEN
from tickproof.conformance.suites.judge import Fail, Judge, KitError
from tickproof.conformance.suites.requirement import check_claims
from tickproof.conformance.verdicts import Outcome


def raised(requirement: str, judge: Judge, history: History) -> Exception | None:
    """Return what the judge of a requirement raised on a run, None if the run passes.

    Raises HistoryError if the run cannot be judged.
    """
    broken_off = KitError(history.ended.message) if history.ended.kit_failed else None
    if broken_off and not history.sealed:
        return broken_off
    try:
        check_claims(registry.load()[requirement].needs, history.claims, history.record.scenario)
        judge(history)
    except HistoryError:
        raise
    except Fail as error:
        # What is missing from a run that the kit broke off is no fault of the engine.
        return error if broken_off is None or error.code in SEEN else broken_off
    except Exception as error:
        return error
    return None


def judged(
    history: History, judges: Iterable[tuple[str, Judge]], gaps: Mapping[str, str] = {}
) -> list[Outcome]:
    """Return the outcome of each requirement on a run, then the failures that block some of them.

    ``judges`` has requirements, each with its judge. Raises HistoryError as `raised` does.
    """
    scenario = history.scenario
    found = [
        outcome_of(requirement, scenario, raised(requirement, judge, history), history)
        for requirement, judge in judges
    ]
    return with_causes(found, gaps)


def recheck(folder: Path, opened: Callable[[Path], History] = History) -> list[Outcome]:
    """Judge a recorded run again, from its folder alone; ``opened`` makes its history.

    A run that the kit could not end and seal is a kit-error. Raises HistoryError if the folder
    cannot be judged, or is not as it was sealed.
    """
    history = opened(folder)
    if history.sealed or not history.ended.kit_failed:
        history.verify()
    judges = judges_of(history.scenario)
    if not judges:
        raise HistoryError(f"{folder}: no test judges scenario {history.scenario!r}")
    wanted = history.decided() or [requirement for requirement, _ in judges]
    asked = [(requirement, judge) for requirement, judge in judges if requirement in wanted]
    with made_input_removed(folder):
        return by_requirement(judged(history, asked, history.record.known_gaps))


def save(folder: Path, outcomes: Iterable[Outcome]) -> None:
    """Add outcomes to the verdict.json of a run, in place of those it has; raises OSError."""
    path = folder / "verdict.json"
    new = [one.to_json() | {"run": "."} for one in outcomes]
    ids = {row["requirement"] for row in new}
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    write_sealed_json(path, [row for row in known if row["requirement"] not in ids] + new)
