"""Of which partitions wrong outputs are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tickproof.conformance.checkers.matching import PLACES
from tickproof.conformance.explain import values


def facts(answers: list[int], partitions: int) -> Any:
    """Return a run with two records in each partition, and the record that each output answers."""

    def places(rows: np.ndarray) -> np.ndarray:
        found = np.zeros(len(rows), PLACES)
        found["partition"] = rows // 2
        return found

    return SimpleNamespace(
        matching=SimpleNamespace(answers=np.array(answers), places=places),
        partition=lambda _stream, number: f"partition {number}",
        history=SimpleNamespace(partitions=[None] * partitions),
    )


@pytest.mark.parametrize(
    ("answers", "partitions", "said"),
    [
        ([0, 4, 5], 4, ": 1 of partition 0 and 2 of partition 2"),
        ([2, 3], 4, ": 2 of partition 1"),
        ([0, 2], 2, ""),  # all of them
        ([0], 1, ""),
        ([0, -1], 4, ""),  # one answers nothing
        ([0, 2, 4, 6, 8], 9, ""),  # too many to name
    ],
)
def test_they_are_named_if_they_are_few(answers: list[int], partitions: int, said: str) -> None:
    made = facts(answers, partitions)
    assert values._partitions(made, np.arange(len(answers))) == said


def test_without_a_matching_none_is_named() -> None:
    made = SimpleNamespace(matching=None)
    assert values._partitions(made, np.array([0])) == ""
