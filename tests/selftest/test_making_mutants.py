"""Mutants that cannot be found or made are refused with file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.resources import fixtures
from tickproof.conformance.selftest import mutants

SOUND = """
id = "some-mutant"
defect = "It does something wrong."
requirement = "SL-DOUBLE"
shows = "lost"
headline = "gave none"

[[edit]]
file = "engine.py"
old = "a = 1"
new = "a = 2"
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A fixtures folder with an engine of one line and one mutant of it."""
    engine = tmp_path / "engines" / "miniature"
    engine.mkdir(parents=True)
    (engine / "engine.toml").write_text('[engine]\nname = "miniature"\n')
    (engine / "engine.py").write_text("a = 1\n")
    (tmp_path / "mutants").mkdir()
    (tmp_path / "mutants" / "some-mutant.toml").write_text(SOUND)
    return tmp_path


def write(house: Path, old: str, new: str) -> None:
    assert old in SOUND
    (house / "mutants" / "some-mutant.toml").write_text(SOUND.replace(old, new, 1))


def test_a_copy_has_the_edits_and_a_name_of_its_own(house: Path) -> None:
    (mutant,) = mutants.available(house)
    folder = house / "copy"
    folder.mkdir()
    (folder / "left-over").write_text("from before")
    engine = mutants.make(mutant, house, folder)
    assert engine == folder / "engine.toml"
    assert 'name = "miniature+some-mutant"' in engine.read_text()
    assert (folder / "engine.py").read_text() == "a = 2\n"
    assert not (folder / "left-over").exists()
    assert (house / "engines" / "miniature" / "engine.py").read_text() == "a = 1\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('defect = "It does something wrong."\n', "", "defect: missing"),
        (
            'shows = "lost"',
            'show = "lost"',
            "show: unknown key; expected one of id, engine, variant, defect, ",
        ),
        (
            'file = "engine.py"',
            'file = "../engine.py"',
            "[[edit]] 1: file: expected a .py or .toml file",
        ),
        ("[[edit]]", "[edit]", "[[edit]]: expected a list; got "),
        ('id = "some-mutant"', 'id = "other"', "id: expected the file's name 'some-mutant'"),
        ('id = "', "id = ", "expected TOML; "),
    ],
)
def test_a_bad_file_is_named_with_its_key(house: Path, old: str, new: str, said: str) -> None:
    write(house, old, new)
    with pytest.raises(InvalidFile) as error:
        mutants.available(house)
    assert "some-mutant.toml: " + said in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'old = "a = 1"',
            'old = "b"',
            "[[edit]] 1: old: expected once in engine.py, found 0 times: b",
        ),
        ('old = "a = 1"', 'old = ""', "[[edit]] 1: old: expected text that is not empty"),
        ('file = "engine.py"', 'file = "none.py"', "[[edit]] 1: file: miniature has no none.py"),
    ],
)
def test_an_edit_that_does_not_fit_is_named(house: Path, old: str, new: str, said: str) -> None:
    write(house, old, new)
    with pytest.raises(InvalidFile) as error:
        mutants.make(mutants.find("mutant:some-mutant", house), house, house / "copy")
    assert said in str(error.value)


def test_the_edits_of_a_variant_come_first(house: Path) -> None:
    (house / "sound_variants").mkdir()
    (house / "sound_variants" / "other.toml").write_text(
        'id = "other"\ndifference = "Twice."\n\n'
        '[[edit]]\nfile = "engine.py"\nold = "a = 1"\nnew = "a = 1\\nb = a"\n'
    )
    write(house, 'id = "some-mutant"\n', 'id = "some-mutant"\nvariant = "other"\n')
    engine = mutants.make(mutants.find("mutant:some-mutant", house), house, house / "copy")
    assert (engine.parent / "engine.py").read_text() == "a = 2\nb = a\n"
    write(house, 'id = "some-mutant"\n', 'id = "some-mutant"\nvariant = "others"\n')
    with pytest.raises(InvalidFile, match="variant:others: no such variant; expected one of other"):
        mutants.make(mutants.find("mutant:some-mutant", house), house, house / "copy")


def test_an_old_text_that_stands_twice_is_refused(house: Path) -> None:
    (house / "engines" / "miniature" / "engine.py").write_text("a = 1\na = 1\n")
    with pytest.raises(InvalidFile, match=r"expected once in engine\.py, found 2 times"):
        mutants.make(mutants.find("mutant:some-mutant", house), house, house / "copy")


def test_an_unknown_mutant_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidFile, match=r"mutant:stale-quotes: .*stale-quote"):
        mutants.find("mutant:stale-quotes", fixtures())


def test_a_sound_variant_answers_to_its_earlier_prefix_too() -> None:
    variant = mutants.sound_variants(fixtures())[0]
    for prefix in ("variant", "oddity"):
        assert mutants.find(f"{prefix}:{variant.id}", fixtures()) == variant
