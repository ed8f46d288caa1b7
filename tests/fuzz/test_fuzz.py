"""A short turn of the fuzzer; `python -m tests.fuzz` takes as long as it is given."""

from __future__ import annotations

import math

import pytest

from tests.fuzz.__main__ import feed
from tests.fuzz.targets import TARGETS

#: Rounds of each target: some seconds in all.
ROUNDS = {"frames": 200, "control": 100, "engine-toml": 60, "schedules": 60, "csv": 40}


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_input_ends_in_the_error_that_is_documented(name, tmp_path):
    rounds = ROUNDS.get(name, 25)
    fed, broken = feed(name, tmp_path / name, 20, math.inf, rounds)
    assert broken == []
    assert fed >= rounds


#: Inputs that once broke the kit, by their rounds.
FOUND = (
    ("runs", 1), ("runs", 2), ("packs", 1), ("packs", 2), ("packs", 3), ("csv", 1),
)  # fmt: skip


@pytest.mark.parametrize(("name", "seed"), FOUND)
def test_what_was_found_stays_found(name, seed, tmp_path):
    assert feed(name, tmp_path / name, seed, math.inf, 15)[1] == []
