"""A comparison in words, and as a Markdown page for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from tickproof.conformance.latency.statistics import Ratio
from tickproof.conformance.performance.comparison import (
    Comparison,
    FigureCell,
    FigureRow,
    NotAsked,
    VerdictRow,
)
from tickproof.conformance.report.markdown import escaped, table
from tickproof.conformance.report.style import mark
from tickproof.conformance.verdicts import DOES_NOT_APPLY, EXIT_OK, SEVERITY, Verdict

_LIMIT: Final = 200
#: Ids of one list that are named; `--all` and JSON have all of them.
_NAMED: Final = 12


def rows(found: Comparison, *, everything: bool) -> list[VerdictRow]:
    """Return the requirements to show: those that differ, or all of them."""
    return [row for row in found.verdicts if everything or row.changed]


def median(row: FigureRow, cell: FigureCell) -> str:
    """Return "1.25 ms", or "1,235,000 /s": four digits of what varies in more."""
    value, unit = cell.median, row.unit
    if unit == "us" and value >= 1000:
        value, unit = value / 1000, "ms"
    number = f"{float(f'{value:.4g}'):,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{number} {unit}"


def against(row: FigureRow, cell: FigureCell) -> str:
    """Return what is known of the ratio to the first subject."""
    if cell.ratio is None:
        first = row.cells[0]
        if first is None:
            return "nothing to compare with"
        return f"{first.runs} against {cell.runs} runs are too few, 4 each would do"
    said = times(cell.ratio)
    if not cell.ratio.differs:
        return f"no difference shown: {said}"
    good = (cell.ratio.estimate < 1) == (row.better == "lower")
    return f"{said}, {'better' if good else 'worse'}"


def times(found: Ratio) -> str:
    """Return "1.10 times (1.05 to 1.21)"."""
    return f"{found.estimate:.2f} times ({found.low:.2f} to {found.high:.2f})"


def name(row: FigureRow) -> str:
    """Return what a figure is, and which end of it is good."""
    return f"{row.name} ({row.better} is better)"


def rule(found: Comparison) -> str:
    """Say what the ratios are, and what counts as worse."""
    beyond = f"{found.threshold * 100:.3g} %"
    return (
        f"Ratios are to {found.names[0]}: the median of all ratios of a run of one to a run of "
        "the other, which need not be the ratio of the medians, with an interval that covers it "
        f"with at least 95 %. Worse is what is worse by more than {beyond} at either end of its "
        "interval. No difference shown is not the same as no difference."
    )


def same(found: Comparison) -> str:
    """Return "the same for all: 90 pass, 2 unknown", "" where nothing is."""
    counts = found.same
    said = [f"{counts[one]} {one.value}" for one in reversed(SEVERITY) if counts[one]]
    return f"the same for all: {', '.join(said)}" if said else ""


def one_sided(found: Comparison) -> list[str]:
    """Return what to know of the sessions, and what was judged for one side alone."""
    first, said = found.names[0], [f"{one}." for one in found.notes]
    for one in found.overlaps:
        if one.missing:
            of = len(one.missing) + len(one.compared)
            said.append(
                f"Not compared with {one.engine}, {len(one.missing)} of {of} of {first}: "
                f"{_listed(one.missing)}."
            )
        if one.extra:
            named = f"{len(one.extra)}: {_listed(one.extra)}"
            failed = f"; these do not hold: {_listed(one.failed)}" if one.failed else ""
            said.append(f"Asked of {one.engine} and not of {first}, {named}{failed}.")
        for (engine, other), same in groupby(one.not_asked, lambda row: (row.engine, row.other)):
            rows = list(same)
            each = "; ".join(f"{_brief(row)} ({row.why})" for row in rows)
            of = sum(len(row.ids) for row in rows)
            said.append(f"{engine} was not asked for {of} of what {other} was asked for: {each}.")
    return said


def _brief(row: NotAsked) -> str:
    """Return the ids, or how many there are of what is about another kind of engine."""
    if row.why.startswith(DOES_NOT_APPLY) and len(row.ids) > 1:
        return f"{len(row.ids)} requirements"
    return _listed(row.ids)


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return f"{', '.join(ids[:_NAMED])}{more}"


def verdict(found: Comparison) -> str:
    """Return the last line: what is worse than with the first subject, or was not compared."""
    first, worse = found.names[0], found.regressions
    if worse:
        whose = [name for name in found.names if any(name == one for one, _ in worse)]
        said = [
            f"{name} is worse in {', '.join(what for one, what in worse if one == name)}"
            for name in whose
        ]
        return f"Against {first}: {'; '.join(said)}."
    least = min(len(one.compared) for one in found.overlaps)
    if not least:
        return f"Nothing was compared: expected what was judged for {first} and for all others."
    if found.status != EXIT_OK:
        rest = "--only-common passes over the rest"
        part = f"nothing is worse in the {least} that were"
        return f"Not all of {first} was compared ({rest}); {part}."
    common = f" in the {least} that were compared" if found.only_common else ""
    if open_ := found.undecided:
        each = ", ".join(f"{name} in {row.name}, {times(ratio)}" for name, row, ratio in open_)
        return (
            f"Nothing is shown to be worse than with {first}{common}. Undecided, though it looks "
            f"worse: {each}; more rounds would tell."
        )
    return f"Nothing is worse than with {first}{common}."


def markdown(found: Comparison, *, everything: bool) -> str:
    """Return a page with the tables; whatever an engine said is plain text."""
    return "\n".join(_page(found, everything)) + "\n"


def _page(found: Comparison, everything: bool) -> Iterator[str]:
    names = [escaped(name, _LIMIT) for name in found.names]
    yield f"**{escaped(verdict(found), 4000)}**"
    if shown := rows(found, everything=everything):
        yield ""
        cells = [
            [f"{row.id} {escaped(row.title, _LIMIT)}", *map(_verdict, row.verdicts)]
            for row in shown
        ]
        yield from table(["requirement", *names], cells)
    for said in one_sided(found):
        yield ""
        yield escaped(said, 4000)
    if said := same(found):
        yield ""
        yield f"{said[0].upper()}{said[1:]}."
    if found.figures:
        yield ""
        figures = ([escaped(name(one), _LIMIT), *_figures(one)] for one in found.figures)
        yield from table(["median over runs", *names], figures)
        yield ""
        yield escaped(rule(found), 1000)


def _figures(row: FigureRow) -> Iterator[str]:
    for number, cell in enumerate(row.cells):
        if cell is None:
            yield ""
        else:
            said = median(row, cell)
            yield said if number == 0 else f"{said}: {against(row, cell)}"


def _verdict(found: Verdict | None) -> str:
    return "" if found is None else f"{mark(found)} {found.value}"
