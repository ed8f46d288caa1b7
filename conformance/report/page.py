"""A session as one HTML page: everything that it shows is inside it, and it runs no script."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Final

from markupsafe import Markup

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import job_run
from tickproof.conformance.history.folder import opened
from tickproof.conformance.report import (
    json_report,
    judged,
    processes,
    scale_costs,
    standalone,
    templates,
    timeline,
    whole_file,
)
from tickproof.conformance.report.document import PAGE_NAME
from tickproof.conformance.report.json_report import Report, Result
from tickproof.conformance.report.processes import ProcessUse
from tickproof.conformance.report.run_curves import RunCurves
from tickproof.conformance.report.style import tier_names, tier_number
from tickproof.conformance.report.terminal import REPEATS, replays, where
from tickproof.conformance.suites.hints import advice, halves
from tickproof.conformance.text import command_line, counted
from tickproof.conformance.verdicts import EXIT_NOT_JUDGED, SEVERITY, Verdict

#: Most characters of evidence in one entry.
EVIDENCE_LIMIT: Final = 8000
#: Close looks at faults in one entry: of a result that is out of the ordinary, and of any other.
_LOOKS_IF_BAD: Final = 3
_LOOKS: Final = 1
#: Verdicts that the page puts first, open, with their story.
_FIRST: Final = (Verdict.KIT_ERROR, Verdict.FAIL, Verdict.GAP_FIXED, Verdict.UNKNOWN)
_ASIDE: Final = (
    REPEATS,
    "by_symbol",
    "inputs",
    "stderr",
    "points",
    "scales",
    "where",
    "schedule",
    "t_ns",
)
#: Pairs of the fault space that a page lists.
MOST_PAIRS: Final = 200


@dataclass(frozen=True)
class RunPictures:
    """What a page shows of a run: drawn curves and processes, or ``why`` there are none."""

    whole: Markup | None = None
    looks: Sequence[tuple[str, Markup]] = ()
    processes: Sequence[ProcessUse] = ()
    usage: Markup | None = None
    why: str = ""


@dataclass(frozen=True)
class Entry:
    """One requirement as the page shows it.

    causes: what is likely where the run shows no reason. why: what explains it and is said
    nowhere else in its story. schedule: the faults, as TOML. evidence, stderr: of what is out of
    the ordinary. scales: what each scale cost. pictures: None without a run, or where
    ``same_run`` is the id of an entry that has them.
    """

    result: Result
    promise: str
    causes: str
    where: str
    replays: str
    why: Sequence[str]
    schedule: str
    evidence: str
    scales: Sequence[str]
    stderr: Sequence[str]
    pictures: RunPictures | None
    same_run: str = ""

    @property
    def bad(self) -> bool:
        """True if it is out of the ordinary."""
        return _bad(self.result)

    @property
    def left(self) -> bool:
        """True if it was not judged because the session ended early."""
        return json_report.left(self.result)

    @property
    def not_claimed(self) -> bool:
        """True if the engine does not promise it."""
        return self.result.verdict is Verdict.NOT_CLAIMED

    @property
    def blocked(self) -> bool:
        """True if it was not judged because of another."""
        return self.result.verdict is Verdict.BLOCKED


@dataclass(frozen=True)
class Tier:
    """The entries of one tier; ``counts``: verdict to number, worst first."""

    number: str
    name: str
    counts: Sequence[tuple[Verdict, int]]
    entries: Sequence[Entry]

    @property
    def not_claimed(self) -> Sequence[Entry]:
        """Those that the engine does not promise."""
        return [entry for entry in self.entries if entry.not_claimed]

    @property
    def blocked(self) -> Sequence[Entry]:
        """Those that were not judged because of others."""
        return [entry for entry in self.entries if entry.blocked]

    @property
    def left(self) -> Sequence[Entry]:
        """Those that an early end of the session left open."""
        return [entry for entry in self.entries if entry.left]

    @property
    def seconds(self) -> float:
        """Seconds that its runs took, added up."""
        return sum(entry.result.seconds for entry in self.entries)


def _bad(result: Result) -> bool:
    return result.verdict in _FIRST and not json_report.left(result)


def first(results: Iterable[Result]) -> list[Result]:
    """Return what is shown before all else, the worst first."""
    return sorted(filter(_bad, results), key=lambda one: _FIRST.index(one.verdict))


def html(report: Report, folder: Path) -> str:
    """Return the page of a session whose runs lie in ``folder``, as `Report` names them.

    A run that cannot be read, or is there no more, costs its pictures only.
    """
    shown = entries(report.requirements, folder)
    tiers = [
        Tier(
            tier_number(number, names := tier_names(found[0].result.id)),
            names.get(number, ""),
            _counted(found),
            found,
        )
        for number, found in (
            (number, list(group))
            for number, group in groupby(shown, key=lambda entry: entry.result.tier)
        )
    ]
    by_id = {entry.result.id: entry for entry in shown}
    return templates.render(
        "report.html.j2",
        report=report,
        tiers=tiers,
        first=[by_id[result.id] for result in first(report.requirements)],
        counts=_counted(shown),
        sentence=sentence(report),
        share=judged.share(report.requirements),
        command=command(report),
        most_pairs=MOST_PAIRS,
        curves=any(one.pictures and one.pictures.whole for one in by_id.values()),
    )


def write(report: Report, folder: Path) -> Path:
    """Write report.html beside the report.json of a session; returns its path. Raises OSError."""
    return whole_file.write(folder / PAGE_NAME, html(report, folder))


def picture(report: Report, folder: Path) -> str:
    """Return the run of the worst result over time, as an SVG file.

    Raises HistoryError where no run of the report can be drawn.
    """
    played = [one for one in report.requirements if one.run]
    if not played:
        raise HistoryError("no picture: it holds no run")
    pictures = _pictures(max(played, key=lambda one: SEVERITY.index(one.verdict)), folder)
    if pictures.whole is None:
        raise HistoryError(f"no picture: {pictures.why}")
    return standalone.svg(pictures.whole, timeline.HEIGHT)


def sentence(report: Report) -> str:
    """Return the verdict of a session in words that agree with its exit status."""
    counts = Counter(one.verdict for one in report.requirements)
    if report.missing and report.conclusion.status == EXIT_NOT_JUDGED:
        return f"Not judged, though required: {counted(len(report.missing), 'requirement')}."
    if report.conclusion.look is not report.verdict and report.required_gaps:
        return (
            f"Required, and excused by nothing: {counted(len(report.required_gaps), 'known gap')}."
        )
    match report.verdict:
        case Verdict.PASS:
            return "Every promise that was judged held."
        case Verdict.FAIL | Verdict.GAP_FIXED:
            broken = counts[Verdict.FAIL]
            gaps = counts[Verdict.GAP_FIXED]
            said = [f"{counted(broken, 'promise')} did not hold"] if broken else []
            said += [f"{counted(gaps, 'known gap')} held after all"] if gaps else []
            return f"{' and '.join(said)}."
        case Verdict.UNKNOWN | Verdict.BLOCKED:
            left = counts[Verdict.UNKNOWN] + counts[Verdict.BLOCKED]
            return f"Nothing was seen to break, but {counted(left, 'promise')} stayed open."
        case Verdict.KIT_ERROR:
            return "The kit itself broke: this says nothing of the engine."
        case Verdict.KNOWN_GAP:
            return "Every promise that was judged held, but for gaps that its makers know."
        case Verdict.NOT_CLAIMED:
            return "Nothing was judged."


def command(report: Report) -> str:
    """Return the command that judges the same again, "" for the report of a recorded run."""
    if not report.engine.toml:
        return ""
    asked = report.selection
    return command_line(
        "run",
        report.engine.asked or report.engine.toml,
        seed=report.seed,
        profile="" if report.profile == "quick" else report.profile,
        hosts=report.hosts or None,
        tier=asked.tiers,
        only=",".join(asked.only),
        require=",".join(asked.require),
        secret=asked.secret,
    )


def entries(results: Sequence[Result], folder: Path) -> list[Entry]:
    """Return the entries of all results; pictures of a run are drawn for the worst of them.

    folder: where the runs lie that the results name.
    """
    shows: dict[str, str] = {}
    for result in sorted(results, key=lambda one: -SEVERITY.index(one.verdict)):
        if result.run:
            shows.setdefault(result.run, result.id)
    found = []
    for result in results:
        first = shows.get(result.run, result.id)
        pictures = None
        if result.run and first == result.id:
            pictures = _pictures(result, folder)
        said, _ = halves(result.promise)
        story, bad = result.story, _bad(result)
        stderr, schedule = (result.evidence.get(key) for key in ("stderr", "schedule"))
        rest = {key: value for key, value in result.evidence.items() if key not in _ASIDE}
        found.append(
            Entry(
                result=result,
                promise=said,
                where=where(result),
                replays=replays(result),
                causes=advice(result) if bad else "",
                why=[line for line in story.why if line not in (*story.headline, *story.lines)],
                schedule=_bounded(schedule) if bad and isinstance(schedule, str) else "",
                evidence=_bounded(json.dumps(rest, indent=1, ensure_ascii=False))
                if bad and rest
                else "",
                scales=scale_costs.sentences(result.evidence),
                stderr=[str(line) for line in stderr] if isinstance(stderr, list) else [],
                pictures=pictures,
                same_run="" if first == result.id else first,
            )
        )
    return found


def _pictures(result: Result, folder: Path) -> RunPictures:
    """Draw a run that lies below ``folder``; what a report names elsewhere is not looked at."""
    path = PurePosixPath(result.run)
    if path.is_absolute() or ".." in path.parts:
        return RunPictures(why="its run lies elsewhere")
    if job_run.is_one(folder / path):  # of a job there are facts, and no curves
        return RunPictures()
    try:
        with opened(folder / path) as history:
            run = RunCurves(history, _wrong_ns(result))
            whole = timeline.whole(run, f"The run of {result.id} over time")
            most = _LOOKS_IF_BAD if _bad(result) else _LOOKS
            looks = [
                (
                    f"{from_s:.3f} s to {to_s:.3f} s",
                    timeline.close_look(run, (from_s, to_s), f"{result.id} close to a fault"),
                )
                for from_s, to_s in run.close_looks(most)
            ]
            used = processes.of_run(history, run.origin_ns)
            usage = processes.picture(used, run.seconds, f"Processes of {result.id}")
    except (HistoryError, OSError, ValueError) as error:
        return RunPictures(why=f"{type(error).__name__}: {error}")
    return RunPictures(whole, looks, used, usage)


def _wrong_ns(result: Result) -> int | None:
    """Return when the output of the counterexample came, where evidence says so."""
    found = result.evidence.get("where")
    t_ns = found.get("t_ns") if isinstance(found, dict) else None
    return t_ns if result.verdict is Verdict.FAIL and type(t_ns) is int else None


def _counted(entries: Iterable[Entry]) -> list[tuple[Verdict, int]]:
    counts = judged.counts(entry.result for entry in entries)
    return [(verdict, counts[verdict]) for verdict in reversed(SEVERITY) if counts[verdict]]


def _bounded(text: str) -> str:
    if len(text) <= EVIDENCE_LIMIT:
        return text
    more = f"{len(text) - EVIDENCE_LIMIT:,} more characters in report.json"
    return f"{text[:EVIDENCE_LIMIT]}\n… {more}"
