"""The pages of a survey: a folder that any host can serve.

index.html has all engines, and a page for each of them its failures. Style, search, badges and
texts for the makers' tracker are files beside them. What an engine said is shown, and is no markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tickproof.conformance.performance.survey import words
from tickproof.conformance.performance.survey.result import EngineRow, Failure, State, Survey, Tally
from tickproof.conformance.report import markdown, templates, whole_file
from tickproof.conformance.text import command_line, shown
from tickproof.conformance.verdicts import Verdict

INDEX: Final = "index.html"
_SEARCH: Final = Path(__file__).with_name("search.js")
#: What pages load, by the name that it has beside them.
_BESIDE: Final = {"style.css": templates.STYLE, "search.js": _SEARCH}
#: Characters of a text that comes from an engine, in a text for a tracker.
_LONGEST: Final = 2000
#: Width of a character of a badge, its height, and the room beside each text.
_CHARACTER, _HEIGHT, _ROOM = 7, 20, 12
#: What a page shows first of what was asked.
_FIRST: Final = (State.FAILED, State.UNDECIDED, State.KNOWN_GAP, State.HELD)
_COLOURS: Final = {Verdict.PASS: "#14692f", Verdict.FAIL: "#b3151c", Verdict.UNKNOWN: "#7a5200"}


def write(survey: Survey, site: Path) -> Path:
    """Write the files into a folder; returns the first page. Raises OSError."""
    for name, text in files(survey).items():
        whole_file.write(site / name, text)
    return site / INDEX


def files(survey: Survey) -> dict[str, str]:
    """Return the text of each file, by name."""
    names = page_names(survey)
    made = {name: path.read_text("utf-8") for name, path in _BESIDE.items()}
    for one, name in zip(survey.engines, names, strict=True):
        made |= {
            tracker_name(name, failure): tracker(survey, one, failure) for failure in one.failures
        }
        made[f"{name}.svg"] = badge(one)
        made[f"{name}.html"] = _engine_page(survey, one, name)
    made[survey.FILE_NAME] = f"{survey.text()}\n"
    made[INDEX] = templates.render(
        "survey.html.j2",
        survey=survey,
        rows=list(zip(survey.engines, names, strict=True)),
        matrix=matrix(survey),
        look=look,
        words=words,
    )
    return made


def _engine_page(survey: Survey, one: EngineRow, name: str) -> str:
    return templates.render(
        "survey_engine.html.j2",
        survey=survey,
        one=one,
        file=name,
        look=look(one),
        judged=sorted(filter(_counts, one.requirements), key=lambda row: _FIRST.index(row.state)),
        others=_others(one),
        replayed=replayed,
        tracker_name=tracker_name,
        words=words,
        INDEX=INDEX,
    )


def page_names(survey: Survey) -> list[str]:
    """Return a name for the files of each engine: no two are the same, and none is a path."""
    made: list[str] = []
    for number, one in enumerate(survey.engines, 1):
        plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in one.engine.name)[:60]
        taken = plain in ("", "index", *made)
        made.append(f"{plain}-{number}" if taken else plain)
    return made


def look(one: EngineRow) -> Verdict:
    """Return the verdict that an engine looks like as a whole."""
    if one.failures:
        return Verdict.FAIL
    return Verdict.UNKNOWN if one.count(State.UNDECIDED) or not one.judged else Verdict.PASS


def _counts(tally: Tally) -> bool:
    """Say whether a requirement was asked, whatever came of it."""
    return words.LOOKS[tally.state] is not Verdict.NOT_CLAIMED


def _others(one: EngineRow) -> list[tuple[tuple[State, str], list[Tally]]]:
    """Return what was not asked, by state and why, the largest groups first."""
    groups: dict[tuple[State, str], list[Tally]] = {}
    for tally in one.requirements:
        if not _counts(tally):
            groups.setdefault((tally.state, tally.why), []).append(tally)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def matrix(survey: Survey) -> list[tuple[str, str, list[State | None]]]:
    """Return (id, title, state with each engine) of what any of them was judged on."""
    by_engine = [{tally.id: tally for tally in one.requirements} for one in survey.engines]
    titles = {id_: tally.title for one in by_engine for id_, tally in one.items()}
    rows = []
    for id_, title in titles.items():
        states = [one[id_].state if id_ in one else None for one in by_engine]
        if any(id_ in one and _counts(one[id_]) for one in by_engine):
            rows.append((id_, title, states))
    return rows


def badge(one: EngineRow) -> str:
    """Return a badge for a page of the makers, as SVG: how many promises held."""
    texts = ("tickproof", words.held(one).partition(",")[0])
    left, right = (len(text) * _CHARACTER + _ROOM for text in texts)
    colour = _COLOURS[look(one)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" '
        f'role="img" aria-label="{texts[0]}: {texts[1]}">'
        f'<rect width="{left}" height="{_HEIGHT}" fill="#3b434b"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{colour}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" '
        f'text-anchor="middle"><text x="{left / 2}" y="14">{texts[0]}</text>'
        f'<text x="{left + right / 2}" y="14">{texts[1]}</text></g></svg>\n'
    )


def tracker_name(name: str, failure: Failure) -> str:
    """Return the name of the file that has the text of a failure for the makers' tracker."""
    return f"{name}-{failure.id}.md"


