"""The pytest side of the suites: selection, the ``history`` fixture, verdicts.

`pytest_options` loads it where an engine is named, and the suites where they are collected.
"""

from __future__ import annotations

import json
import os
import secrets
import traceback
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tickproof.conformance.engines import interruption
from tickproof.conformance.engines.preparation import prepare
from tickproof.conformance.engines.spec import find, load
from tickproof.conformance.errors import InvalidFile, KitStopped, RequestError
from tickproof.conformance.history.folder import History
from tickproof.conformance.resources import fixtures
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.scenario_player import ScenarioPlayer
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.catalog import JUDGES, judges_of, seconds
from tickproof.conformance.suites.outcomes import outcome_of, with_causes
from tickproof.conformance.verdicts import EXIT_NOT_JUDGED, JUDGED, Outcome, Reason, Verdict
from tickproof.generators.recipes import secret_of

PROPERTY = "tickproof"
_SECRET = "tickproof_secret"
#: The argument of an item that decides a requirement; no fixture of users has this name.
JUDGE = "tickproof_judge"

__all__ = [
    "history",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_generate_tests",
    "pytest_runtest_makereport",
    "pytest_sessionfinish",
    "pytest_xdist_make_scheduler",
]


def pytest_configure(config: pytest.Config) -> None:
    """Load the engine; a wrong engine.toml ends pytest with a usage error."""
    if hasattr(config, "workerinput"):
        interruption.listen_as_worker()
    config.addinivalue_line("markers", "decides(requirement, scenario): what a test decides")
    option = config.option
    if option.engine is None:
        return
    requirements = registry.load()
    try:
        spec = load(find(option.engine, fixtures()), requirements)
        _settle_secret(config)
        request = _request(option)
        for id_ in request.only:
            registry.require_known(id_, f"--tickproof-only: no requirement {id_}")
        if not option.tickproof_request and not hasattr(config, "workerinput"):
            prepare(spec, request.out / "prepare.log")
        player = ScenarioPlayer(spec, _with_own_port(request))
    except (InvalidFile, KitStopped, RequestError) as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[_PLAYER] = player
    if not option.tickproof_request and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_NoEmptyGreen())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the secret of the session to a process of xdist."""
    node.workerinput[_SECRET] = node.config.option.tickproof_secret


def _settle_secret(config: pytest.Config) -> None:
    """Draw the secret of the session, unless one is given; raises RequestError for what is none."""
    option, handed = config.option, getattr(config, "workerinput", {})
    given = option.tickproof_secret or handed.get(_SECRET) or secrets.token_hex(16)
    try:
        option.tickproof_secret = secret_of(given)
    except ValueError as error:
        raise RequestError(f"--tickproof-secret: {error}") from error


def _request(option: Any) -> Request:
    """Return what the options ask for."""
    if option.tickproof_request:
        return Request.from_json(option.tickproof_request)
    return Request(
        out=Path(option.tickproof_out),
        seed=option.tickproof_seed,
        secret=option.tickproof_secret,
        profile=option.tickproof_profile,
        tiers=tuple(option.tickproof_tier or ()),
        only=tuple(option.tickproof_only or ()),
        port=option.tickproof_port,
        quotes=option.tickproof_quotes and Path(option.tickproof_quotes),
        orders=option.tickproof_orders and Path(option.tickproof_orders),
        strict=option.tickproof_strict,
        schedules=tuple(map(Path, option.tickproof_schedule or ())),
    )


def _with_own_port(request: Request) -> Request:
    """Give each process of xdist a port of its own: consecutive ones from the first on."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    number = int(worker.removeprefix("gw"))
    return replace(request, port=request.port + number) if request.port else request


