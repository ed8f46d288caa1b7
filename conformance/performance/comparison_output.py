"""A comparison on a terminal, as JSON and as an HTML page."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tickproof.conformance.performance import comparison_words as words
from tickproof.conformance.performance import subject
from tickproof.conformance.performance.comparison import (
    Comparison,
    FigureRow,
    Overlap,
    VerdictRow,
    compare,
)
from tickproof.conformance.performance.document import Part
from tickproof.conformance.report import templates, whole_file
from tickproof.conformance.report.document import PAGE_NAME
from tickproof.conformance.report.style import badge
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import EXIT_OK

#: By more than this a figure has to be worse, where nothing else is asked for.
THRESHOLD: Final = 0.05
_REQUIREMENT: Final = "requirement"
#: Room for an id of a requirement, in characters; the words of a figure wrap.
_LEAST: Final = 24
_PADDING: Final = 2


@dataclass(frozen=True)
class Regression:
    """A requirement or a figure of an engine that is worse than with the first subject."""

    engine: str
    what: str


class ComparisonDocument(Part):
    """A comparison as it is printed; see docs/bench.md for its keys."""

    format: Literal[1] = 1
    names: tuple[str, ...]
    verdicts: tuple[VerdictRow, ...]
    figures: tuple[FigureRow, ...]
    threshold: float
    basis: str
    only_common: bool
    notes: tuple[str, ...]
    regressions: tuple[Regression, ...]
    overlaps: tuple[Overlap, ...]
    exit_status: int


def show(console: Console, found: Comparison, *, everything: bool) -> None:
    """Print what differs, or all."""
    if rows := words.rows(found, everything=everything):
        table = _table(found, _REQUIREMENT, console)
        for row in rows:
            table.add_row(
                Text(row.id), *(badge(one, console) if one else Text("") for one in row.verdicts)
            )
        console.print(Padding(table, (0, 0, 1, 0), expand=False))
    if found.figures:
        table = _table(found, "median over runs", console)
        for figure in found.figures:
            table.add_row(Text(words.name(figure)), *_cells(figure))
        console.print(Padding(table, (0, 0, 1, 0), expand=False))
    if said := words.same(found):
        console.print(Text(said, style="dim"), soft_wrap=True)
    for sentence in words.one_sided(found):
        console.print(Text(shown(sentence, 4000)), soft_wrap=True)
    style = "bold" if found.status == EXIT_OK else "bold red"
    console.print(Text(shown(words.verdict(found), 4000), style=style), soft_wrap=True)


def _table(found: Comparison, what: str, console: Console) -> Table:
    """Return a table with a column for each subject, no word of whose name is split if it fits."""
    table = Table(box=None, pad_edge=False)
    table.add_column(what, overflow="fold", no_wrap=what == _REQUIREMENT)
    room = (console.width - _LEAST - _PADDING) // len(found.names) - _PADDING
    for name in found.names:
        word = max(map(len, name.split()), default=0)
        table.add_column(Text(name), overflow="fold", min_width=max(1, min(word, room)))
    return table


def _cells(row: FigureRow) -> list[Text]:
    found = []
    for number, cell in enumerate(row.cells):
        text = Text("" if cell is None else words.median(row, cell))
        if cell is not None and number:
            style = "red" if cell.worse else "dim"
            text.append(f"\n{words.against(row, cell)}", style=style)
        found.append(text)
    return found


def as_json(found: Comparison) -> str:
    """Return a comparison as one JSON object."""
    data = ComparisonDocument(
        **{one.name: getattr(found, one.name) for one in fields(found)},
        regressions=tuple(Regression(*one) for one in found.regressions),
        overlaps=tuple(found.overlaps),
        exit_status=found.status,
    )
    return json.dumps(data.model_dump(mode="json"), indent=1) + "\n"


def write(folder: Path) -> Path:
    """Write report.html of the documents in a folder, side by side; returns its path.

    Raises RequestError where they cannot be compared, OSError.
    """
    found = compare(subject.read(folder), THRESHOLD)
    return whole_file.write(folder / PAGE_NAME, html(found, everything=True))


def html(found: Comparison, *, everything: bool) -> str:
    """Return a comparison as a page that needs nothing beside it."""
    return templates.render(
        "compare.html.j2",
        found=found,
        rows=words.rows(found, everything=everything),
        words=words,
        everything=everything,
    )
