"""junit.xml: the results in the form that CI servers read.

Whatever is not a held promise must not look green there: an unknown is a failure,
and only what was deliberately not tested is skipped.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tickproof.conformance.reports import json_report, judged, whole_file
from tickproof.conformance.reports.json_report import Report, Result
from tickproof.conformance.verdicts import Verdict

FILE_NAME: Final = "junit.xml"

_ELEMENT: Final[dict[Verdict, str | None]] = {
    Verdict.PASS: None,
    Verdict.FAIL: "failure",
    Verdict.GAP_FIXED: "failure",
    Verdict.UNKNOWN: "failure",
    Verdict.KIT_ERROR: "error",
    Verdict.BLOCKED: "skipped",  # by a failure that is listed itself
    Verdict.NOT_CLAIMED: "skipped",
    Verdict.KNOWN_GAP: "skipped",
}
_DECLARATION: Final = "<?xml version='1.0' encoding='utf-8'?>"
_RED: Final = ("failure", "error")
#: Everything outside the Char production of XML 1.0.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DETAILS: Final = ("scenario", "stimulus", "expected", "actual", "reason", "run", "reproduce")


def xml_safe(text: str) -> str:
    """Return text in which every character that XML 1.0 forbids is written as \\uXXXX."""
    return _NOT_XML.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _element(report: Report, result: Result) -> str | None:
    """Return the element of a result; what is blocked fails where no failure says why.

    What an early end left open is skipped: a case of its own tells of the end, as an error.
    """
    if json_report.left(result):
        return "skipped"
    if result.verdict is Verdict.BLOCKED:
        failed = {one.id for one in report.requirements if _ELEMENT[one.verdict] in _RED}
        return "skipped" if failed.intersection(result.blocked_by) else "failure"
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


def _case(report: Report, result: Result) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        classname=xml_safe(f"tickproof.{report.engine.name}.T{result.tier}"),
        name=xml_safe(f"{result.id} {result.title}".strip()),
        time=f"{result.seconds:.3f}",
    )
    tag = _element(report, result)
    if tag is not None:
        attributes = {"message": xml_safe(_message(result)), "type": result.verdict.value}
        ElementTree.SubElement(case, tag, attributes).text = xml_safe(_details(result))
    return case


def document(report: Report) -> ElementTree.Element:
    """Return a report as one ``testsuites`` element with one suite, one case a requirement."""
    tags = [_element(report, result) for result in report.requirements]
    if report.interrupted is not None:
        tags.append("error")
    totals = {
        "tests": str(len(tags)),
        "failures": str(tags.count("failure")),
        "errors": str(tags.count("error")),
        "skipped": str(tags.count("skipped")),
        "time": f"{sum(result.seconds for result in report.requirements):.3f}",
    }
    root = ElementTree.Element("testsuites", totals)
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        totals
        | {
            "name": xml_safe(f"tickproof {report.engine.name}"),
            "timestamp": report.started.isoformat(timespec="seconds"),
        },
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (
        ("engine_version", report.engine.version),
        ("kit_version", report.kit.version),
        ("kit_git", report.kit.git or ""),
        ("profile", report.profile),
        ("seed", str(report.seed)),
        ("isolation", report.isolation),
        ("hosts", str(report.hosts)),
        ("verdict", report.conclusion.word),
        ("judged", judged.share(report.requirements)),
        ("not_judged", judged.rest(report.requirements, report.not_asked)),
        ("required_and_not_judged", ", ".join(report.missing)),
        ("required_and_known_gap", ", ".join(report.required_gaps)),
    ):
        ElementTree.SubElement(properties, "property", name=name, value=xml_safe(value))
    suite.extend(_case(report, result) for result in report.requirements)
    if (cut := report.interrupted) is not None:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=xml_safe(f"tickproof.{report.engine.name}"),
            name="the session was played to its end",
            time="0.000",
        )
        ElementTree.SubElement(case, "error", message=xml_safe(str(cut)), type="interrupted")
    return root


def write(report: Report, folder: Path) -> Path:
    """Write junit.xml into a folder, whole or not at all; returns its path."""
    root = document(report)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return whole_file.write(folder / FILE_NAME, f"{_DECLARATION}\n{text}")
