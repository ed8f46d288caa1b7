"""A selftest from its plan to its report: trials in parallel, the kit judged by them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain, takewhile
from pathlib import Path
from typing import Final

from tickproof.conformance.engines import interruption
from tickproof.conformance.engines.process_pool import TaskPool
from tickproof.conformance.report.document import FORMAT, this_host, this_kit
from tickproof.conformance.selftest import model, plan
from tickproof.conformance.selftest.model import Cell, Kill, SelfTest, Subject, Trial
from tickproof.conformance.selftest.mutants import Mutant
from tickproof.conformance.selftest.plan import Engine
from tickproof.conformance.selftest.trial import Task, alone, attempt, tests_of
from tickproof.conformance.verdicts import SEVERITY, Verdict

#: Tries of a scenario whose evidence is missing: nothing was in flight, or the machine is busy.
_TRIES: Final = 3
#: Called with the trials done, the trials planned, and the newest trial.
OnTrial = Callable[[int, int, Trial], None]


def run(
    engines: Sequence[Engine],
    out: Path,
    *,
    seed: int,
    workers: int,
    runs: int,
    until_killed: bool = False,
    uncovered: list[str],
    selection: str,
    on_trial: OnTrial,
) -> SelfTest:
    """Try all engines, then sound ones with further seeds until ``runs`` were played.

    Runs that came out as they should are dropped, the others stay under ``out``/runs. Of an
    interrupted selftest the report holds what had come out; its caller has to end.
    until_killed: a mutant that is killed plays no more of what could kill it.
    uncovered: requirements without a mutant; selection: what was asked for, in words.
    """
    started = datetime.now(UTC)
    if any(engine.base in plan.KAFKA for engine in engines):
        from tickproof.conformance.kafka import shared_broker

        shared_broker.address()  # one for all processes
    folder = out / "runs"
    shutil.rmtree(folder, ignore_errors=True)
    mutants = {engine.id: engine.mutant for engine in engines if engine.mutant}
    trials: list[Trial] = []
    planned, interrupted = 0, ""
    try:
        for tasks in plan.rounds(engines, folder, seed):
            chains = partial(_until_killed, mutants, trials) if until_killed else _unchained
            tried = _each_tried(tasks, workers, mutants, chains)
            planned += len({task.subject for task in tasks}) if until_killed else len(tasks)
            for trial in chain(tried, _survivors_tried(tasks, mutants, trials)):
                fine = not _needs_a_look(trial, mutants.get(trial.subject))
                trials.append(_dropped(trial) if fine else trial)
                planned = max(planned, len(trials))
                on_trial(len(trials), planned, trial)
            if _sound_runs(trials, mutants) >= runs or not any(e.repeats for e in engines):
                break
    except KeyboardInterrupt:
        interrupted = f"{interruption.words()} after {len(trials):,} of {planned:,} trials"
    subjects = [_subject(engine, trials) for engine in engines]
    if interrupted:
        played = {trial.subject for trial in trials}
        # A mutant that is still to be tried has not survived.
        subjects = [
            one for one in subjects if one.id in played and (one.kind == "sound" or one.killed)
        ]
        shown = {one.id for one in subjects}
        trials, uncovered = [trial for trial in trials if trial.subject in shown], []
    for subject in subjects:
        if subject.kind == "mutant" and subject.killed:
            shutil.rmtree(folder / subject.id, ignore_errors=True)
    return _report(
        subjects,
        _relative(trials, out),
        seed=seed,
        started=started,
        selection=selection,
        uncovered=uncovered,
        runs=_sound_runs(trials, mutants),
        interrupted=interrupted,
    )


def _each_tried(
    tasks: Sequence[Task],
    workers: int,
    mutants: dict[str, Mutant],
    chains: Callable[[Sequence[Task]], list[Iterator[Task]]],
) -> Iterable[Trial]:
    """Yield the trials of all tasks; timing tests and those tried again come last, one by one.

    chains: puts tasks into chains, of which each is played one after the other.
    """
    last = [task for task in tasks if alone(task.scenario)]
    again: list[Task] = []
    by_run = {(task.subject, task.scenario, task.seed): task for task in tasks}
    beside = [task for task in tasks if not alone(task.scenario)]
    for trial in _tried(chains(beside), workers):
        if _void(trial, mutants.get(trial.subject)):
            again.append(by_run[trial.subject, trial.scenario, trial.seed])
        else:
            yield trial
    for tries, found in ((_TRIES, last), (_TRIES - 1, again)):
        for task in found:
            for left in reversed(range(tries)):
                (trial,) = _tried(_unchained([task]), 1)
                if not left or not _void(trial, mutants.get(task.subject)):
                    yield trial
                    break


def _survivors_tried(
    tasks: Sequence[Task], mutants: dict[str, Mutant], trials: Sequence[Trial]
) -> Iterable[Trial]:
    """Yield the trials of mutants that ``trials`` left alive once more, one by one.

    A fault that has to meet a moment may miss it beside other runs. Begins when it is asked for
    the first: ``trials`` then holds all that came before.
    """
    living = _living(mutants, trials)
    for task in tasks:
        if task.subject in living:
            yield from _tried(_unchained([task]), 1)


def _unchained(tasks: Sequence[Task]) -> list[Iterator[Task]]:
    """Return a chain for each task."""
    return [iter([task]) for task in tasks]


def _until_killed(
    mutants: dict[str, Mutant], trials: Sequence[Trial], tasks: Sequence[Task]
) -> list[Iterator[Task]]:
    """Return a chain for each mutant, its last task first, which ends once it is killed.

    ``trials`` grows meanwhile. Each task of a sound engine is a chain.
    """
    of_mutants: dict[str, list[Task]] = {}
    for task in tasks:
        if task.subject in mutants:
            of_mutants.setdefault(task.subject, []).insert(0, task)
    of_sound = [iter([task]) for task in tasks if task.subject not in mutants]
    chains = (
        takewhile(lambda task: task.subject in _living(mutants, trials), mine)
        for mine in of_mutants.values()
    )
    return [*chains, *of_sound]


def _living(mutants: dict[str, Mutant], trials: Sequence[Trial]) -> set[str]:
    """Return the ids of the mutants that no trial has killed for all that they break."""
    cells: dict[str, list[Cell]] = {}
    for trial in trials:
        cells.setdefault(trial.subject, []).extend(trial.cells)
    return {
        id_
        for id_, mutant in mutants.items()
        if not all(kill_of(mutant, one, cells.get(id_, [])).killed for one in mutant.breaks)
    }


def _void(trial: Trial, mutant: Mutant | None) -> bool:
    """Tell whether a trial lacks the evidence for a verdict that counts."""
    return any(
        cell.verdict is Verdict.UNKNOWN and (mutant is None or cell.requirement in mutant.breaks)
        for cell in trial.cells
    )


def _tried(chains: Iterable[Iterator[Task]], workers: int) -> Iterable[Trial]:
    """Yield the trials as they end, in any order; a chain goes on when its trial has ended."""
    with TaskPool(workers, attempt) as pool:
        for task, ended in pool.each(chains):
            try:
                trial = ended.result()
            except Exception as error:
                trial = _not_tried(task, f"{type(error).__name__}: {error}")
            yield trial


def _not_tried(task: Task, why: str) -> Trial:
    """Return the trial of a task that the kit could not try (its process died, say)."""
    cells = [
        Cell(
            requirement=requirement,
            test=task.scenario,
            verdict=Verdict.KIT_ERROR,
            reason="NOT_DECIDED",
            said=why,
        )
        for requirement, _ in tests_of()[task.scenario]
    ]
    return Trial(
        subject=task.subject,
        scenario=task.scenario,
        seed=task.seed,
        played=False,
        seconds=0,
        cells=cells,
    )


def _needs_a_look(trial: Trial, mutant: Mutant | None) -> bool:
    """Tell whether a trial came out otherwise than it should."""
    if any(cell.verdict is Verdict.KIT_ERROR for cell in trial.cells):
        return True
    if mutant is None:
        return any(cell.verdict not in (Verdict.PASS, Verdict.NOT_CLAIMED) for cell in trial.cells)
    return not any(_kills(cell, mutant, mutant.requirement) for cell in trial.cells)


def _dropped(trial: Trial) -> Trial:
    shutil.rmtree(trial.run, ignore_errors=True) if trial.run else None
    return trial.model_copy(update={"run": ""})


def _kills(cell: Cell, mutant: Mutant, requirement: str) -> bool:
    """Tell whether a cell is the failure that a mutant has to show for ``requirement``."""
    if cell.requirement != requirement or cell.verdict is not Verdict.FAIL:
        return False
    if requirement != mutant.requirement:
        return True
    said = f"{cell.reason}: {cell.said}"
    return bool(re.search(mutant.shows, said) and re.search(mutant.headline, cell.headline))


def _sound_runs(trials: Iterable[Trial], mutants: dict[str, Mutant]) -> int:
    return sum(trial.played for trial in trials if trial.subject not in mutants)


def _subject(engine: Engine, trials: Iterable[Trial]) -> Subject:
    if engine.mutant is None:
        variant = engine.variant
        return Subject(
            id=engine.id,
            kind="sound",
            base=engine.base,
            what=variant.difference if variant else "sound, as it is",
            not_claimed=list(variant.not_claimed) if variant else None,
            undecided=list(variant.undecided) if variant else [],
        )
    cells = [cell for trial in trials if trial.subject == engine.id for cell in trial.cells]
    return Subject(
        id=engine.id,
        kind="mutant",
        base=engine.base,
        what=engine.mutant.defect,
        kills=[kill_of(engine.mutant, requirement, cells) for requirement in engine.mutant.breaks],
    )


def kill_of(mutant: Mutant, requirement: str, cells: Iterable[Cell]) -> Kill:
    """Return how the tests of a requirement that a mutant names judged it."""
    found = [cell for cell in cells if cell.requirement == requirement]
    if not found:
        return Kill(
            requirement=requirement,
            killed=False,
            verdict=Verdict.KIT_ERROR,
            reason="NOT_TRIED",
            said="no test of this requirement exists",
        )
    killers = [cell for cell in found if _kills(cell, mutant, requirement)]
    shown = (killers or [max(found, key=lambda cell: SEVERITY.index(cell.verdict))])[0]
    return Kill(
        requirement=requirement,
        killed=bool(killers),
        verdict=shown.verdict,
        reason=shown.reason,
        said=shown.said,
        headline=shown.headline,
    )


def _relative(trials: Iterable[Trial], out: Path) -> list[Trial]:
    """Return the trials in a fixed order, their runs relative to ``out``, gone ones left out."""
    found = []
    for trial in sorted(trials, key=lambda t: (t.subject, t.scenario, t.seed)):
        path = Path(trial.run) if trial.run else None
        kept = path.relative_to(out).as_posix() if path and path.is_dir() else ""
        found.append(trial.model_copy(update={"run": kept}))
    return found


def _report(
    subjects: list[Subject],
    trials: list[Trial],
    *,
    seed: int,
    started: datetime,
    selection: str,
    uncovered: list[str],
    runs: int,
    interrupted: str,
) -> SelfTest:
    accused, unknown = [], []
    sound = {subject.id: subject for subject in subjects if subject.kind == "sound"}
    for trial in trials:
        if trial.subject in sound:
            wrong, open_ = model.accusations(sound[trial.subject], trial)
            accused += wrong
            unknown += open_
    broken = [
        f"{trial.subject}: {cell.requirement} ({cell.test}): {cell.reason} {cell.said}"
        for trial in trials
        for cell in trial.cells
        if cell.verdict is Verdict.KIT_ERROR
    ]
    mutants = [subject for subject in subjects if subject.kind == "mutant"]
    survivors = [subject.id for subject in mutants if not subject.killed]
    wrong_in = bool(uncovered or survivors or accused)
    came_out = model.conclusion_of(bool(broken), wrong_in, bool(unknown), trials)
    return SelfTest(
        format=FORMAT,
        kit=this_kit(),
        host=this_host(),
        seed=seed,
        started=started,
        ended=datetime.now(UTC),
        selection=selection,
        runs=runs,
        subjects=subjects,
        uncovered=uncovered,
        survivors=survivors,
        accused=accused,
        unknown=unknown,
        broken=broken,
        killed=len(mutants) - len(survivors),
        mutants=len(mutants),
        exit_status=interruption.status() if interrupted else came_out.status,
        interrupted=interrupted,
        trials=trials,
    )
