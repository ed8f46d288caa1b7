"""The reports of a session, however it ended: from its record and outcomes to files."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, cast

from rich.console import Console

from tickproof.conformance.engines import isolation
from tickproof.conformance.errors import HistoryError, RequestError
from tickproof.conformance.explain import with_stories
from tickproof.conformance.explain.outcomes import reported
from tickproof.conformance.report import (
    document,
    json_report,
    junit,
    page,
    templates,
    verdict_badge,
)
from tickproof.conformance.report.json_report import (
    FaultSpace,
    Interrupted,
    Isolated,
    Report,
    Selection,
)
from tickproof.conformance.session import session_record, tiers
from tickproof.conformance.session.runs_folder import RUNS, under_way
from tickproof.conformance.session.session_record import SessionRecord
from tickproof.conformance.verdicts import Conclusion, Outcome, Verdict

#: Exit status in the report of a session that left no status: that of a process that was killed.
EXIT_LOST: Final = 128 + 9


def build(
    record: SessionRecord,
    outcomes: Sequence[Outcome],
    session: Path,
    folder: Path,
    *,
    ended: datetime,
    fault_space: FaultSpace | None = None,
    cut: tuple[str, int] | None = None,
) -> Report:
    """Return the report of a session, to lie in ``folder``.

    cut: what ended it early, in words, and the exit status of its command; None: it was not.
    """
    report = _built(record, with_stories(outcomes), folder, ended, fault_space)
    interrupted = None
    if cut is not None:
        why, status = cut
        judged = sum(
            one.id in record.selected
            and one.verdict is not Verdict.KIT_ERROR
            and not json_report.left(one)
            for one in report.requirements
        )
        interrupted = Interrupted(
            by=why, exit_status=status, judged=judged, of=len(record.selected)
        )
    within = session.parent == folder / RUNS
    return json_report.of_session(report, session.name if within else "", interrupted)


def conclusion(record: SessionRecord, outcomes: Sequence[Outcome], folder: Path) -> Conclusion:
    """Return the conclusion of a session that was not cut; ``folder`` is as in `build`."""
    return _built(record, outcomes, folder, datetime.now(UTC), None).conclusion


def _built(
    record: SessionRecord,
    outcomes: Sequence[Outcome],
    folder: Path,
    ended: datetime,
    fault_space: FaultSpace | None,
) -> Report:
    asked = record.request
    return json_report.build(
        engine=record.engine,
        outcomes=outcomes,
        selected=reported(record.selected, outcomes),
        folder=folder,
        profile=asked.profile,
        seed=asked.seed,
        isolation=cast(Isolated, asked.isolation or isolation.Level.NONE),
        hosts=asked.hosts,
        not_asked=record.not_asked,
        selection=Selection(
            tiers=list(asked.tiers),
            only=list(asked.only),
            require=list(asked.require),
            secret=asked.secret,
        ),
        started=record.started,
        ended=ended,
        fault_space=fault_space,
    )


def write(report: Report, folder: Path) -> None:
    """Write the reports that machines read; raises OSError."""
    report.write(folder)
    junit.write(report, folder)


def write_pages(report: Report, folder: Path, console: Console) -> None:
    """Write the page and the badge; raises OSError.

    One that cannot be made goes: that of an earlier session must not pass for this one's.
    """
    for made, name in ((page, document.PAGE_NAME), (verdict_badge, verdict_badge.FILE_NAME)):
        if not templates.as_extra(partial(made.write, report, folder), console):
            (folder / name).unlink(missing_ok=True)


def ended_early(folder: Path) -> Path | None:
    """Return the folder of a session that left no reports, given that of its engine or its own.

    Raises RequestError for a session that goes on.
    """
    session = _newest(folder)
    if session is not None and under_way(session):
        raise RequestError(f"SESSION: expected one that has ended; the one in {session} goes on")
    return session


def _newest(folder: Path) -> Path | None:
    if (folder / session_record.FILE_NAME).is_file():
        return folder
    found = sorted(
        path.parent
        for path in folder.glob(f"{RUNS}/*/{session_record.FILE_NAME}")
        if not path.parent.is_symlink()
    )
    if not found:
        return None
    with contextlib.suppress(HistoryError):
        report = Report.read(folder / json_report.FILE_NAME)
        if report.session == found[-1].name:
            return None
    return found[-1]


def of_lost(session: Path, folder: Path) -> Report:
    """Return the report of a session whose process died, to lie in ``folder``.

    Raises HistoryError if its record cannot be used.
    """
    record = session_record.read(session)
    outcomes = tiers.of_record(session, record)
    left = any(map(json_report.left, outcomes))
    newest = max(path.stat().st_mtime for path in session.iterdir())
    return build(
        record,
        outcomes,
        session,
        folder,
        ended=datetime.fromtimestamp(newest, UTC),
        cut=(record.cut or (tiers.LOST, EXIT_LOST)) if left else None,
    )