_PLAYER = pytest.StashKey[ScenarioPlayer]()
#: How long the first test of a scenario waited for its run.
_SETUP = pytest.StashKey[float]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make an item of each requirement and scenario; of given schedules or points, of no others."""
    if JUDGE not in metafunc.fixturenames:
        return
    player = metafunc.config.stash.get(_PLAYER, None)
    scenarios = [*JUDGES]
    if player and player.request.schedules:
        scenarios = [*player.schedules]
    elif player and player.request.points:
        scenarios = player.points
    elif player:
        scenarios = [*dict.fromkeys((*JUDGES, *player.schedules, *player.points))]
    decided = [
        pytest.param(
            judge, id=f"{requirement}:{scenario}", marks=pytest.mark.decides(requirement, scenario)
        )
        for scenario in scenarios
        for requirement, judge in judges_of(scenario)
    ]
    metafunc.parametrize(JUDGE, decided)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the selected tiers and requirements, lower tiers first."""
    decided = {item: mark.args for item in items if (mark := item.get_closest_marker("decides"))}
    if not decided:
        return  # somebody else's tests
    tier_of = {id_: requirement.tier for id_, requirement in registry.load().items()}

    player = config.stash.get(_PLAYER, None)
    request = _request(config.option)
    selected = registry.chosen(
        registry.load(), request.tiers, request.only, request.profile, request.hosts > 0
    )

    def dropped(item: pytest.Item) -> bool:
        if item not in decided:
            return False
        requirement, scenario = decided[item]
        again = not request.again or scenario in request.again
        return not again or requirement not in selected

    def order(item: pytest.Item) -> tuple[int, float]:
        # In a tier the longest scenarios come first, so that none is left to the end.
        if item not in decided:
            return -1, 0.0
        requirement, scenario = decided[item]
        return tier_of[requirement], -(player.seconds if player else seconds)(scenario)

    if gone := [item for item in items if dropped(item)]:
        config.hook.pytest_deselected(items=gone)
    items[:] = sorted((item for item in items if not dropped(item)), key=order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of one scenario in one process, so that it is played once."""
    if config.option.engine is None:
        return None  # somebody else's tests
    from tickproof.conformance.session.xdist_scheduler import ScenarioScheduling

    return ScenarioScheduling(config, log)


@pytest.fixture
def history(request: pytest.FixtureRequest) -> History:
    """The history of the test's scenario: played once, kept for its other tests."""
    requirement, scenario = request.node.get_closest_marker("decides").args
    player = request.config.stash.get(_PLAYER, None)
    if player is None:
        pytest.skip("no engine: say --engine NAME or --engine PATH/engine.toml")
    return player.history(requirement, scenario)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn what a test raised into an outcome, attached to its report."""
    report = yield
    decided = item.get_closest_marker("decides")
    player = item.config.stash.get(_PLAYER, None)
    if decided is None or player is None or call.when == "teardown":
        return report
    error = call.excinfo.value if call.excinfo else None
    if call.when == "setup" and error is None:
        item.stash[_SETUP] = call.duration
        return report
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return report
    requirement, scenario = decided.args
    outcome = outcome_of(requirement, scenario, error, player.played(scenario))
    outcome = player.completed(outcome, call.duration + item.stash.get(_SETUP, 0.0))
    # With it comes the failure that blocks it, if there is one.
    decisions = with_causes([outcome], player.spec.known_gaps)
    outcome = decisions[0]
    player.save(decisions)
    report.user_properties.append((PROPERTY, json.dumps([one.to_json() for one in decisions])))
    if outcome.verdict is Verdict.KIT_ERROR and error and outcome.reason != Reason.NO_SPACE:
        player.keep_traceback("".join(traceback.format_exception(error)))
    _colour(report, outcome)
    return report


def _colour(report: pytest.TestReport, outcome: Outcome) -> None:
    """Set the pytest outcome that fits the verdict: an unknown is never green."""
    text = f"{outcome.requirement}: {outcome.verdict}"
    if outcome.reason:
        text += f" ({outcome.reason})"
    if outcome.verdict is Verdict.PASS:
        report.outcome = "passed"
    elif outcome.verdict in (Verdict.NOT_CLAIMED, Verdict.KNOWN_GAP):
        report.outcome = "skipped"
        report.longrepr = (report.location[0], report.location[1] or 0, f"{text} {outcome.actual}")
    else:
        report.outcome = "failed"
        if outcome.verdict is not Verdict.KIT_ERROR:
            if outcome.blocked_by:
                text += f", by {', '.join(outcome.blocked_by)}"
            lines = [text, f"expected {outcome.expected}", f"actual   {outcome.actual}"]
            report.longrepr = "\n".join([*lines, f"run      {outcome.run}", outcome.reproduce])


class _NoEmptyGreen:
    """A pytest plugin: a session that judged nothing of its engine ends as one without tests."""

    def __init__(self) -> None:
        self._judged = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == PROPERTY:
                self._judged |= any(one["verdict"] in JUDGED for one in json.loads(value))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and not self._judged:
            session.exitstatus = EXIT_NOT_JUDGED


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Drop what can be made again from the run folders of this process."""
    player = session.config.stash.get(_PLAYER, None)
    if player is not None:
        player.tidy()
