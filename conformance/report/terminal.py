"""The summary at the end of a session: tiers, counterexamples, one last line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tickproof.conformance.explain.picture import plain
from tickproof.conformance.report import judged, rejects_by_symbol, scale_costs
from tickproof.conformance.report.document import PAGE_NAME
from tickproof.conformance.report.json_report import Report, Result, left
from tickproof.conformance.report.style import (
    badge,
    counts_line,
    glyph,
    symbol,
    tier_names,
    tier_number,
    tier_title,
)
from tickproof.conformance.suites.hints import advice, halves
from tickproof.conformance.text import shortened, shown, told_apart
from tickproof.conformance.verdicts import (
    DOES_NOT_APPLY,
    EXIT_NOT_JUDGED,
    Reason,
    Verdict,
    status_of,
)

_FIELD_LIMIT: Final = 600
_ID_LIMIT: Final = 40
_LABEL_WIDTH: Final = 11
#: In the evidence of a failure: {"failed": replays that failed it too, "of": replays}.
REPEATS: Final = "repeats"
_BAD: Final = (Verdict.KIT_ERROR, Verdict.FAIL, Verdict.GAP_FIXED)
_POSITIONS: Final = ("offset", "index", "seq")
#: Counterexamples printed whole; the length of a line for each of the others.
_WHOLE: Final = 5
_REST_LIMIT: Final = 200


def summary(console: Console, report: Report, folder: Path, *, verbose: bool = False) -> None:
    """Print one engine's results; ``folder`` is where its reports lie."""
    console.print()
    _heading(console, report)
    details(console, report.requirements, folder, verbose=verbose)
    _last_line(console, report, folder)


def details(
    console: Console, results: Sequence[Result], folder: Path | None, *, verbose: bool = True
) -> None:
    """Print tiers, every counterexample, what stayed open, rejects by symbol.

    ``verbose``: each tier as a table of its requirements, instead of one line, and what scales
    cost.
    """
    by_tier = {
        tier: list(found)
        for tier, found in groupby(sorted(results, key=lambda r: r.tier), key=lambda r: r.tier)
    }
    if verbose:
        widths = _widths(results)
        for tier, found in by_tier.items():
            _tier(console, tier, found, widths)
    else:
        _tiers(console, by_tier)
    not_held(console, results, folder)
    if verbose:
        scale_costs.show(console, results)


def not_held(console: Console, results: Sequence[Result], folder: Path | None) -> None:
    """Print every counterexample, what stayed open, rejects by symbol; of a pass nothing."""
    _not_claimed(console, results)
    bad = [result for verdict in _BAD for result in results if result.verdict is verdict]
    printed: set[str] = set()  # standard error and pictures, printed once each
    blocked = _blocked(results)
    told = judged.told_once(bad)
    for result, alike in told[:_WHOLE]:
        _counterexample(console, result, folder, printed, blocked.get(result.id, []), alike)
    _rest(console, [result for result, _ in told[_WHOLE:]], blocked)
    _not_decided(console, results)
    rejects_by_symbol.show(console, results)


def root(console: Console, digest: str) -> None:
    """Print the root of what was judged, which tells a run from any other."""
    line(console, "root", digest)


def status(console: Console, verdicts: Sequence[Verdict]) -> int:
    """Return the exit status of a command on recorded runs; say so if nothing was judged."""
    found = status_of(verdicts) if verdicts else EXIT_NOT_JUDGED
    if found == EXIT_NOT_JUDGED:
        text = f"Nothing was judged: the claims exclude it; exit status {found}"
        console.print(Text(text, style="bold red"), soft_wrap=True)
    return found


def _blocked(results: Sequence[Result]) -> dict[str, list[str]]:
    """Return the ids that each failure left nothing to judge for; a broken tier is told apart."""
    found: dict[str, list[str]] = {}
    for result in results:
        if result.verdict is Verdict.BLOCKED and result.reason != Reason.LOWER_TIER:
            for blocker in result.blocked_by:
                found.setdefault(blocker, []).append(shown(result.id, _ID_LIMIT))
    return found


