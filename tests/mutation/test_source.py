"""Mutants of source: found once each, placed right, and made in a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickproof.conformance.errors import RequestError
from tickproof.conformance.selftest.mutation import source

CODE = '''"""Some code."""
from __future__ import annotations

import os

LIMIT: int | None = 3


def more(x: int | str, y: int = 1) -> int | None:
    """Add."""
    return x + y


class Box:
    @property
    def full(self) -> bool | None:
        while True:
            if self.size > LIMIT and not self.open:
                break
        return self.size > LIMIT
'''


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    (tmp_path / "engine.py").write_text(CODE)
    (tmp_path / "engine.toml").write_text("")
    return tmp_path


def test_each_mutation_makes_the_edit_that_it_shows(engine: Path) -> None:
    found = source.mutations(engine)
    assert len(found) > 30
    assert len({one.id for one in found}) == len(found)
    for one in found:
        source.apply(one, engine)
        mutated = (engine / "engine.py").read_text().splitlines()
        (engine / "engine.py").write_text(CODE)
        assert mutated != CODE.splitlines()
        old = CODE.splitlines()[one.line - 1 :][: len(one.old.splitlines())]
        assert "\n".join(old).strip() == one.old
        new = mutated[one.line - 1 :][: len(one.new.splitlines())]
        assert "\n".join(new).strip() == one.new
        rest = len(old), len(new)
        assert mutated[one.line - 1 + rest[1] :] == CODE.splitlines()[one.line - 1 + rest[0] :]


def test_annotations_are_no_program(engine: Path) -> None:
    found = source.mutations(engine)
    assert not [one for one in found if "BitOr_" in one.operator]
    assert {(one.old, one.new) for one in found} >= {
        ("LIMIT: int | None = 3", "LIMIT: int | None = 4"),
        ("return x + y", "return x - y"),
        ("return self.size > LIMIT", "return self.size >= LIMIT"),
        ("@property", ""),
        ("break", "continue"),
    }


def test_a_mutation_of_other_source_does_not_fit(engine: Path) -> None:
    last = next(one for one in source.mutations(engine) if one.new == "return self.size >= LIMIT")
    before = source.digest(engine)
    (engine / "engine.py").write_text("LIMIT = 1\n")
    assert source.digest(engine) != before
    with pytest.raises(RequestError, match=r"engine\.py has no such place"):
        source.apply(last, engine)
