"""Copies of a sound engine with a few edits, to judge the judge.

A mutant has one known defect: a TOML file under ``fixtures/mutants`` says what it is and
which requirements have to fail for it. A sound variant (``fixtures/sound_variants``) behaves
unusually, but correctly: nothing may fail for it.
"""

from __future__ import annotations

import difflib
import re
import shutil
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import Field

from tickproof.conformance import resources, strict_toml
from tickproof.conformance.engines.spec import FILE_NAME
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.scenario import App
from tickproof.conformance.strict_toml import Table, matching
from tickproof.conformance.text import shown

#: On the command line a mutant is "mutant:ID" and a sound variant "variant:ID".
MUTANT: Final = "mutant"
VARIANT: Final = "variant"
Original = Literal["miniature", "single", "spark", "kafka-miniature"]
#: An engine that is another one with other arguments: its engine.toml names that one's folder.
_ELSEWHERE: Final = re.compile(r"\{here\}/\.\./([\w-]+)/")
#: What the Spark engine imports; a copy of it lies in the mutant's folder and is found first.
_LIBRARY: Final = "tickproof/reference"

_Text = Annotated[str, Field(min_length=1)]
_AnyCopy = TypeVar("_AnyCopy", bound="_Copy")
_Requirement = Annotated[str, matching(r"[A-Z]{2}-[A-Z0-9-]+", "the id of a requirement")]
_Pattern = Annotated[
    str, matching(r"[A-Z]{2}-[A-Z0-9*-]+", 'the id of a requirement, or a pattern such as "EO-*"')
]
_Id = Annotated[str, matching(r"[a-z0-9-]+", "lower-case letters, digits and hyphens")]
_Source = Annotated[
    str,
    matching(
        r"(tickproof/reference/(\w+/)*)?[\w-]+\.(py|toml)",
        "a .py or .toml file of the engine's folder, or one below tickproof/reference",
    ),
]


class Edit(Table):
    """``old`` stands exactly once in ``file`` and becomes ``new``.

    file: a path in the engine's folder; for the forms of spark, also in the package ``reference``.
    """

    file: _Source
    old: _Text
    new: str


class _Copy(Table):
    """A copy of ``engine`` with its edits; variant: a sound one whose edits come first."""

    id: _Id
    engine: Original = "miniature"
    variant: _Id | None = None
    edit: Annotated[list[Edit], Field(min_length=1)]


class Mutant(_Copy):
    """One known defect.

    requirement: id of the requirement that names the defect. shows: regular expression for
    what the report of that failure says, "reason: what was seen". also: requirements that
    have to fail, too, whatever they say. headline: regular expression for the headline of that
    failure, the first sentence that a user reads: it has to say the defect.
    """

    defect: _Text
    requirement: _Requirement
    shows: _Text
    headline: _Text
    also: list[_Requirement] = []

    @property
    def breaks(self) -> tuple[str, ...]:
        """The requirements that have to fail, the one that names the defect first."""
        return (self.requirement, *self.also)


class SoundVariant(_Copy):
    """Unusual behaviour that is allowed: no requirement may fail for it.

    difference: what is unusual, and in which ``apps`` (none named: all). not_claimed: what
    its engine.toml no longer promises, as ids or patterns such as "EO-*". undecided: what the
    kit may leave unknown, because the behaviour leaves its faults nothing to meet.
    """

    difference: _Text
    apps: list[App] = []
    not_claimed: list[_Pattern] = []
    undecided: list[_Pattern] = []


Copy = Mutant | SoundVariant
_KINDS: Final[dict[str, tuple[str, type[Mutant] | type[SoundVariant]]]] = {
    MUTANT: ("mutants", Mutant),
    VARIANT: ("sound_variants", SoundVariant),
    "oddity": ("sound_variants", SoundVariant),  # what they were called at first
}


