"""Tests that take too long for each day: `tox -e long` runs them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

ASKED = os.environ.get("TICKPROOF_TESTS") == "all"


def examples(number: int) -> int:
    """Return how many examples hypothesis tries: an eighth of them on an ordinary day."""
    return number if ASKED else number // 8


_REASON = "long: tox -e long"
LONG = pytest.mark.skipif(not ASKED, reason=_REASON)


def only_if_asked() -> None:
    """Skip the tests of a fixture that takes long to make."""
    if not ASKED:
        pytest.skip(_REASON)


def few(cases: Iterable[Any], number: int = 1) -> list[Any]:
    """Return the cases of a test, of which all but the first ``number`` are long."""
    each = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=() if at < number else LONG) for at, case in enumerate(each)]
