"""Mutants from the list to the report: the control first, then all of them side by side."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from tickproof.conformance.engines import spec
from tickproof.conformance.engines.process_pool import TaskPool
from tickproof.conformance.errors import RequestError
from tickproof.conformance.selftest.mutation import judge, source
from tickproof.conformance.selftest.mutation.equivalents import Equivalents
from tickproof.conformance.selftest.mutation.judge import Case
from tickproof.conformance.selftest.mutation.results import FILE_NAME, Fate, Head, Result, Results
from tickproof.conformance.selftest.mutation.source import Mutation
from tickproof.conformance.suites import registry
from tickproof.conformance.text import shown

#: So many scenarios, those that killed most, are played of each mutant before any plays all.
FIRST: Final = 16

#: Called with the mutants judged, those to judge, and the newest result.
OnResult = Callable[[int, int, Result], None]


#: Patterns that fit every mutant.
ALL: Final = ("*",)


@dataclass(frozen=True)
class Request:
    """What to judge. engine: its folder. only: requirements, empty for all.

    sample: at most so many mutants, drawn by the seed, None for all. match: patterns of ids,
    or of file names. again: also those that were judged before and not killed. equivalent: those
    whose reason is known play the first scenarios only, to see whether it is true; files that
    are left out make no mutants.
    """

    engine: Path
    out: Path
    seed: int = 1
    only: tuple[str, ...] = ()
    sample: int | None = None
    match: tuple[str, ...] = ALL
    again: bool = False
    workers: int = 2
    equivalent: Equivalents = field(default_factory=Equivalents)


def run(request: Request, on_result: OnResult) -> tuple[list[Mutation], Results]:
    """Judge mutants that were not judged yet; return all that there are, and what became of them.

    Raises RequestError where the control, the engine as it is, does not pass.
    """
    for id_ in request.only:
        registry.require_known(id_, f"--only: no requirement {id_}")
    spoken = spec.load(request.engine / spec.FILE_NAME).transports[0]
    names = judge.scenarios(spoken, request.only)
    if not names:
        raise RequestError("--only: expected requirements that a run without a clock decides")
    work = request.out / "work"
    shutil.rmtree(work, ignore_errors=True)
    folder = judge.copied(request.engine, work / "listed").parent
    known = _known(folder, request.equivalent)
    head = Head(
        engine=request.engine.name,
        sources=source.digest(folder),
        seed=request.seed,
        only=list(request.only),
    )
    results = Results(request.out / FILE_NAME, head)
    chosen = _chosen(request, known)
    if not chosen and request.match != ALL:
        shutil.rmtree(work)
        patterns = shown(", ".join(request.match), 200)
        raise RequestError(f"--match: expected files or ids of mutants; none fits {patterns}")
    todo = [one for one in chosen if _open(one, results, request.again)]
    with TaskPool(request.workers, judge.judged) as pool:
        if todo:
            _try_control(request, names, results, pool)
        for played in (FIRST, len(names)):
            cases = _cases(request, todo, names, played, results)
            for number, result in enumerate(pool.results(cases), 1):
                results.add(result)
                on_result(number, len(todo), result)
            todo = [one for one in chosen if _half_judged(one, request, len(names), results)]
    shutil.rmtree(work / "listed")
    return known, results


def _known(folder: Path, equivalent: Equivalents) -> list[Mutation]:
    """Return the mutants of all files that are not left out."""
    if missing := equivalent.left_out.keys() - source.sources(folder):
        raise RequestError(f"left_out: expected files of the engine; got {', '.join(missing)}")
    return [one for one in source.mutations(folder) if one.file not in equivalent.left_out]


def _chosen(request: Request, known: Sequence[Mutation]) -> list[Mutation]:
    """Return the mutants asked for, those of one file and line far from each other."""
    drawn = list(known)
    random.Random(request.seed).shuffle(drawn)
    drawn = [
        one
        for one in drawn
        if any(fnmatchcase(said, to) for said in (one.id, one.file) for to in request.match)
    ]
    return drawn[: request.sample]


def _open(mutation: Mutation, results: Results, again: bool) -> bool:
    """Tell whether a mutant has to be judged."""
    result = results.get(mutation)
    return result is None or (again and result.fate is not Fate.KILLED)


def _half_judged(mutation: Mutation, request: Request, scenarios: int, results: Results) -> bool:
    """Tell whether the first scenarios did not kill a mutant, and nobody knows why."""
    result = results.get(mutation)
    return (
        result is not None
        and result.fate in (Fate.SURVIVED, Fate.UNKNOWN)
        and result.played < scenarios
        and request.equivalent.reason(mutation) is None
    )


def _try_control(
    request: Request, names: Sequence[str], results: Results, pool: TaskPool[Case, Result]
) -> None:
    """Judge the engine as it is, once for each results file."""
    if results.control_passed:
        return
    cases = [
        Case(request.engine, request.out / "work" / f"control-{name}", (name,), request.seed)
        for name in names
    ]
    wrong = [one for one in pool.results(cases) if one.fate is not Fate.SURVIVED]
    if wrong:
        said = "; ".join(f"{one.requirement} {one.fate}: {one.said}" for one in wrong)
        raise RequestError(f"{request.engine.name}, as it is, does not pass: {said}")
    results.note_control(len(names))


def _cases(
    request: Request, todo: Iterable[Mutation], names: Sequence[str], played: int, results: Results
) -> Iterator[Case]:
    """Yield a case for each mutant: so many scenarios, those that killed most of its file first.

    What killed none yet follows in an order of chance, so that each of them has its turn.
    """
    for number, mutation in enumerate(todo):
        kills = results.kills(mutation.file)
        order = list(names)
        random.Random(f"{request.seed}:{mutation.id}").shuffle(order)
        order.sort(key=kills.__getitem__, reverse=True)
        folder = request.out / "work" / str(number)
        yield Case(request.engine, folder, tuple(order[:played]), request.seed, mutation)