def replayed(one: EngineRow, failure: Failure) -> str:
    """Return the command that plays a failure's faults again, "" where there is no pack."""
    if not failure.pack:
        return ""
    pack = failure.pack.rpartition("/")[2]
    return command_line("replay", pack, one.engine.asked or one.engine.toml)


def tracker(survey: Survey, one: EngineRow, failure: Failure) -> str:
    """Return the text: what happens, what is expected by whose words, and how to see it."""
    host, kit = survey.host, survey.kit
    expected = [f"The kit's requirement {failure.id}: {_plain(failure.promise)}"]
    if quote := failure.breaks:
        expected = [f"> {_plain(quote.says)}", "", f"({_plain(quote.source)})", "", *expected]
    extra = "[kafka]" if one.settings.session_timeout_ms is not None else ""
    commands: Sequence[str] = [
        f'pip install "tickproof{extra}=={kit.version}"',
        *filter(None, [replayed(one, failure)]),
        failure.reproduce,
    ]
    attached = (
        f"{failure.pack.rpartition('/')[2]}, attached, holds the input, the faults and the output "
        "of this run."
        if failure.pack
        else ""
    )
    script = failure.script.rpartition("/")[2].removesuffix(".txt")
    versions = [f"tickproof {kit.version}", f"Python {host.python}", *words.over(survey)]
    return "\n".join(
        [
            f"# {_plain(one.engine.title)} does not keep this: {_plain(failure.title)}",
            "",
            "## What happens",
            _plain(failure.headline or failure.actual),
            "",
            *(f"{number}. {_plain(line)}" for number, line in enumerate(failure.story, 1)),
            "",
            f"Failed {words.how_often(failure)}, {survey.started:%Y-%m-%d}.",
            *_replayed_with_less(failure),
            *([f"Control: {_plain(words.control(failure.control))}."] if failure.control else []),
            "",
            "## What was expected",
            *expected,
            "",
            "## How to see it",
            "```console",
            *(f"$ {shown(command, _LONGEST)}" for command in commands),
            "```",
            *([attached] if attached else []),
            *([f"{_plain(script)} shows it without the kit."] if script else []),
            "",
            "## Where it was seen",
            f"{_plain(', '.join(versions))}. {host.cpus} cores, "
            f"{_plain(host.cpu)}, {_plain(host.platform)}. Claimed: "
            f"{_plain('; '.join(words.claims(one)))}. Time limits: "
            f"{', '.join(words.limits(one.settings))}.",
            "",
        ]
    )


def _replayed_with_less(failure: Failure) -> list[str]:
    """Return how the replays failed, and what came of those that lacked some fault."""
    if failure.replays is None:
        return []
    said = words.alike(failure.replays)
    return [
        *([f"Replays failed {_plain(said)}."] if said else []),
        *(f"- {_plain(one)}" for one in words.with_less(failure.replays)),
    ]


def _plain(text: str) -> str:
    return markdown.escaped(text, _LONGEST)
