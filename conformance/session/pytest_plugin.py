"""The suites as pytest items, one for each requirement and each scenario that decides it.

`pytest_options` loads it where an engine is named, and the suites where they are collected.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tickproof.conformance.engines import interruption
from tickproof.conformance.engines.preparation import prepare
from tickproof.conformance.engines.spec import find, load
from tickproof.conformance.errors import InvalidFile, KitStopped, RequestError
from tickproof.conformance.explain.outcomes import with_causes
from tickproof.conformance.resources import fixtures
from tickproof.conformance.session import pytest_options
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.scenario_player import TRACEBACKS, ScenarioPlayer
from tickproof.conformance.suites import registry
from tickproof.conformance.verdicts import EXIT_NOT_JUDGED, JUDGED, Outcome, Verdict
from tickproof.generators.recipes import secret_of

PROPERTY: Final = "tickproof"
_SECRET: Final = "tickproof_secret"
_DECIDE: Final = "tickproof_decide"
_PLAYER: Final = pytest.StashKey[ScenarioPlayer]()


def pytest_configure(config: pytest.Config) -> None:
    """Load the engine; a wrong engine.toml ends pytest with a usage error."""
    if hasattr(config, "workerinput"):
        interruption.listen_as_worker()
    config.addinivalue_line("markers", "decides: a test of the suites, which decides a requirement")
    if config.option.engine is None:
        return
    try:
        config.stash[_PLAYER] = _player(config)
    except (InvalidFile, KitStopped, RequestError) as error:
        raise pytest.UsageError(str(error)) from error


def _player(config: pytest.Config) -> ScenarioPlayer:
    """Return what plays the engine that is named; raises RequestError, InvalidFile, KitStopped."""
    option, handed = config.option, getattr(config, "workerinput", None)
    spec = load(find(option.engine, fixtures()), registry.load())
    if option.tickproof_request:
        request = Request.from_json(option.tickproof_request)
    else:
        option.tickproof_secret = _secret(option.tickproof_secret or (handed or {}).get(_SECRET))
        request = pytest_options.request(option)
        for id_ in request.only:
            registry.require_known(id_, f"--tickproof-only: no requirement {id_}")
        if handed is None:
            prepare(spec, request.out / "prepare.log")
            config.pluginmanager.register(_NoEmptyGreen())
    if request.port:  # consecutive ones for the processes of xdist
        worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
        request = replace(request, port=request.port + int(worker.removeprefix("gw")))
    return ScenarioPlayer(spec, request)


def _secret(given: str | None) -> str:
    """Return the secret of the session; raises RequestError for what is none."""
    try:
        return secret_of(given or secrets.token_hex(16))
    except ValueError as error:
        raise RequestError(f"--tickproof-secret: {error}") from error


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the secret of the session to a process of xdist."""
    node.workerinput[_SECRET] = node.config.option.tickproof_secret


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of one scenario in one process, so that it is played once."""
    if config.option.engine is None:
        return None  # somebody else's tests
    from tickproof.conformance.session.xdist_scheduler import ScenarioScheduling

    return ScenarioScheduling(config, log)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make an item of each requirement and scenario that the session asks for."""
    if _DECIDE not in metafunc.fixturenames:
        return
    player = metafunc.config.stash.get(_PLAYER, None)
    if player is None:
        why = pytest.mark.skip("no engine: say --engine NAME or --engine PATH/engine.toml")
        items = [pytest.param(None, id="no-engine", marks=why)]
    else:
        items = [
            pytest.param(test, id=f"{test[0]}:{test[1]}", marks=pytest.mark.decides)
            for test in player.scenarios.tests()
        ]
    metafunc.parametrize(_DECIDE, items, indirect=True)


@pytest.fixture(name=_DECIDE)
def _decide(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Return what decides a requirement on a scenario, saves it, and comes out as it does."""
    player = request.config.stash[_PLAYER]

    def decide() -> None:
        # With it comes the failure that blocks it, if there is one.
        decisions = with_causes([player.decide(*request.param)], player.spec.known_gaps)
        player.save(decisions)
        text = json.dumps([one.to_json() for one in decisions])
        request.node.user_properties.append((PROPERTY, text))
        _come_out(decisions[0], player.request.out)

    return decide


def _come_out(outcome: Outcome, out: Path) -> None:
    """End a test of pytest as fits the verdict: an unknown is never green."""
    if outcome.verdict is Verdict.PASS:
        return
    text = f"{outcome.requirement}: {outcome.verdict}"
    if outcome.reason:
        text += f" ({outcome.reason})"
    if outcome.verdict in (Verdict.NOT_CLAIMED, Verdict.KNOWN_GAP):
        pytest.skip(f"{text} {outcome.actual}")
    if outcome.blocked_by:
        text += f", by {', '.join(outcome.blocked_by)}"
    lines = [text, f"expected {outcome.expected}", f"actual   {outcome.actual}"]
    if outcome.verdict is Verdict.KIT_ERROR:
        lines.append(f"why      {out / TRACEBACKS}")
    pytest.fail("\n".join([*lines, f"run      {outcome.run}", outcome.reproduce]), pytrace=False)


class _NoEmptyGreen:
    """A pytest plugin: a session that judged nothing of its engine ends as one without tests."""

    def __init__(self) -> None:
        self._judged = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == PROPERTY:
                self._judged |= any(one["verdict"] in JUDGED for one in json.loads(str(value)))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and not self._judged:
            session.exitstatus = EXIT_NOT_JUDGED


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Drop what can be made again from the run folders of this process."""
    player = session.config.stash.get(_PLAYER, None)
    if player is not None:
        player.tidy()
