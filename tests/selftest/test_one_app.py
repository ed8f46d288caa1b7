"""Engines of one app each that claim exactly-once and never write a cut: each is failed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.long import LONG
from tickproof.conformance.report import machine
from tickproof.conformance.resources import fixtures
from tickproof.conformance.session.request import Request
from tickproof.conformance.session.tiers import run_session
from tickproof.conformance.suites import registry
from tickproof.conformance.verdicts import Verdict

APPS = {
    "count-some": '[apps.count]\nemit = ["some"]\n',
    "market": '[apps.market-spread]\ninputs = ["two"]\nemit = ["verdicts"]\nfreshness_s = 5.0\n',
    "passthrough": "[apps.passthrough]\n",
}


def forgetful(folder: Path, app: str) -> Path:
    """Make the engine of one process without its cuts, and with one app; return its toml."""
    shutil.copytree(fixtures() / "engines" / "single", folder)
    partition, toml = folder / "partition.py", folder / "engine.toml"
    write = "checkpoint.write(self.path, following)"
    text = partition.read_text(encoding="utf-8")
    assert text.count(write) == 1
    # It releases nothing either, so that it can always begin anew.
    text = text.replace(write, "pass")
    release = "log.release(stream, self.number, offset)"
    assert text.count(release) == 1
    partition.write_text(text.replace(release, "pass"), encoding="utf-8")
    whole = toml.read_text(encoding="utf-8")
    toml.write_text(whole[: whole.index("[apps.")] + APPS[app], encoding="utf-8")
    return toml


def verdicts(folder: Path, app: str, seed: int, only: tuple[str, ...]) -> dict[str, Verdict]:
    toml = forgetful(folder / "engine", app)
    workers = machine.runs_at_once()
    request = Request(out=folder / "out", seed=seed, only=only, workers=workers)
    outcomes = run_session(toml, request, lambda _: None)
    return {outcome.requirement: outcome.verdict for outcome in outcomes}


@LONG
@pytest.mark.parametrize("app", APPS)
def test_without_a_cut_it_is_failed_on_whatever_app_it_offers(app, tmp_path):
    found = verdicts(tmp_path, app, 1, ("EO-FROM-CHECKPOINT",))
    # What blocks it, where the run broke off, is told of, too.
    assert found.pop("EO-FROM-CHECKPOINT") == Verdict.FAIL
    assert set(found.values()) <= {Verdict.FAIL}


@LONG
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("app", APPS)
def test_seed_after_seed(app, seed, tmp_path):
    found = verdicts(tmp_path, app, seed, registry.EXACTLY_ONCE)
    assert Verdict.FAIL in found.values()
    # It claims no checkpoint op, and for that it releases nothing it sends no RELEASE.
    not_claimed = {name for name, verdict in found.items() if verdict == Verdict.NOT_CLAIMED}
    assert not_claimed <= {"EO-CHECKPOINT-OP", "EO-RELEASED"}
