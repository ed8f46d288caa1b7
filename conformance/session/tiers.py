"""One engine through the tiers: runs the suites under pytest, tier by tier, in parallel."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil
import pytest

from tickproof.conformance import suites
from tickproof.conformance.engines import disk_space, interruption
from tickproof.conformance.engines.spec import load
from tickproof.conformance.errors import HistoryError, TickproofError
from tickproof.conformance.faults.space.offers import EVERYTHING, offers, space_of
from tickproof.conformance.faults.space.scenarios import PREFIX
from tickproof.conformance.faults.space.sessions import coverage
from tickproof.conformance.session import pytest_options, pytest_plugin, session_record
from tickproof.conformance.session.feed import Follower
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.session_record import SessionRecord
from tickproof.conformance.session.tier_order import OnEvent, TierOrder
from tickproof.conformance.suites import registry, space
from tickproof.conformance.suites.schedules import COVERING
from tickproof.conformance.verdicts import EXIT_KIT_ERROR, Outcome

SUITES: Final = Path(suites.__file__).parent
#: What is said of a session that left no more than its record.
FULL: Final = "ended early by a full disk"
LOST: Final = "ended early: its process died"
#: So often profile full draws points for pairs of the fault space that are left.
ROUNDS: Final = 4


def run_session(engine: Path, request: Request, on_event: OnEvent) -> list[Outcome]:
    """Judge the engine of an engine.toml; one outcome for each selected requirement.

    Lower tiers come first. A tier counts when no requirement below it failed, unless single
    requirements were asked for; otherwise it is blocked. Runs and the record of the session go to
    ``request.out``. Raises SessionCut with what was judged if it ends early, by an interrupt, a
    full disk or an exception of the kit.
    """
    request.out.mkdir(parents=True, exist_ok=True)
    order = TierOrder(engine, request, request.selected, request.out, on_event)
    record = SessionRecord.of(load(engine), request, order.awaited)
    try:
        record.write(request.out)
        _judge(engine, request, order)
    except (KeyboardInterrupt, Exception) as error:
        with interruption.deferred():
            cut = _cut(error, order, request.out)
            with contextlib.suppress(OSError):
                record.model_copy(update={"cut": (cut.why, cut.status)}).write(request.out)
        raise cut from error
    return order.outcomes


class SessionCut(TickproofError):
    """A session that ended early: ``outcomes`` has one for each requirement.

    why: in words. status: of the command. broke: the exception of the kit that ended it, if any.
    """

    def __init__(
        self, why: str, status: int, outcomes: list[Outcome], broke: Exception | None
    ) -> None:
        super().__init__(why)
        self.why, self.status, self.outcomes, self.broke = why, status, outcomes, broke

    @property
    def full(self) -> bool:
        """True if a disk was full."""
        return self.broke is None and not self.asked

    @property
    def asked(self) -> bool:
        """True if somebody asked for the end."""
        return self.status != EXIT_KIT_ERROR


def _cut(error: KeyboardInterrupt | Exception, order: TierOrder, session: Path) -> SessionCut:
    """Return what an exception left of a session."""
    broke, why, status = None, interruption.words(), interruption.status()
    if order.full is not None:
        why, status = FULL, EXIT_KIT_ERROR
    elif disk_space.caused(error):
        why, status = f"{FULL}, {disk_space.words(session)},", EXIT_KIT_ERROR
    elif isinstance(error, Exception):
        broke, status = error, EXIT_KIT_ERROR
        why = f"ended early: the kit itself broke ({type(error).__name__}: {error})"
    return SessionCut(why, status, _stopped(order, session, why), broke)


def _stopped(order: TierOrder, session: Path, why: str) -> list[Outcome]:
    """Finish an order with what was judged: what its processes noted after the end counts, too."""
    for outcome, *causes in session_record.noted(session):
        if (outcome.requirement, outcome.scenario) in order.awaited:
            order.add(outcome, causes)
    order.stop(why)
    return order.outcomes


def of_record(session: Path, record: SessionRecord) -> list[Outcome]:
    """Return what a session whose process died had judged, from its folder alone.

    Raises HistoryError if its record cannot be used.
    """
    order = TierOrder(
        Path(), record.request, record.selected, None, lambda _: None, record.expected
    )
    try:
        return _stopped(order, session, LOST if record.cut is None else record.cut[0])
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise HistoryError(f"{session / session_record.OUTCOMES}: {error!r}") from error


def _judge(engine: Path, request: Request, order: TierOrder) -> None:
    """Have every test of the selected requirements decided."""
    # A run in which time counts shares the machine with no other run of the kit.
    timed = {registry.LATENCY_TIER} & order.tiers
    for tiers, workers in ((order.tiers - timed, request.workers), (timed, 1)):
        if tiers and not order.broken:
            # Each process takes a second or two to start: none that would find nothing to do.
            workers = max(1, min(workers, len(order.scenarios(tiers))))
            together = replace(request, tiers=tuple(sorted(tiers)), workers=workers)
            if request.profile == "full" and (COVERING, space.space_1.name) in order.awaited:
                _run_covering(engine, together, order)
            else:
                _run_tiers(engine, together, order)
        order.finish(tiers)


def _run_covering(engine: Path, request: Request, order: TierOrder) -> None:
    """Run tiers, and then points for the pairs of the fault space that are left.

    A fault may miss its moment, or come a cut late: then its point is not covered.
    """
    more = COVERING, f"{PREFIX}more"
    order.awaited.add(more)
    _run_tiers(engine, request, order)
    offered = offers(load(engine), on_hosts=request.hosts > 0) or EVERYTHING
    for number in range(1, ROUNDS + 1):
        found = coverage(offered, request.profile, order.points())
        if order.broken or not found.missing:
            break
        left = space_of(offered, request.profile).covering(request.seed + number, found.covered)
        points = {
            f"{PREFIX}more-{number}-{place}": point.to_json() for place, point in enumerate(left, 1)
        }
        order.awaited |= {(COVERING, name) for name in points}
        workers = max(1, min(request.workers, len(points)))
        _run_tiers(engine, replace(request, points=points, workers=workers), order)
    order.awaited.discard(more)


def _run_tiers(engine: Path, request: Request, order: TierOrder) -> None:
    """Run the tiers of a request; what the machine left open is played again, one by one."""
    _run_suites(engine, request, order)
    if again := order.to_play_again():
        _run_suites(engine, replace(request, again=again, workers=1), order)


def _run_suites(engine: Path, request: Request, order: TierOrder) -> None:
    """Run the suites of the tiers of a request under pytest, their scenarios side by side."""
    feed = request.out / "feed.jsonl"
    feed.touch()
    arguments = [
        str(SUITES / "test_requirements.py"),
        "-s",
        # Plugins of others: to load them takes longer than many a scenario.
        "-p",
        "no:faker",
        "-p",
        "no:hypothesispytest",
        "-p",
        pytest_options.__name__,
        "-p",
        "no:terminal",
        "-p",
        "no:cacheprovider",
        # It leaves a folder for fixtures that no suite has.
        "-p",
        "no:tmpdir",
        # They collect garbage five times over at the end of each process.
        "-p",
        "no:unraisableexception",
        "-p",
        "no:threadexception",
        # The suites raise; they assert nothing that would have to be rewritten.
        "--assert=plain",
        "-c",
        os.devnull,
        f"--rootdir={SUITES}",
        "--engine",
        str(engine),
        "--tickproof-request",
        replace(request, feed=feed).to_json(),
    ]
    if request.workers > 1:
        workers = str(request.workers)
        arguments += ["-n", workers, "--no-loadscope-reorder", "--max-worker-restart=0"]
    with Follower(feed, order.on_event):
        status = pytest.main(arguments, plugins=[_Collector(order)])
    if status == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if status in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
        raise RuntimeError(f"pytest ended with {pytest.ExitCode(status).name}; see its output")


class _Collector:
    """A pytest plugin that takes the outcomes out of the reports of all processes.

    Where the session is interrupted it tells them, for only a terminal tells a whole group.
    """

    def __init__(self, order: TierOrder) -> None:
        self._order = order
        self._spread = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self) -> None:
        self._spread = True

    def pytest_keyboard_interrupt(self) -> None:
        if not self._spread:
            return
        for process in psutil.Process().children():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(interruption.to_pass_on())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == pytest_plugin.PROPERTY and report.when != "teardown":
                outcome, *causes = map(Outcome.from_json, json.loads(str(value)))
                self._order.add(outcome, causes)
                if self._order.full is not None:
                    raise KeyboardInterrupt  # no run can be recorded any more
