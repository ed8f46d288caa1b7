"""Promises and their likely causes are told apart."""

from __future__ import annotations

import pytest

from tickproof.conformance.jobs.requirements import JB
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.hints import halves


def test_every_promise_has_two_halves_and_nothing_is_lost():
    for one in registry.load().values():
        said, causes = halves(one.promise)
        assert causes[0].isupper() and not causes.startswith("If it fails,"), one.id
        assert said.endswith("."), one.id
        told = one.promise.split(" If it fails, ")
        assert f"{said} {causes}".casefold().split() == " ".join(told).casefold().split(), one.id


@pytest.mark.parametrize(
    ("id_", "reason", "causes"),
    [
        ("JB-SLOW", "lost", "What was not answered in time was given up."),
        ("JB-POISON", "duplicate", "The record was handled as others are, or what"),
        ("JB-POISON", "wrong-total", "The record was handled as others are, or what"),
        ("JB-CUT", "NO_RECOVERY", "A call without a time limit waits"),
        ("JB-CUT", "wrong-total", "If something is lost, what was under way on them"),
        ("JB-CUT", "EXITED", ""),
        ("JB-CUT", "", "If something is lost, what was under way on them"),
        ("JB-ALL", "lost", "What one of them had to restore was held by another alone."),
    ],
)
def test_causes_are_those_of_what_is_wrong(id_: str, reason: str, causes: str) -> None:
    found = halves(JB[id_].promise, reason)[1]
    assert found.startswith(causes) and bool(found) == bool(causes)
    assert "stands still" not in found or not reason


def test_a_promise_without_causes_stays_whole():
    assert halves("It holds. If") == ("It holds. If", "")
    assert halves("") == ("", "")