def comparison(console: Console, reports: Sequence[Report], folders: Sequence[Path]) -> None:
    """Print requirement by engine, where verdicts differ; folders: of the reports."""
    verdicts = [{r.id: r.verdict for r in report.requirements} for report in reports]
    tiers = {r.id: r.tier for report in reports for r in report.requirements}
    rows = {id_: [v.get(id_) for v in verdicts] for id_ in sorted(tiers, key=tiers.__getitem__)}
    differ = {id_: found for id_, found in rows.items() if len(set(found)) > 1}
    table = Table(box=None, pad_edge=False)
    table.add_column("requirement", no_wrap=True)
    names, which = told_apart([shown(one.engine.name, 16) for one in reports], folders)
    for name in names:
        table.add_column(Text(name), no_wrap=True)
    for id_, found in differ.items():
        table.add_row(
            Text(shown(id_, _ID_LIMIT)), *(badge(v, console) if v else Text("") for v in found)
        )
    table.add_section()
    table.add_row(
        Text("verdict", style="bold"),
        *(badge(one.conclusion.look, console, one.conclusion.word) for one in reports),
    )
    same = Counter(found[0] for id_, found in rows.items() if id_ not in differ and found[0])
    console.print()
    console.print(Text("Comparison", style="bold"))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))
    if which:
        console.print(Text(f"  {which}"), soft_wrap=True)
    if same:
        console.print(Text("  the same for all: ").append_text(counts_line(same, console)))


def _heading(console: Console, report: Report) -> None:
    engine = report.engine
    title = Text(shown(engine.title, 60), style="bold")
    title.append(f"  profile {report.profile}, seed {report.seed}", style="dim")
    title.append(f", isolation {report.isolation}", style="dim")
    console.print(title)


def _tiers(console: Console, by_tier: Mapping[int, Sequence[Result]]) -> None:
    """Print one line for each tier: its name, how many of which verdict, how long."""
    table = Table(box=None, show_header=False, pad_edge=False)
    if any(tier_number(tier, tier_names(found[0].id)) for tier, found in by_tier.items()):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True, justify="right")
    for tier, results in by_tier.items():
        names = tier_names(results[0].id)
        number = tier_number(tier, names)
        table.add_row(
            *([Text(number, style="bold")] if number else []),
            Text(names.get(tier, "")),
            counts_line(judged.counts(results), console),
            _seconds(sum(r.seconds for r in results)),
        )
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _tier(console: Console, tier: int, results: list[Result], widths: tuple[int, int]) -> None:
    """Print one row for each requirement of a tier; a title that is too long is wrapped."""
    title = Text(f"{tier_title(tier, tier_names(results[0].id))}  ", style="bold")
    title.append_text(counts_line(judged.counts(results), console))
    table = Table(box=None, show_header=False, pad_edge=False, expand=console.width <= 120)
    table.add_column(no_wrap=True, width=widths[0])
    table.add_column(ratio=1, overflow="fold")
    table.add_column(no_wrap=True, width=widths[1])
    table.add_column(no_wrap=True, justify="right", min_width=6)
    for result in results:
        table.add_row(
            Text(shown(result.id, _ID_LIMIT)),
            Text(shown(result.title, 100), style="dim" if _quiet(result) else ""),
            badge(result.verdict, console),
            _seconds(result.seconds),
        )
    console.print()
    console.print(title)
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _seconds(seconds: float) -> Text:
    return Text(f"{seconds:.1f} s" if seconds >= 0.05 else "", style="dim")


def _widths(results: Sequence[Result]) -> tuple[int, int]:
    """Return the widths of id and verdict that hold for all tiers, so that columns align."""
    ids = [min(len(result.id), _ID_LIMIT) for result in results]
    words = [len(result.verdict.value) + 2 for result in results]
    return max(ids, default=1), max(words, default=1)


def _quiet(result: Result) -> bool:
    return result.verdict in (Verdict.NOT_CLAIMED, Verdict.BLOCKED)


def _rest(
    console: Console, results: Sequence[Result], blocked: Mapping[str, Sequence[str]]
) -> None:
    """Print the other counterexamples briefly: they often share one cause."""
    if not results:
        return
    console.print()
    console.print(Text("  more failures, whole in report.json:", style="dim"))
    for result in results:
        line = symbol(result.verdict, console).append(f" {shown(result.id, _ID_LIMIT)}  ")
        line.append(shown(result.headline, _REST_LIMIT), style="default")
        if result.id in blocked:
            line.append(f" (blocks {len(blocked[result.id])})", style="dim")
        _wrapped(console, line, 0)


