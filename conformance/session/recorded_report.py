"""The report of one recorded run, judged again from its folder alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, cast, get_args

from tickproof.conformance.explain import with_stories
from tickproof.conformance.history.folder import History
from tickproof.conformance.report import json_report
from tickproof.conformance.report.document import Engine
from tickproof.conformance.report.json_report import Isolated, Report, Selection
from tickproof.conformance.session import judging
from tickproof.conformance.suites import registry

#: What stands for the profile of a session.
PROFILE: Final = "one run"
#: 2100: a run.json from elsewhere may hold any number.
_LATEST_S: Final = 4_102_444_800


def of_run(folder: Path) -> Report:
    """Judge a run again and return the report of it, as that of a session with one run.

    Kit and host are those that judge now. Raises HistoryError where it cannot be judged.
    """
    outcomes = with_stories(judging.recheck(folder))
    known = registry.load()
    run = History(folder).record
    engine = run.engine
    began = datetime.fromtimestamp(min(max(run.started, 0.0), _LATEST_S), UTC)
    took_ns = max(run.ended_ns - run.started_ns, 0)
    return json_report.build(
        engine=Engine(name=engine.name, version=engine.version, language=engine.language, toml=""),
        outcomes=[replace(one, run=str(folder)) for one in outcomes],
        selected={one.requirement: known[one.requirement] for one in outcomes},
        folder=folder,
        profile=PROFILE,
        seed=run.seed,
        isolation=cast(Isolated, run.isolation if run.isolation in get_args(Isolated) else "none"),
        selection=Selection(tiers=[], only=[one.requirement for one in outcomes]),
        started=began,
        ended=began + timedelta(seconds=min(took_ns / 1e9, _LATEST_S)),
    )
