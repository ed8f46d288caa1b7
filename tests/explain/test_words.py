"""Each finding of a checker has words."""

from __future__ import annotations

from tickproof.conformance.checkers import findings
from tickproof.conformance.checkers.findings import Finding
from tickproof.conformance.explain.words import words


def test_each_class_of_findings_has_words_of_its_own():
    classes = [one for one in vars(findings).values() if isinstance(one, type)]
    made = [one for one in classes if issubclass(one, Finding) and not one.__subclasses__()]

    assert len(made) > 15
    assert [one for one in made if words.dispatch(one) is words.dispatch(Finding)] == []
