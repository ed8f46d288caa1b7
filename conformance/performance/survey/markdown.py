"""survey.md: a survey as a page to read, and its table in short for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from tickproof.conformance.performance.survey.result import (
    JUDGED,
    ClaimSet,
    EngineRow,
    Failure,
    Recovery,
    Settings,
    State,
    Survey,
    Tally,
)
from tickproof.conformance.report import markdown, whole_file
from tickproof.conformance.text import command_line, counted, shown

FILE_NAME: Final = "survey.md"
#: Characters of a text that comes from an engine.
_LONGEST: Final = 600
#: Requirements that a cell names.
_MOST: Final = 12
_LINK: Final = re.compile(r"https://[\w./?=&%#~+:-]+")


def write(survey: Survey, folder: Path) -> Path:
    """Write survey.md into a folder, whole or not at all; returns its path."""
    return whole_file.write(folder / FILE_NAME, page(survey))


def page(survey: Survey) -> str:
    """Return the page. Whatever an engine said is shown as plain text."""
    parts = [_head(survey), _engines(survey), _failures(survey), _rest(survey), _settings(survey)]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def brief(survey: Survey) -> Iterator[str]:
    """Yield one line for each engine, and one for each promise that did not hold."""
    for one in survey.engines:
        name = f"{shown(one.engine.name, 60)} {shown(one.engine.version, 30)}"
        recovery = _recovery(one.recovery)
        yield f"{name}: {_held(one)}, {_deaths(one)}; without output after one: {recovery}"
        for failure in one.failures:
            yield f"  {failure.id} failed {_how_often(failure)}: {shown(failure.title, 200)}"


def _head(survey: Survey) -> list[str]:
    host, software = survey.host, survey.software
    memory = f"{host.memory_bytes / 2**30:.0f} GiB"
    machine = [shown(host.cpu, 80), f"{host.cpus} cores", memory, shown(host.platform, 80)]
    versions = [
        f"tickproof {survey.kit.version}" + (f" ({survey.kit.git})" if survey.kit.git else ""),
        f"Python {host.python}",
        *([f"Java {software.java}"] if software.java else []),
        *([f"Apache Kafka {software.broker}"] if software.broker else []),
        *([software.client] if software.client else []),
    ]
    seeds = ", ".join(map(str, survey.seeds))
    asked = f" Asked: {', '.join(survey.only)}." if survey.only else ""
    return [
        "# Survey",
        f"What engines kept of what they promise. {survey.started:%Y-%m-%d}, profile "
        f"{survey.profile}, {counted(len(survey.seeds), 'seed')}: {seeds}.{asked} Written by "
        "`tickproof survey`; survey.json holds the same as data.",
        "",
        f"- Machine: {_safe(', '.join(machine))}",
        f"- Versions: {_safe(', '.join(versions))}",
    ]


def _engines(survey: Survey) -> list[str]:
    rows = [
        (
            f"{_safe(one.engine.name)} {_safe(one.engine.version)}",
            "<br>".join(_claims(claims, len(one.claims) == 1) for claims in one.claims),
            _held(one),
            _deaths(one),
            _recovery(one.recovery),
            _bounds(one.settings),
            counted(one.code_lines, "line"),
        )
        for one in survey.engines
    ]
    return [
        "## Engines",
        "A promise holds if it passed with each seed. Recovery is the time without output after "
        "a kill, from the last output before it: of the partition that waited longest, in runs "
        "of passthrough and count; p50 and p95 over all such kills. The timeouts beside it are "
        "the engine's own settings, and bound it. Code: lines beside engine.toml that are not "
        "blank.",
        "",
        *markdown.table(
            ("engine", "claims", "promises", "deaths", "recovery", "bounded by", "code"), rows
        ),
    ]


def _failures(survey: Survey) -> list[str]:
    lines = ["## What did not hold"]
    if not any(one.failures for one in survey.engines):
        return [*lines, "Nothing that was judged failed."]
    lines.append("A failure is confirmed if it came with each seed.")
    for one in survey.engines:
        if one.failures:
            lines += ["", f"### {_safe(one.engine.name)} {_safe(one.engine.version)}"]
        for failure in one.failures:
            lines += _failure(failure)
    return lines


def _failure(failure: Failure) -> list[str]:
    quote = failure.breaks
    told = [_safe(failure.headline)] if failure.headline else []
    said = [f"> {_safe(quote.says)} ({_source(quote.source)})", ""] if quote else []
    facts = {
        "reason": markdown.code(failure.reason, _LONGEST),
        "stimulus": _safe(failure.stimulus),
        "expected": _safe(failure.expected),
        "actual": _safe(failure.actual),
        "seen with seed": str(failure.seed),
        "judged anew by": markdown.code(failure.reproduce, _LONGEST),
        "played again by": markdown.code(command_line("replay", failure.pack, "ENGINE"), _LONGEST)
        if failure.pack
        else "",
        "run": markdown.code(failure.run, _LONGEST) if failure.run else "",
    }
    return [
        "",
        f"**{failure.id}: {_safe(failure.title)}.** Failed {_how_often(failure)}.",
        "",
        *said,
        *told,
        "",
        *(f"- {name}: {text}" for name, text in facts.items() if text),
    ]


def _source(text: str) -> str:
    return f"[source]({text})" if _LINK.fullmatch(text) else _safe(text)


def _how_often(failure: Failure) -> str:
    if failure.confirmed:
        return "with each seed: confirmed" if failure.of > 1 else "with the only seed"
    return f"with {failure.failed_in} of {failure.of} seeds: not confirmed"


def _rest(survey: Survey) -> list[str]:
    rows = []
    for one in survey.engines:
        left = [
            tally for tally in one.requirements if tally.state not in (State.HELD, State.FAILED)
        ]
        order = list(State)
        left.sort(key=lambda tally: (order.index(tally.state), tally.why))
        for (state, why), some in groupby(left, key=lambda tally: (tally.state, tally.why)):
            named = list(some)
            rows.append((_safe(one.engine.name), state.value, _ids(named, state), _safe(why)))
    lines = [
        "## What neither held nor failed",
        "Undecided: evidence was missing with at least one seed. Not claimed: the engine does "
        "not promise it. Not applicable: it is about something that the engine has not.",
    ]
    if not rows:
        return [*lines, "", "Nothing."]
    return [*lines, "", *markdown.table(("engine", "state", "requirements", "why"), rows)]


def _ids(tallies: Sequence[Tally], state: State) -> str:
    """Name requirements; of what is undecided, also how often it came out how."""
    names = [one.id for one in tallies[:_MOST]]
    if state is State.UNDECIDED:
        names = [f"{one.id} ({_verdicts(one)})" for one in tallies[:_MOST]]
    more = len(tallies) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _verdicts(tally: Tally) -> str:
    return ", ".join(f"{count} {verdict.value}" for verdict, count in tally.verdicts.items())


def _settings(survey: Survey) -> list[str]:
    rows, sessions = [], []
    for one in survey.engines:
        held, name = one.settings, _safe(one.engine.name)
        limits = (
            held.startup_timeout_s,
            held.drain_timeout_s,
            held.recovery_timeout_s,
            held.cut_timeout_s,
        )
        kafka = (held.session_timeout_ms, held.transaction_timeout_ms)
        times = [f"{limit:g} s" for limit in limits]
        times += ["" if limit is None else _bound(limit) for limit in kafka]
        rows.append((name, held.transport, *times))
        for seen in one.sessions:
            verdict = seen.verdict.value if seen.verdict else "kit-error"
            found = (verdict, seen.isolation or "", markdown.code(seen.report, _LONGEST))
            sessions.append((name, str(seen.seed), *found))
    limits_of = ("startup", "drain", "recovery", "cut", "session", "transaction")
    return [
        "## Settings",
        *markdown.table(("engine", "transport", *limits_of), rows),
        "",
        "## Sessions",
        *markdown.table(("engine", "seed", "verdict", "isolation", "report"), sessions),
    ]


def _held(one: EngineRow) -> str:
    gaps = one.count(State.KNOWN_GAP)
    undecided = one.count(State.UNDECIDED)
    more = [counted(gaps, "known gap")] if gaps else []
    more += [f"{undecided} undecided"] if undecided else []
    assert one.judged == one.count(*JUDGED)
    return f"{one.held} of {one.judged} held" + "".join(f", {text}" for text in more)


def _deaths(one: EngineRow) -> str:
    return f"{counted(one.deaths, 'death')} in {counted(one.runs, 'run')}"


def _recovery(found: Recovery) -> str:
    if found.p50_s is None or found.p95_s is None:
        return "not seen"
    return f"p50 {found.p50_s:.1f} s, p95 {found.p95_s:.1f} s ({found.samples})"


def _bounds(settings: Settings) -> str:
    if settings.session_timeout_ms is None or settings.transaction_timeout_ms is None:
        return f"recovery {settings.recovery_timeout_s:g} s"
    session = _bound(settings.session_timeout_ms)
    return f"session {session}, transaction {_bound(settings.transaction_timeout_ms)}"


def _bound(limit_ms: int) -> str:
    return "none" if limit_ms == 0 else f"{limit_ms / 1000:g} s"


def _claims(claims: ClaimSet, alone: bool) -> str:
    """Say what is claimed, and for what where that is not all."""
    survives = ", ".join(claims.survives) or "nothing"
    apps = "" if alone else f"{', '.join(claims.apps)}: "
    return _safe(
        f"{apps}state {claims.state}, delivery {claims.delivery}, survives {survives}"
        + (f", rescale {claims.rescale}" if claims.rescale != "none" else "")
    )


def _safe(text: str) -> str:
    """Return text as Markdown that shows it and no more, on one line."""
    return markdown.escaped(text, _LONGEST)
