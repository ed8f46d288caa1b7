"""Mutants: copies of a sound engine with one known defect each, to judge the judge.

A mutant is a TOML file under ``fixtures/mutants``: what the defect is, which requirement
has to fail for it, and the edits that make it out of the sound engine.
"""

from __future__ import annotations

import difflib
import shutil
import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conformance import resources
from conformance.engines.spec import FILE_NAME
from conformance.text import shown

#: A mutant's name on the command line is this and its id.
PREFIX: Final = "mutant:"
Original = Literal["miniature", "spark"]
#: What the Spark engine imports; a copy of it lies in the mutant's folder and is found first.
_PACKAGE: Final = "reference"

_Text = Annotated[str, Field(min_length=1)]


class MutantError(ValueError):
    """A mutant that does not exist or cannot be made; the text names file and key."""


class Edit(BaseModel):
    """``old`` stands exactly once in ``file`` and becomes ``new``.

    file: a path in the engine's folder; for spark, also in the package ``reference``.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    file: Annotated[str, Field(pattern=r"^(reference/(\w+/)*)?[\w-]+\.(py|toml)$")]
    old: _Text
    new: str


class Mutant(BaseModel):
    """One known defect.

    requirement: id of the requirement that names the defect. shows: regular expression for
    what the report of that failure says, "reason: what was seen". engine: what it is made of.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    defect: _Text
    requirement: Annotated[str, Field(pattern=r"^[A-Z]{2}-[A-Z0-9-]+$")]
    shows: _Text
    engine: Original = "miniature"
    edit: Annotated[list[Edit], Field(min_length=1)]


def available(fixtures: Path) -> list[Mutant]:
    """Load all mutants, by id; raises MutantError for a file that cannot be used."""
    return [_load(path) for path in sorted((fixtures / "mutants").glob("*.toml"))]


def find(id_: str, fixtures: Path) -> Mutant:
    """Return one mutant; raises MutantError, with the nearest ids, if there is none."""
    path = fixtures / "mutants" / f"{id_}.toml"
    known = [file.stem for file in sorted(path.parent.glob("*.toml"))]
    if id_ not in known:
        near = difflib.get_close_matches(id_, known, 3) or known
        raise MutantError(
            f"mutant:{shown(id_, 80)}: no such mutant; expected one of {', '.join(near)}"
        )
    return _load(path)


def _load(path: Path) -> Mutant:
    try:
        mutant = Mutant.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        lines = [
            f"{path}: {'.'.join(map(str, detail['loc']))}: {detail['msg']}"
            for detail in error.errors(include_url=False)
        ]
        raise MutantError("\n".join(lines)) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise MutantError(f"{path}: expected TOML in UTF-8; {error}") from error
    if mutant.id != path.stem:
        raise MutantError(f"{path}: id: expected the file's name {path.stem!r}, got {mutant.id!r}")
    return mutant


def make(mutant: Mutant, fixtures: Path, folder: Path) -> Path:
    """Copy the engine to ``folder`` with the edits; return the copy's engine.toml.

    What ``folder`` held before is removed. Raises MutantError for an edit that does not
    fit the engine.
    """
    if folder.exists():
        shutil.rmtree(folder)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(fixtures / "engines" / mutant.engine, folder, ignore=ignored)
    if mutant.engine == "spark":
        shutil.copytree(resources.reference(), folder / _PACKAGE, ignore=ignored)
    name = f'name = "{mutant.engine}'
    named = Edit(file=FILE_NAME, old=f'{name}"', new=f'{name}+{mutant.id}"')
    for number, edit in enumerate([named, *mutant.edit]):
        _apply(edit, folder, f"mutant:{mutant.id}: edit {number}", mutant.engine)
    return folder / FILE_NAME


def _apply(edit: Edit, folder: Path, what: str, engine: str) -> None:
    path = folder / edit.file
    if not path.is_file():
        raise MutantError(f"{what}: file: {engine} has no {edit.file}")
    text = path.read_text(encoding="utf-8")
    if (found := text.count(edit.old)) != 1:
        raise MutantError(
            f"{what}: old: expected once in {edit.file}, found {found} times: "
            f"{shown(edit.old, 120)}"
        )
    path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
