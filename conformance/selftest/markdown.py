"""matrix.md: the matrix of a selftest, to be read on a code host."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Final

from tickproof.conformance.report import whole_file
from tickproof.conformance.report.markdown import escaped, table
from tickproof.conformance.selftest import matrix
from tickproof.conformance.selftest.model import SelfTest, Subject
from tickproof.conformance.selftest.terminal import score
from tickproof.conformance.suites import registry

FILE_NAME: Final = "matrix.md"
_SAID: Final = 120
_CASE: Final = 400


def render(report: SelfTest) -> str:
    """Return the whole report as Markdown."""
    parts = [_head(report), _problems(report), _matrix(report), _mutants(report), _sound(report)]
    return "\n".join(part for part in parts if part)


def write(report: SelfTest, folder: Path) -> Path:
    """Write matrix.md into a folder; returns its path."""
    return whole_file.write(folder / FILE_NAME, render(report))


def _head(report: SelfTest) -> str:
    minutes = (report.ended - report.started).total_seconds() / 60
    return (
        "# Who judges the judge\n\n"
        f"**{score(report)}.** {report.runs} runs of sound engines, "
        f"{len(report.accused)} of their verdicts wrong, {len(report.unknown)} unknown. "
        f"Exit status {report.exit_status}.\n\n"
        f"Tried: {escaped(report.selection, _CASE)}; seed {report.seed}; "
        f"{minutes:.1f} minutes on {report.host.cpus} processors; "
        f"kit {escaped(report.kit.version, 40)}.\n"
    )


def _problems(report: SelfTest) -> str:
    found = matrix.problems(report)
    lines = ["## What is wrong\n"] if found else []
    for what, cases in found:
        lines.append(f"### {what[0].upper()}{what[1:]}\n")
        lines += [f"- {escaped(case, _CASE)}" for case in cases]
        lines.append("")
    return "\n".join(lines)


def _matrix(report: SelfTest) -> str:
    known = registry.load()
    lines = [
        "## Requirement x test x mutant\n",
        "Each row is a test. **Bold**: a mutant that names the requirement and was failed by "
        "this test. Then the others that it failed, and how many mutants played the same run "
        "and passed, or left it without evidence. Sound: runs of sound engines that passed.\n",
    ]
    rows = matrix.rows(report)
    for family, of_family in groupby(rows, key=lambda row: known[row.requirement].family):
        lines.append(f"### {registry.FAMILIES[family]}\n")
        cells = []
        for requirement, group in groupby(of_family, key=lambda row: row.requirement):
            for number, row in enumerate(group):
                ids = [f"**{id_}**" for id_ in row.named] + row.others
                name = requirement if number == 0 else ""
                counts = (str(len(row.passed)), str(len(row.unknown)), str(row.sound))
                test = row.test.removeprefix("test_").replace("_", " ")
                cells.append([name, test, ", ".join(ids), *counts])
        header = ("requirement", "test", "failed", "passed", "unknown", "sound")
        lines += [*table(header, cells), ""]
    return "\n".join(lines)


def _mutants(report: SelfTest) -> str:
    mutants = [subject for subject in report.subjects if subject.kind == "mutant"]
    if not mutants:
        return ""
    header = ("mutant", "of", "defect", "failed by", "what the report says")
    return "\n".join(["## Mutants\n", *table(header, map(_mutant, mutants)), ""])


def _mutant(subject: Subject) -> list[str]:
    kills = ", ".join(
        kill.requirement if kill.killed else f"~~{kill.requirement}~~ {kill.verdict}"
        for kill in subject.kills
    )
    first = subject.kills[0]
    said = first.headline or f"{first.reason}: {first.said}"
    said = escaped(said, _SAID) if first.reason else "nothing"
    return [subject.id, subject.base, escaped(subject.what, _CASE), kills, said]


def _sound(report: SelfTest) -> str:
    sound = matrix.sound_rows(report)
    if not sound:
        return ""
    header = ("engine", "of", "difference", "runs", "pass", "not claimed", "other")
    rows = (
        [
            row.subject.id,
            row.subject.base,
            escaped(row.subject.what, _CASE),
            *map(str, (row.runs, row.passed, row.not_claimed, row.other)),
        ]
        for row in sound
    )
    return "\n".join(["## Sound engines\n", *table(header, rows), ""])
