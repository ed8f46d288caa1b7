"""An empty folder, the command line in this process, a toy engine, a stand-in for the session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.modest_engine import toml
from tickproof.conformance.cli import main
from tickproof.conformance.session import run_command
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.tiers import SessionCut
from tickproof.conformance.verdicts import Outcome, Reason, Verdict


class FakeSession:
    """Stands for run_session: every asked requirement gets ``answers[engine name]``."""

    def __init__(self) -> None:
        self.engines: list[Path] = []
        self.requests: list[Request] = []
        #: Of the engines: OUT/NAME. Runs lie in OUT/NAME/runs/SESSION.
        self.folders: list[Path] = []
        self.answers: dict[str, Verdict | BaseException] = {}

    def __call__(self, engine: Path, request: Request, on_event) -> list[Outcome]:
        self.engines.append(engine)
        self.requests.append(request)
        self.folders.append(request.out.parents[1])
        answer = self.answers.get(self.folders[-1].name, Verdict.PASS)
        if isinstance(answer, Exception):
            raise SessionCut("ended early: it broke", 4, _left(request), answer)
        if isinstance(answer, KeyboardInterrupt):
            raise SessionCut("interrupted with Ctrl-C", 130, _left(request), None)
        outcomes = [Outcome(id_, answer) for id_ in request.only]
        for outcome in outcomes:
            on_event({"event": "decided", "outcome": outcome.to_json()})
        return outcomes


def _left(request: Request) -> list[Outcome]:
    return [Outcome(id_, Verdict.UNKNOWN, reason=Reason.INTERRUPTED) for id_ in request.only]


@pytest.fixture
def session(monkeypatch) -> FakeSession:
    fake = FakeSession()
    monkeypatch.setattr(run_command, "run_session", fake)
    return fake


@pytest.fixture
def tickproof(capsys, monkeypatch, tmp_path) -> Callable[..., tuple[int, str, str]]:
    """Call the command line in this process, in an empty folder: status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return call


@pytest.fixture
def engine(tmp_path) -> Callable[[str], Path]:
    def make(name: str = "toy") -> Path:
        folder = tmp_path / f"engine-{len(list(tmp_path.glob('engine-*')))}"
        folder.mkdir()
        (folder / "engine.toml").write_text(toml(name))
        return folder / "engine.toml"

    return make
