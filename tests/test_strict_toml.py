"""A file of settings is a model, or every mistake in it is named in the words of the file."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field

from tickproof.conformance import strict_toml
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.strict_toml import Table


class Wheel(Table):
    id: str
    inches: Annotated[float, Field(gt=0, le=1_500)] = 26.0


class Frame(Table):
    colours: list[str] = []
    steel: bool = True


class Bicycle(Table):
    gears: Annotated[int, Field(ge=1)]
    frame: Frame = Frame()
    notes: dict[str, str] = Field(default_factory=dict)
    wheel: Annotated[list[Wheel], Field(max_length=2)] = []


def load(tmp_path, content):
    path = tmp_path / "bicycle.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return strict_toml.load(path, Bicycle)


def errors_of(tmp_path, content):
    with pytest.raises(InvalidFile) as caught:
        load(tmp_path, content)
    path = tmp_path / "bicycle.toml"
    assert str(caught.value) == "\n".join(f"{path}: {error}" for error in caught.value.errors)
    return caught.value.errors


def test_a_good_file(tmp_path):
    found = load(tmp_path, 'gears = 3\n[notes]\na = "b"\n[[wheel]]\nid = "rear"\ninches = 28')
    assert found == Bicycle(gears=3, notes={"a": "b"}, wheel=[Wheel(id="rear", inches=28)])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "gears: missing"),
        ("gears = 0", "gears: expected a number at least 1; got 0"),
        ("gears = 3.0", "gears: expected a whole number; got 3.0"),
        ("gears = true", "gears: expected a whole number; got True"),
        ("gears = 3\ngaers = 4", "gaers: unknown key; expected gears, or a table: frame, notes, "
         "wheel (did you mean gears?)"),
        ("gears = 3\n[frame]\nsteel = 1", "[frame] steel: expected true or false; got 1"),
        ("gears = 3\n[frame]\ncolours = ['red', 7]", "[frame] colours[1]: expected text; got 7"),
        ("gears = 3\nframe = 1", "[frame]: expected a table; got 1"),
        ("gears = 3\n[frames]", "[frames]: unknown key; expected one of frame, notes, wheel"
         " (did you mean frame?)"),
        ("gears = 3\n[notes]\na = 1", "[notes] a: expected text; got 1"),
        ("gears = 3\n[wheel]", "[[wheel]]: expected a list; got {}"),
        ("gears = 3\n[[wheel]]", "[[wheel]] 1: id: missing"),
        ("gears = 3\n[[wheel]]\nid = 'rear'\ninches = 1501",
         "[[wheel]] rear: inches: expected a number at most 1,500; got 1501"),
        ("gears = 3\nwheel = [5]", "[[wheel]] 1: expected a table; got 5"),
        ("gears = 3" + "\n[[wheel]]\nid = ''" * 3, "[[wheel]]: expected at most 2 entries; got "
         "[{'id': ''}, {'id': ''}, {'id': ''}]"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place_and_what_was_expected(tmp_path, text, error):
    assert errors_of(tmp_path, text) == [error]


def test_all_mistakes_are_named_at_once(tmp_path):
    found = errors_of(tmp_path, "gears = 0\n[frame]\nsteel = 1\n[[wheel]]\n[[wheel]]\nid = 3")
    assert [line.split(":")[0] for line in found] == [
        "gears",
        "[frame] steel",
        "[[wheel]] 1",
        "[[wheel]] 2",
    ]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("gears = ", "expected TOML; Invalid value (at end of document)"),
        (b"gears = 3 # \xff", "expected UTF-8; byte 12 is not"),
        ("gears = " + "[" * 100_000, "expected TOML; maximum recursion depth exceeded"),
        ("#" * (strict_toml.MAX_BYTES + 1), "expected at most 1,048,576 bytes"),
    ],
    ids=["text", "bytes", "depth", "size"],
)
def test_what_is_no_toml(tmp_path, content, error):
    (found,) = errors_of(tmp_path, content)
    assert found.startswith(error)


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(InvalidFile, match=r"none\.toml: there is no such file"):
        strict_toml.load(tmp_path / "none.toml", Bicycle)
    with pytest.raises(InvalidFile, match="expected a readable file; Is a directory"):
        strict_toml.load(tmp_path, Bicycle)


def test_text_of_a_file_is_made_safe(tmp_path):
    found = errors_of(tmp_path, 'gears = "\\u001b[31m"\n"\\u001b" = 1\n["\\u202e"]\na = 1')
    assert len(found) == 3
    assert all(line.isprintable() for line in found)
