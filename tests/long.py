"""Tests that take too long for each day: `tox -e long` runs them."""

from __future__ import annotations

import os

import pytest

ASKED = os.environ.get("TICKPROOF_TESTS") == "all"


def examples(number: int) -> int:
    """Return how many examples hypothesis tries: an eighth of them on an ordinary day."""
    return number if ASKED else number // 8


LONG = pytest.mark.skipif(not ASKED, reason="long: tox -e long")
