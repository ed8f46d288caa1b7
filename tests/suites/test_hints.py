"""Promises and their likely causes are told apart."""

from __future__ import annotations

from tickproof.conformance.suites import registry
from tickproof.conformance.suites.hints import halves


def test_every_promise_has_two_halves_and_nothing_is_lost():
    for one in registry.load().values():
        said, causes = halves(one.promise)
        assert causes[0].isupper() and not causes.startswith("If it fails,"), one.id
        assert said.endswith("."), one.id
        told = one.promise.split(" If it fails, ")
        assert f"{said} {causes}".casefold().split() == " ".join(told).casefold().split(), one.id


def test_a_promise_without_causes_stays_whole():
    assert halves("It holds. If") == ("It holds. If", "")
    assert halves("") == ("", "")
