"""Selftests made by hand, for what follows from them."""

from __future__ import annotations

from datetime import UTC, datetime

from tickproof.conformance.report.document import FORMAT, this_host, this_kit
from tickproof.conformance.selftest import model
from tickproof.conformance.selftest.model import Cell, Kill, SelfTest, Subject, Trial
from tickproof.conformance.verdicts import Verdict


def cell(
    verdict: Verdict, requirement: str = "SL-DOUBLE", said: str = "", reason: str = ""
) -> Cell:
    return Cell(
        requirement=requirement,
        test="test_double_doubles",
        verdict=verdict,
        reason=reason,
        said=said,
    )


def trial(subject: str, *cells: Cell, scenario: str = "double") -> Trial:
    return Trial(
        subject=subject, scenario=scenario, seed=1, played=True, seconds=1, cells=list(cells)
    )


def mutant(id_: str, killed: bool, said: str = "") -> Subject:
    verdict = Verdict.FAIL if killed else Verdict.PASS
    kill = Kill(
        requirement="SL-DOUBLE",
        killed=killed,
        verdict=verdict,
        reason="lost" if killed else "",
        said=said,
    )
    return Subject(id=id_, kind="mutant", base="miniature", what="a defect", kills=[kill])


def sound(id_: str, what: str = "odd") -> Subject:
    return Subject(id=id_, kind="sound", base="miniature", what=what, not_claimed=["EO-*"])


def selftest(subjects: list[Subject], trials: list[Trial], **facts: list[str]) -> SelfTest:
    mutants = [subject for subject in subjects if subject.kind == "mutant"]
    lists = {"uncovered": [], "accused": [], "unknown": [], "broken": []} | facts
    survivors = [subject.id for subject in mutants if not subject.killed]
    wrong = bool(lists["uncovered"] or survivors or lists["accused"])
    now = datetime.now(UTC)
    return SelfTest(
        format=FORMAT,
        kit=this_kit(),
        host=this_host(),
        seed=1,
        started=now,
        ended=now,
        selection="all",
        runs=1,
        subjects=subjects,
        trials=trials,
        survivors=survivors,
        mutants=len(mutants),
        killed=len(mutants) - len(survivors),
        **lists,
        exit_status=model.conclusion_of(
            bool(lists["broken"]), wrong, bool(lists["unknown"]), trials
        ).status,
    )


def wrong() -> SelfTest:
    """A selftest in which everything is wrong that can be."""
    return selftest(
        [mutant("m", killed=False), mutant("dead", killed=True, said="lost"), sound("s")],
        [
            trial("m", cell(Verdict.PASS)),
            trial("dead", cell(Verdict.FAIL)),
            trial("s", cell(Verdict.PASS)),
        ],
        broken=["b"],
        accused=["a"],
        uncovered=["SL-DOUBLE"],
        unknown=["u"],
    )
