"""promises.toml beside an engine.toml: what the engine's makers say of it, in their words.

Each entry names the requirements whose failure would break the sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.performance.survey.result import Quote
from tickproof.conformance.strict_toml import Table, load
from tickproof.conformance.suites import registry

FILE_NAME: Final = "promises.toml"


class Promise(Table):
    """One sentence. requirements: ids, or families such as "EO". source: a link, or words."""

    requirements: Annotated[list[str], Field(min_length=1)]
    says: Annotated[str, Field(min_length=1, max_length=600)]
    source: Annotated[str, Field(min_length=1, max_length=300)]


class Promises(Table):
    """The file: [[promise]] entries; of two that fit a requirement the first counts."""

    promise: list[Promise]

    def broken_by(self, requirement: str) -> Quote | None:
        """Return the sentence that a failure of a requirement breaks."""
        names = (requirement, requirement.partition("-")[0])
        for name in names:  # the id itself says more than its family
            for one in self.promise:
                if name in one.requirements:
                    return Quote(says=one.says, source=one.source)
        return None


def beside(toml: Path) -> Promises:
    """Read the promises of an engine; none where there is no such file. Raises InvalidFile."""
    path = toml.with_name(FILE_NAME)
    if not path.is_file():
        return Promises(promise=[])
    found = load(path, Promises)
    if unknown := _unknown(found.promise):
        expected = "ids of requirements, or families such as EO"
        raise InvalidFile(path, [f"requirements: expected {expected}; got {', '.join(unknown)}"])
    return found


def _unknown(promises: Sequence[Promise]) -> list[str]:
    known = registry.load().keys() | registry.FAMILIES.keys()
    return sorted({name for one in promises for name in one.requirements} - known)
