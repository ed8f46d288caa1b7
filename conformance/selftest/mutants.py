"""Copies of a sound engine with a few edits, to judge the judge.

A mutant has one known defect: a TOML file under ``fixtures/mutants`` says what it is and
which requirements have to fail for it. An oddity (``fixtures/oddities``) behaves oddly and
is sound all the same: nothing may fail for it.
"""

from __future__ import annotations

import difflib
import shutil
import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tickproof.conformance import resources
from tickproof.conformance.engines.spec import FILE_NAME
from tickproof.conformance.errors import TickproofError
from tickproof.conformance.scenario import App
from tickproof.conformance.text import shown

#: On the command line a mutant is "mutant:ID" and an oddity "oddity:ID".
MUTANT: Final = "mutant"
ODDITY: Final = "oddity"
Original = Literal["miniature", "spark"]
#: What the Spark engine imports; a copy of it lies in the mutant's folder and is found first.
_LIBRARY: Final = "tickproof/reference"

_Text = Annotated[str, Field(min_length=1)]
_AnyCopy = TypeVar("_AnyCopy", bound="_Copy")
_Requirement = Annotated[str, Field(pattern=r"^[A-Z]{2}-[A-Z0-9-]+$")]


class MutantError(TickproofError):
    """A mutant or an oddity that does not exist or cannot be made; the text names file and key."""


class Edit(BaseModel):
    """``old`` stands exactly once in ``file`` and becomes ``new``.

    file: a path in the engine's folder; for spark, also in the package ``reference``.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    file: Annotated[str, Field(pattern=r"^(tickproof/reference/(\w+/)*)?[\w-]+\.(py|toml)$")]
    old: _Text
    new: str


class _Copy(BaseModel):
    """A copy of ``engine`` with its edits."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    engine: Original = "miniature"
    edit: Annotated[list[Edit], Field(min_length=1)]


class Mutant(_Copy):
    """One known defect.

    requirement: id of the requirement that names the defect. shows: regular expression for
    what the report of that failure says, "reason: what was seen". also: requirements that
    have to fail, too, whatever they say.
    """

    defect: _Text
    requirement: _Requirement
    shows: _Text
    also: list[_Requirement] = []

    @property
    def breaks(self) -> tuple[str, ...]:
        """The requirements that have to fail, the one that names the defect first."""
        return (self.requirement, *self.also)


class Oddity(_Copy):
    """Something odd that is allowed: no requirement may fail for it.

    oddity: what is odd, and in which apps (none named: all). not_claimed: what its
    engine.toml no longer promises, as ids or patterns such as "EO-*".
    """

    oddity: _Text
    apps: list[App] = []
    not_claimed: list[Annotated[str, Field(pattern=r"^[A-Z]{2}-[A-Z0-9*-]+$")]] = []


Variant = Mutant | Oddity
_KINDS: Final[dict[str, tuple[str, type[Mutant] | type[Oddity]]]] = {
    MUTANT: ("mutants", Mutant),
    ODDITY: ("oddities", Oddity),
}


def available(fixtures: Path) -> list[Mutant]:
    """Load all mutants, by id; raises MutantError for a file that cannot be used."""
    return [_load(path, Mutant) for path in _files(fixtures, "mutants")]


def oddities(fixtures: Path) -> list[Oddity]:
    """Load all oddities, by id; raises MutantError for a file that cannot be used."""
    return [_load(path, Oddity) for path in _files(fixtures, "oddities")]


def names_one(name: str) -> bool:
    """Tell whether a name on the command line is that of a mutant or an oddity."""
    return name.partition(":")[0] in _KINDS and ":" in name


def find(name: str, fixtures: Path) -> Variant:
    """Return "mutant:ID" or "oddity:ID"; raises MutantError, with the nearest ids, without it."""
    kind, _, id_ = name.partition(":")
    folder, model = _KINDS[kind]
    files = {path.stem: path for path in _files(fixtures, folder)}
    if id_ not in files:
        near = difflib.get_close_matches(id_, files, 3) or files
        raise MutantError(
            f"{kind}:{shown(id_, 80)}: no such {kind}; expected one of {', '.join(near)}"
        )
    return _load(files[id_], model)


def _files(fixtures: Path, folder: str) -> list[Path]:
    return sorted((fixtures / folder).glob("*.toml"))


def _load(path: Path, model: type[_AnyCopy]) -> _AnyCopy:
    try:
        copy = model.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        lines = [
            f"{path}: {'.'.join(map(str, detail['loc']))}: {detail['msg']}"
            for detail in error.errors(include_url=False)
        ]
        raise MutantError("\n".join(lines)) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise MutantError(f"{path}: expected TOML in UTF-8; {error}") from error
    if copy.id != path.stem:
        raise MutantError(f"{path}: id: expected the file's name {path.stem!r}, got {copy.id!r}")
    return copy


def make(variant: Variant, fixtures: Path, folder: Path) -> Path:
    """Copy the engine to ``folder`` with the edits; return the copy's engine.toml.

    What ``folder`` held before is removed. Raises MutantError for an edit that does not
    fit the engine.
    """
    if folder.exists():
        shutil.rmtree(folder)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(fixtures / "engines" / variant.engine, folder, ignore=ignored)
    if variant.engine == "spark":
        library = folder / _LIBRARY
        shutil.copytree(resources.reference(), library, ignore=ignored)
        (library.parent / "__init__.py").touch()
    kind = MUTANT if isinstance(variant, Mutant) else ODDITY
    name = f'name = "{variant.engine}'
    named = Edit(file=FILE_NAME, old=f'{name}"', new=f'{name}+{variant.id}"')
    for number, edit in enumerate([named, *variant.edit]):
        _apply(edit, folder, f"{kind}:{variant.id}: edit {number}", variant.engine)
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
