"""Carriers of a scenario: apps with their params, in order of preference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tickproof.conformance.scenario import App


@dataclass(frozen=True)
class Carrier:
    """An app with params; "" where the app has no such param."""

    app: App
    inputs: str = ""
    emit: str = ""

    @property
    def params(self) -> dict[str, str]:
        """The params of a deploy."""
        found = {"inputs": self.inputs, "emit": self.emit}
        return {name: value for name, value in found.items() if value}

    def __str__(self) -> str:
        return " ".join(filter(None, (self.app, self.inputs, self.emit)))


PASSTHROUGH: Final = Carrier("passthrough")
DOUBLE: Final = Carrier("double")
EVERY: Final = Carrier("count", emit="every")
SOME: Final = Carrier("count", emit="some")
MERGED: Final = Carrier("market-spread", "merged", "verdicts")
MERGED_REJECTS: Final = Carrier("market-spread", "merged", "rejects")
TWO: Final = Carrier("market-spread", "two", "verdicts")
TWO_REJECTS: Final = Carrier("market-spread", "two", "rejects")

COUNT: Final = (EVERY, SOME)
ON_MERGED: Final = (MERGED, MERGED_REJECTS)
ON_TWO: Final = (TWO, TWO_REJECTS)
STATELESS: Final = (PASSTHROUGH, DOUBLE)
STATEFUL: Final = (*COUNT, *ON_MERGED, *ON_TWO)
#: Every carrier: where state is what a scenario is about, and where it is not.
STATE_FIRST: Final = (*STATEFUL, *STATELESS)
STATELESS_FIRST: Final = (*STATELESS, *STATEFUL)
#: Carriers whose output tells how many records were processed.
COUNTABLE: Final = (*COUNT, *STATELESS, MERGED, TWO)


def named(carriers: Iterable[Carrier]) -> str:
    """Return carriers as text."""
    return ", ".join(map(str, carriers))