def _counterexample(
    console: Console,
    result: Result,
    folder: Path | None,
    printed: set[str],
    blocked: Sequence[str],
    alike: Sequence[Result],
) -> None:
    """Print one result whole; standard error and picture only where not yet ``printed``.

    blocked: what it left nothing to judge for. alike: what says the same of the same run.
    """
    title = symbol(result.verdict, console).append(f" {shown(result.id, _ID_LIMIT)}")
    title.append(f"  {shown(result.title, 100)}", style="bold")
    console.print()
    console.print(title)
    for sentence in result.story.headline:
        _wrapped(console, sentence, 2)
    promise, _ = halves(result.promise)
    for label, value in (
        ("reason", result.reason),
        ("stimulus", result.stimulus or result.scenario),
        ("expected", result.expected),
        ("actual", result.actual),
        ("where", where(result)),
        ("promise", promise),
    ):
        field(console, label, value)
    _story(console, result, printed)
    causes = advice(result)
    field(console, "likely", causes)
    for other in alike:
        field(console, "also", f"{other.id}: {other.title}")
    if blocked:
        field(console, "blocks", f"{len(blocked)}: {', '.join(blocked)}")
    _stderr(console, result, printed)
    _schedule(console, result)
    field(console, "replays", replays(result))
    line(console, "reproduce", result.reproduce)
    line(console, "run folder", _run_path(result, folder))


def _schedule(console: Console, result: Result) -> None:
    """Print the schedule that was played, where one was given: never wrapped, to be copied."""
    text = result.evidence.get("schedule")
    if isinstance(text, str) and result.scenario.startswith("schedule-"):
        console.print(Text("  schedule", style="dim"))
        for line in text.rstrip().split("\n"):
            console.print(Text(f"    {shown(line, _FIELD_LIMIT)}"), soft_wrap=True)


def _story(console: Console, result: Result, printed: set[str]) -> None:
    """Print what the run shows of a failure; its picture once a run."""
    for number, sentence in enumerate(result.story.brief):
        field(console, "" if number else "story", sentence)
    picture = result.story.picture
    if not picture or result.run in printed:
        return
    printed.add(result.run)
    console.print()
    for line in picture:
        shape = glyph(line, plain(line), console)
        console.print(Text(f"  {shown(shape, _FIELD_LIMIT)}"), no_wrap=True, overflow="crop")
    console.print()


def _stderr(console: Console, result: Result, printed: set[str]) -> None:
    """Print the last lines of standard error, once a run; report.json has whole traces."""
    lines = result.evidence.get("stderr")
    if not isinstance(lines, list) or not lines:
        return
    text = "\n".join(shortened([shown(str(line), _FIELD_LIMIT) for line in lines]))
    if text in printed:
        return
    printed.add(text)
    console.print(Text("  stderr", style="dim"))
    for line in text.split("\n"):
        console.print(Text(f"    {line}"), soft_wrap=True)


def field(console: Console, label: str, value: str) -> None:
    """Print one labelled value, wrapped under itself."""
    if value:
        head = _head(label)
        _wrapped(console, Text(shown(value, _FIELD_LIMIT)), len(head), head)


def _wrapped(console: Console, text: str | Text, indent: int, head: Text | None = None) -> None:
    """Print text with each line indented and none padded; ``head`` stands before the first."""
    whole = text if isinstance(text, Text) else Text(shown(text, _FIELD_LIMIT))
    lines = whole.wrap(console, max(20, console.width - indent))
    for number, line in enumerate(lines):
        before = head if head is not None and number == 0 else Text(" " * indent)
        line.rstrip()
        console.print(before.copy().append_text(line), soft_wrap=True)


def line(console: Console, label: str, value: str) -> None:
    """Print one labelled value that somebody will copy: never wrapped, never cut."""
    if value:
        console.print(_head(label).append(shown(value, _FIELD_LIMIT)), soft_wrap=True)


def _head(label: str) -> Text:
    """Return a label, indented, with the room that labels have."""
    return Text("  ").append(f"{shown(label, 40):<{_LABEL_WIDTH - 1}} ", style="dim")


def replays(result: Result) -> str:
    """Return how often replays failed as well, "" if there were none."""
    found = result.evidence.get(REPEATS)
    if not isinstance(found, Mapping):
        return ""
    return f"{found.get('failed')} of {found.get('of')} failed in the same requirement"


def where(result: Result) -> str:
    """Return where in the history a result stands: "key 7, offset 43,210, ..."."""
    found = result.evidence.get("where")
    if isinstance(found, Mapping):
        return ", ".join(f"{key} {_figure(key, value)}" for key, value in found.items())
    return str(found) if found else ""


def _figure(key: str, value: object) -> str:
    """Return a value as text, positions with separators; ids stay as they are."""
    if key in _POSITIONS and isinstance(value, int):
        return f"{value:,}"
    return str(value)


def _run_path(result: Result, folder: Path | None) -> str:
    if not result.run or folder is None:
        return result.run
    return str(folder / result.run)


