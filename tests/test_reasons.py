"""Reasons: every code that a judge, a checker or an engine's failure gives is in the enum."""

from __future__ import annotations

import ast
import re

from tests.test_architecture import modules
from tickproof.conformance.engines.failures import Code
from tickproof.conformance.log_server import frames
from tickproof.conformance.suites import evidence
from tickproof.conformance.verdicts import Reason

CODES = {str(one) for one in Reason}


def test_each_reason_is_one_sentence() -> None:
    for one in Reason:
        assert re.fullmatch(r"[A-Za-z][^\n]*\.", one.meaning), one
        assert not one.advice.endswith("."), one
        assert one.name == one.value.upper().replace("-", "_")


def test_failures_of_an_engine_are_reasons() -> None:
    assert {str(code) for code in Code} <= CODES
    assert {code.name for code in frames.Code} <= CODES


def test_kinds_of_findings_are_reasons() -> None:
    kinds = {
        *evidence.VALUES,
        *evidence.LOSS,
        *evidence.TWICE,
        *evidence.CHANGED,
        *evidence.ORDER_KINDS,
        *evidence.SEEN,
    }
    noted = set()
    for path in modules("conformance/checkers").values():
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
                called = ast.unparse(call.func).rpartition(".")[2]
                if called in ("note", "Finding"):
                    noted.add(call.args[0].value)
    assert len(noted) > 5
    assert kinds | noted <= CODES


def test_judges_name_members_of_the_enum() -> None:
    named = 0
    for name in ("suites", "spark_check"):
        for path in modules(f"conformance/{name}").values():
            for call in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(call, ast.Call) and ast.unparse(call.func) in ("Fail", "Unknown"):
                    assert not isinstance(call.args[0], ast.Constant), ast.unparse(call)
                    named += ast.unparse(call.args[0]).startswith("Reason.")
    assert named > 40
