"""Whoever embeds the kit can catch all of its exceptions by one name."""

from __future__ import annotations

import ast

from tests.test_architecture import modules

BASE = "TickproofError"


def exception_classes() -> dict[str, set[str]]:
    """Return the exception classes defined in the kit -> the names of their bases."""
    found: dict[str, set[str]] = {}
    for path in modules("conformance").values():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name] = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    raised = {"Exception", "BaseException", "ValueError", "RuntimeError", "OSError", BASE}
    while more := {name for name, bases in found.items() if bases & raised} - raised:
        raised |= more
    return {name: found[name] for name in raised & found.keys()}


def test_every_exception_of_the_kit_has_the_one_base() -> None:
    classes = exception_classes()
    assert len(classes) > 20
    good = {BASE}
    while more := {name for name, bases in classes.items() if bases & good} - good:
        good |= more
    assert classes.keys() - good == set()