def _not_claimed(console: Console, results: Sequence[Result]) -> None:
    """Print the ids of what the engine does not promise, by reason."""
    rows = [row for row in judged.groups(results) if row[0] is Verdict.NOT_CLAIMED]
    for number, (verdict, why, ids) in enumerate(rows):
        line = badge(verdict, console)
        named = ", ".join(shown(id_, _ID_LIMIT) for id_ in ids)
        if why.startswith(DOES_NOT_APPLY) and len(ids) > 1:
            named = f"{len(ids)} requirements"
        line.append(f"  {shown(why, _REST_LIMIT)}: {named}" if why else f"  {named}", "default")
        console.print(Padding(line, (0 if number else 1, 0, 0, 2), expand=False))


def _not_decided(console: Console, results: Sequence[Result]) -> None:
    """Print every unknown with its reason, and blocked ones by what blocked them."""
    unknown = [r for r in results if r.verdict is Verdict.UNKNOWN and not left(r)]
    blocked = Counter(_blocking(r) for r in results if r.verdict is Verdict.BLOCKED)
    gaps = [r for r in results if r.verdict is Verdict.KNOWN_GAP]
    if unknown or blocked or gaps:
        console.print()
    for result in unknown:
        text = badge(Verdict.UNKNOWN, console).append(
            f" {shown(result.id, _ID_LIMIT)}", style="bold"
        )
        said = ": ".join(part for part in (result.reason, result.actual) if part)
        console.print(text.append(f"  {shown(said, _FIELD_LIMIT)}", style="default"))
        for sentence in result.story.brief:
            field(console, "story", sentence)
        line(console, "reproduce", result.reproduce)
    for result in gaps:
        text = badge(Verdict.KNOWN_GAP, console).append(
            f" {shown(result.id, _ID_LIMIT)}", style="bold"
        )
        console.print(text.append(f"  {shown(result.reason, _FIELD_LIMIT)}", style="default"))
    for reason, times in blocked.items():
        text = badge(Verdict.BLOCKED, console).append(f" {times}", style="bold")
        console.print(text.append(f"  {shown(reason, _FIELD_LIMIT)}", style="default"))
    field(console, "meanwhile", _played_meanwhile(results))


def _played_meanwhile(results: Sequence[Result]) -> str:
    """Say what runs of blocked requirements had shown before that was known."""
    blocked = [one for one in results if one.verdict is Verdict.BLOCKED]
    played = Counter(str(one.evidence["played"]) for one in blocked if "played" in one.evidence)
    failed = [shown(one.id, _ID_LIMIT) for one in blocked if one.evidence.get("played") == "fail"]
    said = [f"{number} {verdict}" for verdict, number in sorted(played.items())]
    return ", ".join(said) + (f"; fail: {', '.join(failed)}" if failed else "")


def _blocking(result: Result) -> str:
    """Say what left nothing to judge."""
    if result.reason == Reason.LOWER_TIER or not result.blocked_by:
        return f"{result.reason}: {result.actual}"
    return f"by {', '.join(result.blocked_by)}: {result.reason}"


#: What stays open at a level of isolation, unless it is the strongest.
_OPEN: Final = {
    "user": "; isolation user: the engine can see what is tested, and keep state in /tmp",
    "none": "; isolation none: nothing but trust keeps the engine from the evidence",
}


def _last_line(console: Console, report: Report, folder: Path) -> None:
    dash = glyph("—", "-", console)
    text = Text(shown(report.engine.name, 60), style="bold").append(": ")
    text.append_text(badge(report.conclusion.look, console, report.conclusion.word))
    where = f" on {report.hosts} hosts" if report.hosts else ""
    text.append(f"{where} {dash} ", style="default")
    text.append(f"{judged.share(report.requirements)}: ", style="default")
    text.append_text(counts_line(judged.counts(report.requirements), console))
    text.append(f"; exit status {report.exit_status}", style="default")
    text.append(_OPEN.get(report.isolation, ""))
    console.print()
    for why, ids in (("not judged", report.missing), ("a known gap", report.required_gaps)):
        if ids:
            required = f"required, and {why}: {', '.join(ids)}"
            console.print(Text(shown(required, _FIELD_LIMIT), style="bold red"))
    if report.verdict is Verdict.NOT_CLAIMED:
        console.print(Text("Nothing was judged: engine.toml claims nothing of what was asked for."))
    if report.interrupted is not None:
        console.print(Text(shown(str(report.interrupted), _FIELD_LIMIT), style="bold yellow"))
    console.print(text)
    if (space := report.fault_space) is not None:
        share = space.covered / space.pairs if space.pairs else 0.0
        told = f"{space.covered:,} of {space.pairs:,} pairs covered ({share:.1%})"
        line(console, "space", f"{told} by {len(space.points)} points")
    field(console, "not judged", judged.rest(report.requirements, report.not_asked))
    line(console, "report", str(folder / PAGE_NAME))
    root(console, report.root)
