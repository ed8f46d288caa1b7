"""Tests that take too long for each day: `tox -e long` runs them."""

from __future__ import annotations

import os

import pytest

ASKED = os.environ.get("TICKPROOF_TESTS") == "all"
LONG = pytest.mark.skipif(not ASKED, reason="long: tox -e long")
