"""Replay each failed run of a session several times, whole and without parts of its faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import HistoryError, KitStopped, RequestError
from tickproof.conformance.report.terminal import REPEATS
from tickproof.conformance.session.replay import replay
from tickproof.conformance.session.variants import tried
from tickproof.conformance.verdicts import Outcome, Verdict


@dataclass
class _Again:
    """What came of the replays of a run, and of its variants."""

    replays: list[list[Outcome]] = field(default_factory=list)
    variants: list[dict[str, Any]] = field(default_factory=list)


def confirmed(
    outcomes: Sequence[Outcome],
    spec: EngineSpec,
    runs: Path,
    times: int,
    on_replay: Callable[[str], None],
) -> list[Outcome]:
    """Return the outcomes, each failure with how often it failed in ``times`` replays of its run.

    How it failed, and what came of variants of the run, is with that. runs: gets the new runs.
    on_replay: called after each with a sentence. A run that cannot be replayed leaves its failures
    as they are.
    """
    failed = [one for one in outcomes if one.verdict is Verdict.FAIL and one.run]
    again: dict[str, _Again] = {}
    for run in dict.fromkeys(one.run for one in failed):
        name = Path(run).name

        def said(number: int, _found: list[Outcome], name: str = name) -> None:
            on_replay(f"{name}: replayed {number} of {times} times")

        try:
            made = replay(Path(run), spec, runs / name, times=times, reproduce="", on_run=said)
            again[run] = _Again(made.now)
            again[run].variants = tried(Path(run), spec, runs / name, times, on_replay)
        except (HistoryError, KitStopped, RequestError, OSError) as error:
            on_replay(f"{name}: not replayed: {error}")
    return [
        replace(one, evidence=one.evidence | {REPEATS: _repeats(one, again[one.run])})
        if one in failed and one.run in again
        else one
        for one in outcomes
    ]


def _repeats(one: Outcome, again: _Again) -> dict[str, Any]:
    failed = [
        now
        for found in again.replays
        for now in found
        if now.requirement == one.requirement and now.verdict is Verdict.FAIL
    ]
    return {
        "failed": len(failed),
        "of": len(again.replays),
        "reasons": dict(Counter(now.reason for now in failed)),
        "headlines": [" ".join(now.story.get("headline", [])) for now in failed],
        "variants": again.variants,
    }
