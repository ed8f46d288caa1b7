"""What is judged of a job, and how: its requirements, and the options that give the same again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickproof.conformance.engines.isolation import Level
from tickproof.conformance.jobs.requirements import JB
from tickproof.conformance.jobs.session import Settings


@pytest.mark.parametrize(
    ("only", "selected", "played"),
    [
        ((), JB.keys(), {"restart", "cut", "commit"}),
        (["JB-CUT"], {"JB-CALM", "JB-CUT"}, {"cut"}),
        (["JB-LOST"], {"JB-CALM", "JB-LOST"}, {"restart", "cut", "commit"}),
        (["JB-CALM"], {"JB-CALM"}, set()),
    ],
)
def test_what_is_asked_for_is_played(only: list[str], selected: set[str], played: set[str]) -> None:
    settings = Settings(Path(), 1, only=only)
    assert settings.selected.keys() == selected
    assert {one for one in ("restart", "cut", "commit") if settings.plays(one)} == played


def test_another_session_is_the_same_with_what_is_printed() -> None:
    assert str(Settings(Path(), 7)) == "--seed 7"
    once = Settings(Path(), 7, level=Level.NONE, at_once=1, only=["JB-CUT", "JB-LOST"])
    assert str(once) == "--seed 7 -n 1 --isolation none --only JB-CUT --only JB-LOST"
