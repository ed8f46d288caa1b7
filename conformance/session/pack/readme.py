"""README.txt of a pack: for somebody who has never seen this kit."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tickproof import conformance
from tickproof.conformance import apps, explain
from tickproof.conformance.explain import fault_sentences, job_runs
from tickproof.conformance.explain.facts import Facts
from tickproof.conformance.explain.outcomes import stimulus
from tickproof.conformance.history import job_run
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.job_run import JobRun
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.hints import halves
from tickproof.conformance.text import shortened, shown
from tickproof.conformance.verdicts import Outcome, Verdict

NAME: Final = "README.txt"
_WIDTH: Final = 78
_TEXT: Final = 1_000
_LABEL: Final = 12
#: Lines of standard error that are shown.
_STDERR_LINES: Final = 12
_ENDINGS: Final = {
    "completed": "The run went to its end.",
    "engine-failure": "The engine ended the run",
    "kit-error": "Tickproof itself could not go on",
}
#: The words of the protocol, for those who read the story before it.
_WORDS: Final = {
    "record": "input lies in streams of partitions; a record has an offset there: 0, 1, 2, ...",
    "FETCH": "the engine asks for the records of a partition from an offset on",
    "RELEASE": "its promise never to FETCH below an offset again, in no later life either",
    "cut": "offsets with the state and output that belong to exactly the records before them; "
    "an engine that was killed goes on from its last durable one",
    "writer": "a channel of output that the engine names; seq numbers its records: 0, 1, 2, ...",
    "APPEND": "the engine sends output; the reply says that it is recorded",
    "HAVE": "asks for the next number of a writer, and makes this connection its owner; what "
    "another connection sends for it is refused from then on: that one is fenced",
    "STAGE": "sends output that is held back under the number of a transaction",
    "COMMIT": "makes it visible. Outcome 1: committed now; 2: was committed already, nothing "
    "is added; 3: unknown. ABORT drops what is staged and undoes no COMMIT",
    "drain": "the kit asks for all input to be processed; the answer says that it is",
}
#: Files that can be read as they are, by the beginning of their names.
_READABLE: Final = {
    "run.json": "engine, scenario with its faults, seed, input, and how the run ended",
    "SHA256SUMS": "the digest of each file here; its own SHA-256 is the root of this run",
    "verdict.json": "the verdicts when the run was made",
    "events.jsonl": "faults, starts, exits, connections, HAVE, transactions, drain",
    "control.jsonl": "every line to and from the engine's stdin and stdout",
    "stderr.log": "what the engine wrote to standard error",
    "output/s0.log": "the engine's output: for each record its size (u32) and its bytes",
    "input/s": "the input of one partition, in the same form",
    "manifest.json": "size and SHA-256 of each file",
}

#: How to look at a pack; FILE is the pack itself.
_HOW: Final = (
    f"  pip install tickproof            (this was made by version {conformance.__version__})",
    "  tickproof explain FILE           the story above, with its picture",
    "  tickproof check FILE             judge the recording again",
    "  tickproof replay FILE ENGINE     the same input and faults on an engine",
    "",
    "You need Linux and Python 3.11 or newer. FILE is the pack, or the folder that",
    "you unpacked it into; ENGINE is the path of an engine.toml, which says how",
    "your engine is started. Faults come at the same points of the input, but",
    "processes never run alike twice: --times 5 plays it five times.",
)
_HOW_OF_JOBS: Final = (
    f"  pip install 'tickproof[kafka]'   (this was made by version {conformance.__version__})",
    "  tickproof explain FILE           what is said above",
    "  tickproof replay FILE JOB.TOML   the same input and faults on a job",
    "",
    "You need Linux and Python 3.11 or newer. FILE is the pack; JOB.TOML says how the",
    "job is started. Faults come at the same moments, but processes never run alike",
    "twice: --times 5 plays it five times.",
)
#: Files of a job's run.
_OF_JOBS: Final = {
    job_run.FILE: "job, seed, faults as they were asked for and as they came, and the end",
    job_run.VERDICT: "what was decided from this run by itself",
    "stderr.log": "what the job wrote to standard error",
}
_TAKEN_OUT = (
    "Words in braces such as {home}, {token} or {path}/file stand for paths, tokens, "
    "addresses, the names of user and host, and environment values that look secret. "
    "Check stderr.log and output/ yourself: they are the engine's own words, and the "
    "bytes of output/ were not touched."
)


def text(history: History, outcomes: Collection[Outcome], members: Collection[str]) -> str:
    """Return the README of a run: what was done, what went wrong, how to look at it."""
    engine = history.record.engine
    name = shown(f"{engine.name} {engine.version} ({engine.language})", 120)
    story = explain.text(history, list(outcomes)).rstrip()
    parts = [
        f"A recorded run of the stream-processing engine {name}",
        "",
        _paragraph(
            "Tickproof is a conformance kit: it feeds an engine, kills its processes, records "
            "everything that comes out, and judges the recording. This is one such run. You can "
            "judge it again, or play it again on your engine."
        ),
        *_section("What was done", _done(history)),
        *_section("What went wrong", _wrong(history, outcomes)),
        *_section("The story, from the recording", [story]),
        *_section("Words", [_field(word, what) for word, what in _WORDS.items()]),
        *_section("How to look at it", _HOW),
        *_section("The files", _files(history, members)),
        *_section("What was taken out", [_paragraph(_TAKEN_OUT)]),
    ]
    return "\n".join(parts) + "\n"


def of_job(run: JobRun, outcomes: Sequence[Outcome], members: Collection[str]) -> str:
    """Return the README of a run of a user's own job."""
    done, *decided = job_runs.parts(run, outcomes)
    lines = [
        f"A recorded run of the job {shown(run.job_name, 120)}",
        "",
        _paragraph(
            "Tickproof feeds a job its input, kills its processes, and compares what it gives "
            f"with what is due. This is one such run: {done.title}."
        ),
        *_section("What was done", [_field(*one) for one in done.fields]),
        *_section("What was decided", [] if decided else ["Nothing."]),
    ]
    for part in decided:
        lines += [part.title, *(_field(*one) for one in part.fields), ""]
    wide = max(map(len, members)) + 2
    lines += [
        *_section("How to look at it", _HOW_OF_JOBS),
        *_section("The files", [_field(n, _OF_JOBS.get(n, "rows"), wide) for n in sorted(members)]),
        *_section("What was taken out", [_paragraph(_TAKEN_OUT)]),
    ]
    return "\n".join(lines) + "\n"


