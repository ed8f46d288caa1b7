"""What an oracle says is due for a recorded input, as a recording of its own."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.jobs import oracle, user_code
from tickproof.conformance.jobs.fingerprints import identity, normal
from tickproof.conformance.jobs.recording import JsonLines, Placed, Recording
from tickproof.conformance.jobs.records import Record
from tickproof.generators.spill import temporary_files


class Due(JsonLines):
    """Outputs that are due, in the order of the inputs that they answer, in a file of ``folder``.

    inputs: how many records the input has.
    """

    def __init__(self, given: Recording, function: str, key: Sequence[str], folder: Path) -> None:
        file, _, name = function.rpartition(":")
        super().__init__("the oracle", folder / "due.jsonl", "")
        self.path = Path(file)
        self.inputs = 0
        self._given, self._key = given, key
        self._counts, self._answers = list[int](), array("q")
        expect = user_code.function(self.path.parent, f"{self.path.name}:{name}")
        with temporary_files(), self.file.open("w", encoding="ascii") as out:
            for record, value in oracle.outputs(expect, self.path, self._records()):
                self._answers.append(record.number - 1)
                out.write(json.dumps(normal(value), default=str) + "\n")

    def where(self, line: int) -> str:
        """Return the input that an output answers, in words."""
        return f"the oracle, at record {self._answers[line - 1] + 1:,}"

    def picked(self, indices: Iterable[int], counts: Sequence[int]) -> dict[int, Placed]:
        """Return the outputs of some indices, each with the input that it answers."""
        found = super().picked(indices, counts)
        inputs = self._given.picked({self._answers[index] for index in found}, self._counts)
        return {
            index: replace(one, answers=inputs[self._answers[index]])
            for index, one in found.items()
        }

    def _records(self) -> Iterator[Record]:
        """Yield the input as an oracle is given it; raises InvalidFile for one without a key."""
        for piece in self._given.pieces():
            for one in piece.records():
                one.expect(self._key, self._given.path)
                self.inputs += 1
                yield Record(self.inputs, identity(one.value, self._key), 0, one.value, b"")
            self._counts.append(piece.count)
        if not self.inputs:
            raise InvalidFile(self._given.path, ["expected records; there are none"])
