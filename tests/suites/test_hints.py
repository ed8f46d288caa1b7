"""Promises and their likely causes are told apart."""

from __future__ import annotations

from tickproof.conformance.suites import registry
from tickproof.conformance.suites.hints import halves


def test_every_promise_has_two_halves_and_nothing_is_lost():
    for one in registry.load().values():
        said, causes = halves(one.promise)
        assert causes.startswith("If "), one.id
        assert said.endswith("."), one.id
        assert f"{said} {causes}".split() == one.promise.split(), one.id


def test_a_promise_without_causes_stays_whole():
    assert halves("It holds. If") == ("It holds. If", "")
    assert halves("") == ("", "")