def _section(title: str, lines: Iterable[str]) -> list[str]:
    return ["", title, "-" * len(title), *lines]


def _paragraph(words: str) -> str:
    return textwrap.fill(words, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _field(label: str, value: str, wide: int = _LABEL) -> str:
    return textwrap.fill(
        shown(value, _TEXT),
        _WIDTH,
        initial_indent=f"  {label}".ljust(wide + 2),
        subsequent_indent=" " * (wide + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _done(history: History) -> list[str]:
    claims = history.claims
    lines = [
        _paragraph(f"Scenario {history.scenario}: {shown(stimulus(history), _TEXT)}."),
        _paragraph(apps.of(history).about),
        _paragraph(
            f"The engine claims: state {claims.state}, delivery {claims.delivery}; it "
            f"survives the loss of: {', '.join(claims.survives) or 'nothing'}."
        ),
        "",
    ]
    facts = Facts.of(history)
    faults = [fault_sentences.struck(facts, after) for after in facts.aftermaths]
    faults += [fault_sentences.missed(facts, row) for row in history.missed_faults]
    lines += [_paragraph(f"- {said}") for said in faults]
    ended = history.ended
    how = _ENDINGS.get(ended.how, "It ended")
    said = shown(ended.message, _TEXT)
    lines.append(_paragraph(f"{how}: {said}" if said else how))
    last = shortened(history.stderr_tail()) if ended.engine_failed else []
    if any(last):
        lines += ["", "The end of its standard error (stderr.log):", ""]
        lines += [f"  {line}".rstrip() for line in last[-_STDERR_LINES:]]
    return lines


def _wrong(history: History, outcomes: Collection[Outcome]) -> list[str]:
    known = registry.load()
    lines: list[str] = []
    good = [o.requirement for o in outcomes if o.verdict is Verdict.PASS]
    for outcome in outcomes:
        if outcome.verdict in (Verdict.PASS, Verdict.NOT_CLAIMED):
            continue
        requirement = known.get(outcome.requirement)
        lines += [
            "",
            _paragraph(
                f"{outcome.requirement}: {outcome.verdict}"
                + (f" ({outcome.reason})" if outcome.reason else "")
            ),
        ]
        if outcome.blocked_by:
            lines.append(_field("blocked by", ", ".join(outcome.blocked_by)))
            continue
        promise, causes = halves(requirement.promise, outcome.reason) if requirement else ("", "")
        if requirement:
            lines.append(_field("promise", f"{requirement.title}. {promise}"))
        lines += [_field("expected", outcome.expected), _field("seen", outcome.actual)]
        where = outcome.evidence.get("where")
        if isinstance(where, dict):
            lines.append(_field("where", ", ".join(_places(history, where))))
        if causes and outcome.evidence.get("ended") == "completed":
            lines.append(_field("likely", causes))
    if not lines:
        lines = ["Nothing."]
    if good:
        lines += ["", _paragraph(f"These held: {', '.join(good)}.")]
    return lines if lines[0] else lines[1:]


def _places(history: History, where: Mapping[str, Any]) -> Iterator[str]:
    """Give what is known of the place of a counterexample, times as in the story."""
    for key, value in where.items():
        if key == "t_ns" and isinstance(value, int):
            yield f"at {Facts.of(history).at(value)} (t_ns {value})"
        else:
            yield f"{key} {value}"


def _files(history: History, members: Collection[str]) -> Iterator[str]:
    """Name every file of the pack, and say of those that people can read what they hold."""
    names = sorted({*members, "manifest.json"})
    said = {n: what for n in names for start, what in _READABLE.items() if n.startswith(start)}
    wide = max(map(len, said)) + 2
    yield from (_field(name, what, wide) for name, what in said.items())
    yield ""
    if tables := [name for name in names if name not in said]:
        yield _paragraph(
            f"Tables: {', '.join(tables)}. Tickproof's docs/run-folder.md describes them."
        )
    yield _paragraph(
        f"All t_ns are nanoseconds of one clock; 0.000 s of the story is t_ns "
        f"{Facts.of(history).origin}."
    )
