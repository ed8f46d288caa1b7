"""A session for a pipeline: a summary in Markdown, and annotations as GitHub reads them."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import Final

from tickproof.conformance.report import judged, page
from tickproof.conformance.report.json_report import Report, Result
from tickproof.conformance.report.markdown import code, escaped, table
from tickproof.conformance.report.style import mark, tier_names, tier_title
from tickproof.conformance.report.terminal import replays
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.hints import halves
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import SEVERITY, Verdict

#: Failures that a summary shows whole; GitHub refuses a summary of more than 1 MiB.
_WHOLE: Final = 20
_TEXT: Final = 600
#: GitHub shows at most ten errors of a step.
_MOST_ANNOTATIONS: Final = 10
#: Claims in the order in which one of them says most of who is asked.
_CLAIMS: Final = ("survives", "delivery", "state", "rescale", "latency")


def summary(report: Report) -> str:
    """Return a session as Markdown: verdict, tiers, what did not hold, what was not judged."""
    engine = report.engine
    lines = [
        f"## {mark(report.conclusion.look)} {escaped(engine.title, 120)}: {report.conclusion.word}",
        "",
        f"{page.sentence(report)} {judged.share(report.requirements)}; "
        f"exit status {report.exit_status}; profile {report.profile}, seed {report.seed}.",
    ]
    if report.interrupted is not None:
        lines += ["", f"**{escaped(str(report.interrupted), _TEXT)}**"]
    rows = [
        [tier_title(tier, tier_names(found[0].id)), _counts(found), _seconds(found)]
        for tier, found in (
            (tier, list(group)) for tier, group in groupby(report.requirements, lambda r: r.tier)
        )
    ]
    lines += ["", *table(("tier", "verdicts", "seconds of runs"), rows)]
    bad = judged.told_once(page.first(report.requirements))
    for result, alike in bad[:_WHOLE]:
        lines += ["", *_failure(result, alike)]
    if len(bad) > _WHOLE:
        lines += ["", f"And {len(bad) - _WHOLE} more: report.json has all of them."]
    if report.not_judged:
        lines += ["", "<details><summary>Not judged</summary>", ""]
        lines += [
            f"- {len(row.ids)} {row.verdict.value}: {escaped(row.why, _TEXT)}"
            for row in report.not_judged
        ]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def workflow_commands(report: Report) -> list[str]:
    """Return a workflow command of GitHub for each result that did not hold, worst first.

    It points to the line of engine.toml that claims what did not hold, if the file is there.
    """
    toml = Path(report.engine.toml)
    try:
        claims = toml.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        claims = []
    found = []
    for result in page.first(report.requirements)[:_MOST_ANNOTATIONS]:
        level = "warning" if result.verdict is Verdict.UNKNOWN else "error"
        where = f"file={_property(str(toml))},line={_line(claims, result.id)}," if claims else ""
        title = _property(shown(f"{result.id} {result.verdict.value}: {result.title}", 200))
        said = f"{result.headline} Reproduce: {result.reproduce}"
        found.append(f"::{level} {where}title={title}::{_data(shown(said, 2 * _TEXT))}")
    return found


def _failure(result: Result, alike: list[Result]) -> list[str]:
    lines = [
        f"### {mark(result.verdict)} {escaped(result.id, 60)}: {escaped(result.title, 200)}",
        "",
        escaped(result.headline, _TEXT),
        "",
    ]
    for label, text in (
        ("reason", result.reason),
        ("likely", halves(result.promise, result.reason)[1]),
        ("played", result.stimulus),
        ("expected", result.expected),
        ("actual", result.actual),
        ("replays", replays(result)),
        *(("also", f"{other.id}: {other.title}") for other in alike),
    ):
        lines += [f"- {label}: {escaped(text, _TEXT)}"] if text else []
    if result.reproduce:
        lines.append(f"- again: {code(result.reproduce, _TEXT)}")
    return lines


def _counts(results: list[Result]) -> str:
    counts = judged.counts(results)
    return ", ".join(f"{counts[one]} {one.value}" for one in reversed(SEVERITY) if counts[one])


def _seconds(results: list[Result]) -> str:
    return f"{sum(result.seconds for result in results):.1f}"


def _line(claims: list[str], id_: str) -> int:
    """Return the number of the line of engine.toml that claims what a requirement asks."""
    one = registry.load().get(id_)
    wanted = [key for key in _CLAIMS if one is not None and getattr(one.needs, key)]
    for pattern in (*(rf"\s*{key}\s*=" for key in wanted), r"\s*\[claims\]"):
        for number, text in enumerate(claims, 1):
            if re.match(pattern, text):
                return number
    return 1


def _data(text: str) -> str:
    """Escape the text of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property of a workflow command."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
