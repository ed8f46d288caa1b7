"""junit.xml: the results in the form that CI servers read.

Whatever is not a held promise must not look green there: an unknown is a failure,
and only what was deliberately not tested is skipped.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from tickproof.conformance.report import json_report, judged, whole_file
from tickproof.conformance.report.json_report import Report, Result
from tickproof.conformance.verdicts import Verdict

FILE_NAME: Final = "junit.xml"

_ELEMENT: Final[dict[Verdict, type[FinalResult] | None]] = {
    Verdict.PASS: None,
    Verdict.FAIL: Failure,
    Verdict.GAP_FIXED: Failure,
    Verdict.UNKNOWN: Failure,
    Verdict.KIT_ERROR: Error,
    Verdict.BLOCKED: Skipped,  # by a failure that is listed itself
    Verdict.NOT_CLAIMED: Skipped,
    Verdict.KNOWN_GAP: Skipped,
}
_DECLARATION: Final = "<?xml version='1.0' encoding='utf-8'?>"
#: Everything outside the Char production of XML 1.0: its complement would take long to compile.
_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_DETAILS: Final = (
    "scenario",
    "stimulus",
    "expected",
    "actual",
    "reason",
    "run",
    "root",
    "reproduce",
)


def xml_safe(text: str) -> str:
    """Return text in which every character that XML 1.0 forbids is written as \\uXXXX."""
    return _NOT_XML.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _element(report: Report, result: Result) -> type[FinalResult] | None:
    """Return the element of a result; what is blocked fails where no failure says why.

    What an early end left open is skipped: a case of its own tells of the end, as an error.
    """
    if json_report.left(result):
        return Skipped
    if result.verdict is Verdict.BLOCKED:
        failed = {
            one.id for one in report.requirements if _ELEMENT[one.verdict] in (Failure, Error)
        }
        return Skipped if failed.intersection(result.blocked_by) else Failure
    return _ELEMENT[result.verdict]


def _message(result: Result) -> str:
    said = [f"by {', '.join(result.blocked_by)}"] if result.blocked_by else []
    said.append(result.reason)
    if result.actual and not result.expected:
        said.append(result.actual)
    elif result.expected or result.actual:
        said.append(f"expected {result.expected}; got {result.actual}")
    return ": ".join(part for part in said if part) or result.verdict.value


def _details(result: Result) -> str:
    pairs = [(name, getattr(result, name)) for name in _DETAILS]
    lines = [*result.story.headline, *(f"{name}: {value}" for name, value in pairs if value)]
    for part in (result.story.lines, result.story.picture):
        lines += ["", *part] if part else []
    return "\n".join(lines)


def _case(report: Report, result: Result) -> TestCase:
    case = TestCase(
        xml_safe(f"{result.id} {result.title}".strip()),
        xml_safe(f"tickproof.{report.engine.name}.T{result.tier}"),
        result.seconds,
    )
    element = _element(report, result)
    if element is not None:
        shown = element(xml_safe(_message(result)), result.verdict.value)
        shown.text = xml_safe(_details(result))
        case.result = shown
    return case


def xml(report: Report) -> str:
    """Return a report as one ``testsuites`` element with one suite, one case a requirement."""
    suite = TestSuite(xml_safe(f"tickproof {report.engine.name}"))
    suite.timestamp = report.started.isoformat(timespec="seconds")
    for name, value in (
        ("engine_version", report.engine.version),
        ("kit_version", report.kit.version),
        ("kit_git", report.kit.git or ""),
        ("profile", report.profile),
        ("seed", str(report.seed)),
        ("isolation", report.isolation),
        ("hosts", str(report.hosts)),
        ("root", report.root),
        ("verdict", report.conclusion.word),
        ("judged", judged.share(report.requirements)),
        ("not_judged", judged.rest(report.requirements, report.not_asked)),
        ("required_and_not_judged", ", ".join(report.missing)),
        ("required_and_known_gap", ", ".join(report.required_gaps)),
    ):
        suite.add_property(name, xml_safe(value))
    suite.add_testcases([_case(report, result) for result in report.requirements])
    if (cut := report.interrupted) is not None:
        case = TestCase(
            "the session was played to its end", xml_safe(f"tickproof.{report.engine.name}"), 0
        )
        case.result = Error(xml_safe(str(cut)), "interrupted")
        suite.add_testcase(case)
    suites = JUnitXml()
    suites.add_testsuite(suite)
    suites.update_statistics()
    root = ElementTree.fromstring(suites.tostring())
    ElementTree.indent(root)
    return f"{_DECLARATION}\n{ElementTree.tostring(root, encoding='unicode')}"


def write(report: Report, folder: Path) -> Path:
    """Write junit.xml into a folder, whole or not at all; returns its path."""
    return whole_file.write(folder / FILE_NAME, xml(report))
