"""mutants.md: the score, what survived and why, file by file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tickproof.conformance.report.document import this_host, this_kit
from tickproof.conformance.report.markdown import escaped
from tickproof.conformance.selftest.mutation import equivalents
from tickproof.conformance.selftest.mutation.equivalents import Equivalents
from tickproof.conformance.selftest.mutation.results import Fate, Result, Results
from tickproof.conformance.selftest.mutation.source import Mutation
from tickproof.conformance.verdicts import concluded

FILE_NAME: Final = "mutants.md"
_SAID: Final = 200


@dataclass(frozen=True)
class Summary:
    """A summary of the results.

    mutants: how many there are; judged: those with a result. killed. explained: not killed,
    and listed as equivalent, with the reason. survivors: the others. broken: the kit broke.
    stale: entries of the list that are not true.
    """

    engine: str
    seed: int
    mutants: int
    judged: int
    killed: int
    explained: list[tuple[Result, str]]
    survivors: list[Result]
    broken: list[Result]
    stale: list[str]

    @property
    def score(self) -> float:
        """Return how many per cent of the judged mutants that can be killed are killed."""
        return 100 * self.killed / max(self.judged - len(self.explained), 1)

    @property
    def exit_status(self) -> int:
        """Return 0 if some mutants were judged, and each of them is killed or explained."""
        return concluded(
            broken=bool(self.broken),
            wrong=bool(self.survivors or self.stale),
            unknown=False,
            judged=bool(self.judged),
        ).status

    def __str__(self) -> str:
        return (
            f"{self.engine}: {self.killed:,} of {self.judged:,} mutants killed, "
            f"{len(self.explained)} equivalent, {len(self.survivors)} survived: "
            f"score {self.score:.4g} %; not tried: {self.mutants - self.judged:,}"
        )


def summary(mutations: Sequence[Mutation], results: Results, known: Equivalents) -> Summary:
    """Hold the results against the list of equivalents."""
    judged = [(one, result) for one in mutations if (result := results.get(one))]
    killed = sum(result.fate is Fate.KILLED for _, result in judged)
    explained, survivors = [], []
    for one, result in judged:
        if result.fate in (Fate.SURVIVED, Fate.UNKNOWN):
            reason = known.reason(one)
            explained.append((result, reason)) if reason else survivors.append(result)
    return Summary(
        results.head.engine,
        results.head.seed,
        len(mutations),
        len(judged),
        killed,
        explained,
        survivors,
        [result for _, result in judged if result.fate is Fate.BROKEN],
        list(equivalents.stale(known, mutations, results)),
    )


def write(found: Summary, folder: Path) -> Path:
    """Write mutants.md into a folder; returns its path."""
    path = folder / FILE_NAME
    path.write_text(render(found), encoding="utf-8")
    return path


def render(found: Summary) -> str:
    """Return the summary as Markdown."""
    host, kit = this_host(), this_kit()
    parts = [
        f"# Mutants of {escaped(found.engine, 80)}\n\n**{found}.**\n\n"
        f"Seed {found.seed}; {host.cpus} processors, {escaped(host.cpu, 80)}; "
        f"kit {escaped(kit.version, 40)}.\n",
        _stale(found.stale),
        _results("Survived", ((one, _why(one)) for one in found.survivors)),
        _results("The kit broke", ((one, _why(one)) for one in found.broken)),
        _results("Equivalent", found.explained),
    ]
    return "\n".join(part for part in parts if part)


def _why(result: Result) -> str:
    seen = f"{result.requirement} {result.fate}: {result.reason}: {result.said}"
    return seen if result.requirement else "every test passed"


def _stale(cases: Sequence[str]) -> str:
    lines = [f"- {escaped(case, 400)}" for case in cases]
    return "\n".join(["## Entries of the list that are not true\n", *lines, ""]) if cases else ""


def _results(title: str, results: Iterable[tuple[Result, str]]) -> str:
    parts = []
    for result, why in results:
        edit = [f"-{line}" for line in result.old.splitlines()]
        edit += [f"+{line}" for line in result.new.splitlines()]
        diff = "\n".join(("```diff", *edit, "```"))
        parts.append(f"{escaped(result.id, 200)}\n{diff}\n{escaped(why, _SAID)}\n")
    return "\n".join([f"## {title}\n", *parts]) if parts else ""