def available(fixtures: Path) -> list[Mutant]:
    """Load all mutants, by id; raises InvalidFile for a file that cannot be used."""
    return [_load(path, Mutant) for path in _files(fixtures, "mutants")]


def sound_variants(fixtures: Path) -> list[SoundVariant]:
    """Load all sound variants, by id; raises InvalidFile for a file that cannot be used."""
    return [_load(path, SoundVariant) for path in _files(fixtures, "sound_variants")]


def find(name: str, fixtures: Path) -> Copy:
    """Return "mutant:ID" or "variant:ID"; raises InvalidFile, with the nearest ids, without it."""
    kind, _, id_ = name.partition(":")
    folder, model = _KINDS[kind]
    files = {path.stem: path for path in _files(fixtures, folder)}
    if id_ not in files:
        near = difflib.get_close_matches(id_, files, 3) or files
        reason = f"no such {kind}; expected one of {', '.join(near)}"
        raise InvalidFile(Path(f"{kind}:{shown(id_, 80)}"), [reason])
    return _load(files[id_], model)


def _files(fixtures: Path, folder: str) -> list[Path]:
    return sorted((fixtures / folder).glob("*.toml"))


def _load(path: Path, model: type[_AnyCopy]) -> _AnyCopy:
    copy = strict_toml.load(path, model)
    if copy.id != path.stem:
        expected = f"the file's name {path.stem!r}"
        raise InvalidFile(path, [f"id: expected {expected}; got {copy.id!r}"])
    return copy


def make(copy: Copy, fixtures: Path, folder: Path) -> Path:
    """Copy the engine to ``folder`` with the edits; return the copy's engine.toml.

    What ``folder`` held before is removed. Raises InvalidFile for an edit that does not
    fit the engine.
    """
    copy_engine(fixtures / "engines" / copy.engine, folder)
    name = f'name = "{copy.engine}'
    named = Edit(file=FILE_NAME, old=f'{name}"', new=f'{name}+{copy.id}"')
    if copy.variant:
        _edit(find(f"{VARIANT}:{copy.variant}", fixtures), folder)
    _edit(copy, folder, named)
    return folder / FILE_NAME


def copy_engine(engine: Path, folder: Path) -> None:
    """Copy an engine's folder, with what of the project it imports; ``folder`` is replaced."""
    if folder.exists():
        shutil.rmtree(folder)
    ignored = shutil.ignore_patterns("__pycache__")
    toml = (engine / FILE_NAME).read_text(encoding="utf-8")
    elsewhere = _ELSEWHERE.search(toml)
    code = engine.with_name(elsewhere[1]) if elsewhere else engine
    shutil.copytree(code, folder, ignore=ignored)
    (folder / FILE_NAME).write_text(_ELSEWHERE.sub("{here}/", toml), encoding="utf-8")
    if code.name == "spark":
        library = folder / _LIBRARY
        shutil.copytree(resources.reference(), library, ignore=ignored)
        (library.parent / "__init__.py").touch()


def _edit(copy: Copy, folder: Path, *first: Edit) -> None:
    """Make the edits of a copy, some others first; raises InvalidFile for one that does not fit."""
    kind = MUTANT if isinstance(copy, Mutant) else VARIANT
    for number, edit in enumerate([*first, *copy.edit], 1 - len(first)):
        if wrong := _apply(edit, folder, copy.engine):
            raise InvalidFile(Path(f"{kind}:{copy.id}"), [f"[[edit]] {number}: {wrong}"])


def _apply(edit: Edit, folder: Path, engine: str) -> str | None:
    """Make one edit; return why it does not fit the engine, None where it does."""
    path = folder / edit.file
    if not path.is_file():
        return f"file: {engine} has no {edit.file}"
    text = path.read_text(encoding="utf-8")
    if (found := text.count(edit.old)) != 1:
        return f"old: expected once in {edit.file}, found {found} times: {shown(edit.old, 120)}"
    path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    return None
