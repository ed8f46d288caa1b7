"""Replay each failed run of a session several times, and count how often it fails again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import HistoryError, KitStopped, RequestError
from tickproof.conformance.report.terminal import REPEATS
from tickproof.conformance.session.replay import replay
from tickproof.conformance.verdicts import Outcome, Verdict


def confirmed(
    outcomes: Sequence[Outcome],
    spec: EngineSpec,
    runs: Path,
    times: int,
    on_replay: Callable[[str], None],
) -> list[Outcome]:
    """Return the outcomes, each failure with how often it failed in ``times`` replays of its run.

    runs: gets the new runs. on_replay: called after each with a sentence. A run that cannot be
    replayed leaves its failures as they are.
    """
    failed = [one for one in outcomes if one.verdict is Verdict.FAIL and one.run]
    again: dict[str, list[list[Outcome]]] = {}
    for run in dict.fromkeys(one.run for one in failed):
        name = Path(run).name

        def said(number: int, _found: list[Outcome], name: str = name) -> None:
            on_replay(f"{name}: replayed {number} of {times} times")

        try:
            again[run] = replay(
                Path(run), spec, runs / name, times=times, reproduce="", on_run=said
            ).now
        except (HistoryError, KitStopped, RequestError, OSError) as error:
            on_replay(f"{name}: not replayed: {error}")
    return [
        replace(one, evidence=one.evidence | {REPEATS: _repeats(one, again[one.run])})
        if one in failed and one.run in again
        else one
        for one in outcomes
    ]


def _repeats(one: Outcome, again: Sequence[Sequence[Outcome]]) -> dict[str, int]:
    failed = [
        any(now.requirement == one.requirement and now.verdict is Verdict.FAIL for now in found)
        for found in again
    ]
    return {"failed": sum(failed), "of": len(failed)}
