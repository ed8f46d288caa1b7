"""Which of its faults a failure needs: the same run without one, or with no frame lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.fault_steps import FaultStep
from tickproof.conformance.faults.kinds import names
from tickproof.conformance.faults.moments import ACCEPTED, moment_of
from tickproof.conformance.faults.schedule_file import out_of_place
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import judging
from tickproof.conformance.session.replay import play_again
from tickproof.conformance.suites.schedules import REQUIREMENT, held
from tickproof.conformance.verdicts import Outcome, Verdict

#: Shares of the replays that each variant is played.
_SHARE: Final = 5


@dataclass(frozen=True)
class Variant:
    """A scenario that lacks something of another. changed: what that is."""

    changed: str
    scenario: Scenario


def variants(scenario: Scenario) -> list[Variant]:
    """Return the scenario without each of its faults, and with each where no frame is lost.

    Of a single fault there is only the latter. Those are left out whose faults make no sense.
    """
    steps = scenario.faults
    return [
        Variant(changed, replace(scenario, faults=left))
        for changed, left in _changed(steps)
        if not any(out_of_place(step, left[:number]) for number, step in enumerate(left))
    ]


def _changed(steps: tuple[FaultStep, ...]) -> Iterator[tuple[str, tuple[FaultStep, ...]]]:
    for number, (step, name) in enumerate(zip(steps, names(steps), strict=True)):
        before, behind = steps[:number], steps[number + 1 :]
        if len(steps) > 1:
            yield f"without {name}", (*before, *behind)
        if moment_of(step).loses:
            plain = replace(step, at=ACCEPTED.name)
            yield f"{name} {ACCEPTED.when(plain)}: no frame is lost", (*before, plain, *behind)


def tried(
    run: Path, spec: EngineSpec, runs: Path, replays: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Play each variant of a run for one in five replays, and count the verdicts.

    Each row has ``changed``, ``verdicts`` with their number and ``reasons`` of failures with
    theirs. Empty for a run that keeps all that a schedule is asked: something else failed, which
    need not be asked of its variants. Raises as `replay.replay`.
    """
    history = History(run)
    if _judged(history).verdict is not Verdict.FAIL:
        return []
    rows = []
    for number, one in enumerate(variants(history.record.scenario), 1):
        made = []
        for time in range(1, -(-replays // _SHARE) + 1):
            folder = runs / f"variant-{number}-{time}"
            made.append(_judged(play_again(history, spec, folder, one.scenario)))
            say(f"{run.name}, {one.changed}: {made[-1].verdict}")
        verdicts = dict(Counter(outcome.verdict.value for outcome in made))
        reasons = dict(Counter(one.reason for one in made if one.verdict is Verdict.FAIL))
        rows.append({"changed": one.changed, "verdicts": verdicts, "reasons": reasons})
    return rows


def _judged(history: History) -> Outcome:
    """Judge a run as a schedule; one that broke off by what broke it off."""
    outcome, *causes = judging.judged(history, [(REQUIREMENT, held)])
    return causes[0] if causes else outcome
