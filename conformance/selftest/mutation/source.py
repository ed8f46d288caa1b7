"""Mutants of Python source, as cosmic-ray makes them: one small edit each.

Every operator of cosmic-ray that needs no settings is applied wherever it fits. Left out is
what is no other program: an edit of an annotation only, and what Python does not compile.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.errors import RequestError

#: Operators that need to be told a variable's name.
_NEED_SETTINGS: Final = ("VariableInserter", "VariableReplacer")


@dataclass(frozen=True)
class Mutation:
    """One edit of one file.

    file: path within the engine's folder. operator, occurrence: what cosmic-ray finds it by.
    line: its number, from 1. old, new: the lines that change, as they stand in the file.
    """

    file: str
    operator: str
    occurrence: int
    line: int
    old: str
    new: str

    @property
    def id(self) -> str:
        """Return a name that is unique in this version of the engine."""
        return f"{self.file}:{self.line}:{self.operator}:{self.occurrence}"


def sources(folder: Path) -> list[str]:
    """Return the Python files below an engine's folder, as relative paths, sorted."""
    found = (path.relative_to(folder) for path in folder.rglob("*.py"))
    return sorted(path.as_posix() for path in found if path.name != "__init__.py")


def digest(folder: Path) -> str:
    """Return a hash of the sources below a folder, in hexadecimal digits."""
    known = hashlib.sha256()
    for file in sources(folder):
        content = (folder / file).read_bytes()
        known.update(f"{file} {len(content)}\n".encode() + content)
    return known.hexdigest()


def mutations(folder: Path) -> list[Mutation]:
    """Return all mutations of the sources below a folder, by file and line."""
    found = [one for file in sources(folder) for one in _of_file(folder, file)]
    return sorted(found, key=lambda one: (one.file, one.line, one.operator, one.occurrence))


def apply(mutation: Mutation, folder: Path) -> None:
    """Make the edit in a copy of the engine. Raises RequestError where it does not fit."""
    path = folder / mutation.file
    operator = _operators()[mutation.operator]
    code = _mutated(path.read_text(encoding="utf-8"), operator, mutation.occurrence)
    if code is None:
        raise RequestError(f"{mutation.id}: {mutation.file} has no such place")
    path.write_text(code, encoding="utf-8")


def _of_file(folder: Path, file: str) -> Iterator[Mutation]:
    """Yield the mutations of a file, one top-level statement after the other.

    A statement at a time, because each mutation parses its source anew.
    """
    from cosmic_ray.ast import ast_nodes, get_ast

    counts = dict.fromkeys(_operators(), 0)
    before = 0
    for part in get_ast((folder / file).read_text(encoding="utf-8")).children:
        statement, nodes = part.get_code(), list(ast_nodes(part))
        same = _meaning(statement)
        for name, operator in _operators().items():
            here = sum(1 for node in nodes for _ in operator.mutation_positions(node))
            for number in range(here):
                code = _mutated(statement, operator, number) or ""
                if _meaning(code) not in (same, None):
                    place = name, counts[name] + number, before
                    yield _mutation(file, *place, statement, code)
            counts[name] += here
        before += statement.count("\n")


def _mutation(
    file: str, operator: str, occurrence: int, before: int, statement: str, code: str
) -> Mutation:
    """Return the mutation that makes ``code`` of a statement after ``before`` lines."""
    old, new = statement.splitlines(), code.splitlines()
    first = _common(old, new)
    old, new = old[first:], new[first:]
    same = _common(old[::-1], new[::-1])
    changed = (lines[: len(lines) - same] for lines in (old, new))
    shown = ("\n".join(lines).strip() for lines in changed)
    return Mutation(file, operator, occurrence, before + first + 1, *shown)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines are the same at the beginning of both."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in same)


def _meaning(code: str) -> str | None:
    """Return what tells programs apart, their annotations left out; None for what is none."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


@cache
def _operators() -> dict[str, Any]:
    """Return the operators by name, "core/" left out."""
    try:
        from cosmic_ray.plugins import get_operator, operator_names
    except ImportError as error:
        expected = "expected the extra mutation: pip install 'tickproof[mutation]'"
        raise RequestError(f"cosmic-ray is not installed; {expected}") from error
    found = {name.removeprefix("core/"): name for name in sorted(operator_names())}
    return {
        short: get_operator(name)() for short, name in found.items() if short not in _NEED_SETTINGS
    }


def _mutated(code: str, operator: Any, occurrence: int) -> str | None:
    """Return the code with one edit, None where the operator does not occur so often."""
    from cosmic_ray.mutating import mutate_code

    return mutate_code(code, operator, occurrence)
