"""A recipe is held against run.json before anything is made from it."""

from __future__ import annotations

import os

import pytest

from tickproof.conformance.history.input_replay import input_facts
from tickproof.conformance.history.remade_input import remade
from tickproof.conformance.history.run_record import Input
from tickproof.generators import recipes

RECIPE = {"kind": "keyed", "seed": 1, "records": 100, "partitions": 2, "keys": 5}


@pytest.fixture
def given(tmp_path):
    """Return what run.json says of an input."""
    return Input.model_validate(input_facts(recipes.build(RECIPE, tmp_path / "input")))


def test_it_is_made_again(given, tmp_path):
    made = remade(given, tmp_path / "again")
    assert [part.sha256 for part in made.partitions] == [row.sha256 for row in given.partitions]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"records": 1 << 32}, "expected a recipe of 100 records, got one of 4,294,967,296"),
        ({"kind": "script", "rows": [[1]] * 50, "repeat": 10_000}, "got one of 500,000"),
        ({"kind": "script", "rows": 7, "repeat": 1}, "expected the record of an input"),
        ({"records": "many"}, "expected the record of an input"),
        ({"kind": "payloads", "size": 1 << 20}, "records of 16 bytes, got a recipe of 1,048,576"),
        ({"kind": "market"}, "expected records of 16 bytes, got a recipe of 52"),
    ],
)
def test_a_recipe_of_another_size_makes_nothing(given, tmp_path, change, said):
    given.recipe |= change
    with pytest.raises(ValueError, match=said):
        remade(given, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_recording_is_a_plain_file_of_known_content(given, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    given.recipe = {"kind": "keyed-csv", "path": str(pipe), "sha256": None}
    with pytest.raises(ValueError, match="expected the sha256 of path, got none"):
        remade(given, tmp_path / "again")
    given.recipe["sha256"] = "0" * 64
    with pytest.raises(ValueError, match=r"path: .*pipe' is no plain file"):
        remade(given, tmp_path / "again")
