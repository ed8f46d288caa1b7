"""A FETCH below a RELEASE: who asked, for which partitions, which cuts it passed over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tickproof.conformance.explain.facts import Facts, counted, listed
from tickproof.conformance.explain.passage import Part
from tickproof.conformance.explain.recovery import Aftermath
from tickproof.conformance.history import events
from tickproof.conformance.history.rows import of_partition

#: How the log says that a FETCH lies below what was released.
_BELOW: Final = re.compile(r"offset (\d+) was released \(up to (\d+)\)")
#: Partitions that are told one by one.
_MOST: Final = 8


@dataclass(frozen=True)
class Asked:
    """One such FETCH. place: (stream, partition), None where two could be meant."""

    t_ns: int
    connection: int
    offset: int
    upto: int
    place: tuple[int, int] | None


def asked(facts: Facts) -> list[Asked]:
    """Return each FETCH below a RELEASE, the first one of a partition and offset."""
    found: dict[Any, Asked] = {}
    for row in facts.history.all(events.Refused):
        if not (match := _BELOW.search(row.text)):
            continue
        offset, upto, t_ns = int(match[1]), int(match[2]), row.t_ns
        place = _place(facts, upto, t_ns)
        one = Asked(t_ns, row.connection, offset, upto, place)
        found.setdefault((offset, upto, place), one)
    return list(found.values())


def _place(facts: Facts, upto: int, t_ns: int) -> tuple[int, int] | None:
    """Return the only partition that was released up to ``upto`` at a time."""
    rows = facts.history.releases
    rows = rows[rows["t_ns"] <= t_ns]
    places = np.unique(rows[rows["offset"] == upto][["stream", "partition"]]).tolist()
    held = [
        (s, p) for s, p in places if int(of_partition(rows, s, p)["offset"].max()) == upto
    ]  # fmt: skip
    return held[0] if len(held) == 1 else None


def tell(facts: Facts, rows: list[Asked]) -> Part:
    """Explain the FETCHes below a RELEASE of one run."""
    first = rows[0]
    t_ns, near = first.t_ns, facts.before(first.t_ns)
    when = facts.since(t_ns, near)
    said = [
        f"{when[0].upper()}{when[1:]} it asked for {_what(facts, first)}, though it had released "
        f"everything below {first.upto:,}: a RELEASE promises never to need that again "
        f"({counted(first.upto - first.offset, 'record')}; connection {first.connection}"
        f"{_opened(facts, first, near)})."
    ]
    if len(rows) > 1:
        more = [
            f"{_what(facts, row)} (released up to {row.upto:,}; connection {row.connection})"
            for row in rows[1:]
        ]
        said.append(f"So too for {listed(more, _MOST)}.")
    point = [*_owners(facts, near, rows), *_cuts(facts, rows)]
    if near is not None:
        held = sum(max(0, p.fetched - p.released) for p in near.places)
        fetched = sum(p.fetched for p in near.places)
        if first.offset == 0:
            point.append("It began at the very beginning, as an engine without any cut does.")
        else:
            point.append(
                "So the cut that it went back to is older than its RELEASE. When "
                f"{facts.name(near)} came, {held:,} of {fetched:,} fetched records were not "
                "released."
            )
    return Part(tuple(said), tuple(point), t_ns, "FETCH below a RELEASE")


def _what(facts: Facts, row: Asked) -> str:
    of = f" of {facts.partition(*row.place)}" if row.place else ""
    return f"offset {row.offset:,}{of}"


def _opened(facts: Facts, row: Asked, near: Aftermath | None) -> str:
    times = [
        e.t_ns for e in facts.history.all(events.Connected, connection=row.connection)
        if e.t_ns <= row.t_ns
    ]  # fmt: skip
    return f", opened {facts.since(times[-1], near)}" if times else ""


def _owners(facts: Facts, near: Aftermath | None, rows: list[Asked]) -> list[str]:
    """Say whose writers had been taken over before the FETCH: by whom it was asked."""
    if near is None:
        return []
    taken: dict[tuple[int, int], list[int]] = {}
    for row in facts.history.all(events.Have):
        if near.fault.t_ns < row.t_ns <= rows[0].t_ns and row.fenced:
            taken.setdefault((row.fenced, row.connection), []).append(row.writer)
    over = [
        f"writer{'s'[: len(writers) > 1]} {listed([str(w) for w in writers])} "
        f"of connection {old} by connection {new}"
        for (old, new), writers in taken.items()
    ]
    return [f"Before that, HAVE had taken over {listed(over)}."] if over else []


def _cuts(facts: Facts, rows: list[Asked]) -> list[str]:
    """Say which RELEASE stands where the engine went back to, and how many lie above it."""
    return [_cut(facts, row, row.place) for row in rows[:_MOST] if row.place]


def _cut(facts: Facts, row: Asked, place: tuple[int, int]) -> str:
    freed = of_partition(facts.history.releases, *place)
    freed = freed[freed["t_ns"] <= row.t_ns]
    near = facts.before(row.t_ns)
    lives = np.array([facts.life(t_ns) for t_ns in freed["t_ns"].tolist()])
    text = f"In {facts.partition(*place)}, "
    at = np.flatnonzero(freed["offset"] == row.offset)
    if len(at):
        mine = freed["offset"][lives == lives[at[0]]]
        last = "the last" if int(mine.max()) == row.offset else "a"
        when = facts.since(int(freed["t_ns"][at[0]]), near)
        text += f"it went back to {last} RELEASE of life {lives[at[0]]}, which came {when}; "
    above = freed["offset"] > row.offset
    kinds = {int(k): int((lives[above] == k).sum()) for k in np.unique(lives[above])}
    passed = [
        counted(n, "RELEASE") + (f" of life {k}" if facts.life(facts.end) > 1 else "")
        for k, n in kinds.items()
    ]
    lies = "lies" if int(above.sum()) == 1 else "lie"
    newest = facts.since(int(freed["t_ns"][-1]), near)
    return f"{text}{listed(passed)} {lies} above that offset, the newest came {newest}."
