"""Results of mutants: one JSON line each, so that a run can be continued."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.selftest.mutation.source import Mutation
from tickproof.conformance.text import shown

FILE_NAME: Final = "mutants.jsonl"
FORMAT: Final = 1


class _Model(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


class Head(_Model):
    """The first line: which engine, by a hash of its sources, and with which seed."""

    format: Literal[1] = FORMAT
    engine: str
    sources: str
    seed: int
    only: list[str]


class Fate(enum.StrEnum):
    """What became of a mutant.

    killed: a test failed it. survived: none did, and all had evidence. unknown: none did, but
    some had none. broken: the kit broke.
    """

    KILLED = "killed"
    SURVIVED = "survived"
    UNKNOWN = "unknown"
    BROKEN = "broken"


class Result(_Model):
    """One mutant as it was judged.

    requirement, test, scenario, reason, said: of the test that settled it; played: how many
    scenarios that took.
    """

    id: str
    file: str
    line: int
    old: str
    new: str
    fate: Fate
    requirement: str = ""
    test: str = ""
    scenario: str = ""
    reason: str = ""
    said: str = ""
    played: int
    seconds: float


class Control(_Model):
    """The engine as it is passed so many scenarios, with the time limits of the mutants."""

    control: int


class Results:
    """The results file of one run, and of those that continue it."""

    def __init__(self, path: Path, head: Head) -> None:
        """Read what is there; raises InvalidFile where that is of another engine or seed."""
        self.path, self.head = path, head
        self.control_passed = False
        self._found: dict[str, Result] = {}
        if path.exists():
            self._read()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(head.model_dump_json() + "\n", encoding="utf-8")

    def __iter__(self) -> Iterator[Result]:
        return iter(self._found.values())

    def __contains__(self, mutation: Mutation) -> bool:
        return mutation.id in self._found

    def kills(self, file: str) -> Counter[str]:
        """Count the mutants of a file by the scenario that killed them."""
        of_file = (result for result in self if result.file == file)
        return Counter(one.scenario for one in of_file if one.fate is Fate.KILLED)

    def get(self, mutation: Mutation) -> Result | None:
        """Return the newest result of a mutant."""
        return self._found.get(mutation.id)

    def add(self, result: Result) -> None:
        """Append a result; it takes the place of an older one."""
        self._found[result.id] = result
        self._append(result)

    def note_control(self, scenarios: int) -> None:
        """Append that the engine as it is passed, so that it need not be tried again."""
        self.control_passed = True
        self._append(Control(control=scenarios))

    def _append(self, line: BaseModel) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line.model_dump_json() + "\n")

    def _read(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        *lines, rest = text.split("\n")
        if rest:  # an interrupted run wrote half of its last line
            self.path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        for number, line in enumerate(lines):
            try:
                if number == 0:
                    self._check(Head.model_validate_json(line))
                elif line.startswith('{"control"'):
                    self.control_passed = bool(Control.model_validate_json(line))
                else:
                    result = Result.model_validate_json(line)
                    self._found[result.id] = result
            except ValidationError as error:
                said = shown(str(error), 300)
                raise InvalidFile(self.path, [f"line {number + 1}: {said}"]) from error

    def _check(self, head: Head) -> None:
        for key, expected in self.head:
            if (got := getattr(head, key)) != expected:
                raise InvalidFile(
                    self.path, [f"{key}: expected {expected!r}, got {got!r}; choose another --out"]
                )
