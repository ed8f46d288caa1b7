"""Costs of each scale of an engine, as rows of text for the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tickproof.conformance.report.json_report import Result
from tickproof.conformance.text import counted, shown

#: Most scales of one run that are shown.
_MOST: Final = 20
_ID_LIMIT: Final = 40


class _Cost(BaseModel):
    """An entry of evidence "scales": a `ScaleCost` of the suites, read back from report.json."""

    model_config = ConfigDict(defer_build=True, extra="forbid", allow_inf_nan=False)

    workers: int = Field(ge=1)
    answer_s: float = Field(ge=0)
    still_s: float | None
    again: int = Field(ge=0)
    least: float | None = Field(ge=0, le=1)
    most: float | None = Field(ge=0, le=1)


def sentences(evidence: Mapping[str, JsonValue]) -> list[str]:
    """Return a sentence for each scale of a run; none where the evidence tells of none."""
    return [_sentence(one) for one in _costs(evidence)]


def show(console: Console, results: Sequence[Result]) -> None:
    """Print the scales of each run, under the first requirement that it decides."""
    seen = set()
    for result in results:
        told = sentences(result.evidence)
        if not told or result.run in seen:
            continue
        seen.add(result.run)
        table = Table(box=None, show_header=False, pad_edge=False)
        for line in told:
            table.add_row(Text(line))
        console.print()
        console.print(Text(f"Scales: {shown(result.id, _ID_LIMIT)}", style="bold"))
        console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _costs(evidence: Mapping[str, JsonValue]) -> Iterator[_Cost]:
    found = evidence.get("scales")
    if not isinstance(found, list):
        return
    for one in found[:_MOST]:
        try:
            yield _Cost.model_validate(one)
        except ValidationError:
            return  # written by another version, or by hand


def _sentence(cost: _Cost) -> str:
    said = [f"to {counted(cost.workers, 'worker')}: answered after {cost.answer_s:.2f} s"]
    if cost.still_s is not None:
        said.append(f"output stood still for {cost.still_s:.2f} s")
    said.append(f"{counted(cost.again, 'record')} fetched again")
    if cost.workers > 1 and cost.least is not None and cost.most is not None:
        said.append(f"each worker then handled {cost.least:.0%} to {cost.most:.0%}")
    return ", ".join(said)
