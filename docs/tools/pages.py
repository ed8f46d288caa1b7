"""Pages and tables of the site that are made from the registry, the protocol and the code.

Git holds none of them: site.py makes them whenever the site is built.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Final

from tickproof.conformance.history.event import PartitionState
from tickproof.conformance.history.events import EVENTS
from tickproof.conformance.performance.survey import site
from tickproof.conformance.performance.survey.result import EngineRow, Survey
from tickproof.conformance.suites.registry import EXACTLY_ONCE, FAMILIES, UNCHECKED, load
from tickproof.conformance.suites.requirement import Requirement
from tickproof.conformance.verdicts import Reason

DOCS: Final = Path(__file__).resolve().parents[1]

ENGINES: Final = DOCS.parent / "fixtures" / "engines"
#: The survey that the repository holds, as data.
SURVEY: Final = DOCS / "survey" / Survey.FILE_NAME

_CLAUSE_LINE = re.compile(r"^- \[([a-z]+-[a-z0-9-]+)\] (.+)$", re.MULTILINE)
_TABLE = re.compile(r"^<!-- made: (.*) -->$", re.MULTILINE)


def clauses(protocol: str) -> dict[str, str]:
    """Return clause id -> its text, in the order of the document.

    Raises ValueError that names the id and the line where an id comes twice.
    """
    found: dict[str, str] = {}
    for match in _CLAUSE_LINE.finditer(protocol):
        if match[1] in found:
            line = protocol.count("\n", 0, match.start()) + 1
            raise ValueError(f"protocol.md:{line}: clause id {match[1]} is used twice")
        found[match[1]] = match[2]
    return found


def survey() -> dict[str, str]:
    """Return the files that are made of the survey that the repository holds, by path.

    Of what its pages link to, they lead to the code of the engines alone, as it is now.
    """
    found = Survey.read(SURVEY)
    code = {
        name: path.read_text("utf-8")
        for one in found.engines
        for name in one.sources
        if (path := ENGINES.joinpath(*name.split("/")[2:]).with_suffix("")).is_file()
    }
    engines = [_without_runs(one, code) for one in found.engines]
    made = code | site.files(found.model_copy(update={"engines": engines}))
    return {f"survey/{name}": text for name, text in made.items() if name != SURVEY.name}


def _without_runs(one: EngineRow, code: Collection[str]) -> EngineRow:
    """Return the row of an engine as a page shows it that has the code alone."""
    failures = [
        each.model_copy(update={"pack": "", "script": each.script if each.script in code else ""})
        for each in one.failures
    ]
    sessions = [each.model_copy(update={"page": ""}) for each in one.sessions]
    sources = [name for name in one.sources if name in code]
    changed = {"failures": failures, "sessions": sessions, "sources": sources}
    return one.model_copy(update=changed)


def requirements_page(requirements: Mapping[str, Requirement]) -> str:
    """Return the page of every requirement, by family."""
    lines = [
        "# Requirements",
        f"{len(requirements)} requirements. Each is decided by tests that show their evidence. "
        "A requirement is asked only of engines whose claims select it; a tier is tried when "
        "the tiers below it hold. [coverage.md](coverage.md) is the way back from the protocol.",
        "",
        "## Exactly-once",
        "What every engine has to face that claims state and delivery exactly-once and to survive "
        "`engine`, on whatever app it offers:",
        ", ".join(f"[{id_}](#{id_.lower()})" for id_ in EXACTLY_ONCE) + ".",
        "",
    ]
    for family, title in FAMILIES.items():
        lines += [f"## {family}: {title}", ""]
        for requirement in requirements.values():
            if requirement.family == family:
                lines += _entry(requirement)
    return "\n".join(lines).rstrip("\n") + "\n"


def _entry(requirement: Requirement) -> list[str]:
    checked = ", ".join(_clause(clause) for clause in requirement.clauses)
    return [
        f"### {requirement.id}",
        f"**{requirement.title}** ({requirement.level}, tier {requirement.tier})",
        "",
        requirement.promise,
        "",
        f"- Asked of: {requirement.needs}",
        f"- Clauses: {checked}",
        "",
    ]


def coverage_page(
    text_of: Mapping[str, str],
    requirements: Mapping[str, Requirement],
    unchecked: Mapping[str, str],
) -> str:
    """Return the page of each clause and what checks it, or why nothing does.

    Raises ValueError for a clause that is in neither, in both, or not in the protocol.
    """
    checkers: dict[str, list[str]] = {clause: [] for clause in text_of}
    for requirement in requirements.values():
        for clause in requirement.clauses:
            if clause not in checkers:
                raise ValueError(f"{requirement.id}: clause {clause} is not in protocol.md")
            checkers[clause].append(requirement.id)
    stray = sorted(unchecked.keys() - text_of.keys())
    if stray:
        raise ValueError(f"UNCHECKED: {stray}: not in protocol.md")
    for clause, ids in checkers.items():
        if bool(ids) == (clause in unchecked):
            state = "both checked and excused" if ids else "neither checked nor excused"
            raise ValueError(f"clause {clause} is {state}: see UNCHECKED in suites/registry.py")
    count = sum(bool(ids) for ids in checkers.values())
    lines = [
        "# Coverage of the protocol",
        f"{len(text_of)} clauses: {count} are checked by requirements, "
        f"{len(unchecked)} by none, for the reason given.",
        "",
        "| clause | checked by |",
        "|---|---|",
    ]
    for clause in text_of:
        by = ", ".join(_link(one) for one in checkers[clause]) or f"none: {unchecked[clause]}"
        lines.append(f"| {_clause(clause)} | {by} |")
    return "\n".join(lines) + "\n"


def _clause(clause: str) -> str:
    return f"[`{clause}`](protocol.md#{clause})"


def _link(requirement: str) -> str:
    return f"[{requirement}](requirements.md#{requirement.lower()})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def events_table() -> str:
    """Return the table of every kind of event, with its fields."""
    lines = [
        "Each line of events.jsonl is a JSON object with `t_ns`, `event` and the fields below. "
        "Fields that end in `_ns` are times. `connection` numbers the data connections of a run, "
        f"from 1. `partitions` is a list of [{', '.join(PartitionState._fields)}].",
        "",
        "| event | what happened | fields |",
        "|---|---|---|",
    ]
    for kind, event in sorted(EVENTS.items()):
        what = _cell(" ".join((event.__doc__ or "").replace("``", "`").split()))
        names = ", ".join(f"`{one.name}`" for one in fields(event) if one.name != "t_ns")
        lines.append(f"| `{kind}` | {what} | {names} |")
    return "\n".join(lines)


def reasons_table() -> str:
    """Return the table of every reason code, what it means and what to do about it."""
    lines = ["| code | it means | usual cause, or what to do |", "|---|---|---|"]
    lines += [f"| {one} | {_cell(one.meaning)} | {_cell(one.advice)} |" for one in Reason]
    return "\n".join(lines)


_TABLES: Final = {"events": events_table, "reasons": reasons_table}


def completed(page: str) -> str:
    """Return a page of docs/ with its tables made, and an anchor at each clause.

    Raises ValueError for a table that is not known.
    """

    def table(match: re.Match[str]) -> str:
        if match[1] not in _TABLES:
            raise ValueError(f"made: expected one of {', '.join(_TABLES)}; got {match[1]!r}")
        return _TABLES[match[1]]()

    return _CLAUSE_LINE.sub(r'- <a id="\1"></a>[\1] \2', _TABLE.sub(table, page))


def pages() -> dict[str, str]:
    """Return the name and the text of each page that is made as a whole."""
    requirements = load()
    text_of = clauses((DOCS / "protocol.md").read_text("utf-8"))
    return {
        "requirements.md": requirements_page(requirements),
        "coverage.md": coverage_page(text_of, requirements, UNCHECKED),
    }
