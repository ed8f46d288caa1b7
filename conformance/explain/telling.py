"""Stories for many outcomes: those of a session for its reports, those of one run as a text."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from conformance.explain.picture import picture
from conformance.explain.story import TOLD, Story, story
from conformance.history.folder import History
from conformance.verdicts import Outcome

#: Width of the pictures that are kept in reports.
WIDTH: Final = 80


def told(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return outcomes with story and picture where they failed or stayed unknown.

    Reads the run folders; an input that is made again for it is removed again.
    """
    found = list(outcomes)
    runs: dict[str, list[int]] = {}
    for number, outcome in enumerate(outcomes):
        if outcome.verdict in TOLD and outcome.run:
            runs.setdefault(outcome.run, []).append(number)
    for run, numbers in runs.items():
        with opened(Path(run)) as history:
            for number in numbers:
                found[number] = _with_story(history, found[number])
    return found


@contextmanager
def opened(folder: Path) -> Iterator[History | Exception]:
    """Open a history for stories, or give why it cannot be; leaves the folder as it was."""
    had_input = (folder / "input").exists()
    try:
        history: History | Exception = History(folder)
    except (ValueError, OSError) as error:
        history = error
    try:
        yield history
    finally:
        if not had_input:
            shutil.rmtree(folder / "input", ignore_errors=True)


def _with_story(history: History | Exception, outcome: Outcome) -> Outcome:
    """Add story and picture. A story is an extra: what goes wrong in it costs no verdict."""
    if isinstance(history, Exception):
        return replace(outcome, story=(f"No story: {history}",))
    try:
        made = story(history, outcome)
        drawn = picture(history, [made.wrong] if made.wrong else [], width=WIDTH)
    except Exception as error:
        why = f"No story: the kit could not make one ({type(error).__name__}: {error})"
        return replace(outcome, story=(why,))
    return replace(outcome, story=made.lines, picture=tuple(drawn))


def text(
    history: History, outcomes: Sequence[Outcome], *, width: int = WIDTH, ascii_only: bool = False
) -> str:
    """Return the stories of one run as plain text, with one picture, for a file or a mail."""
    stories = [made for made in (story(history, outcome) for outcome in outcomes) if made.lines]
    wrong = [made.wrong for made in stories if made.wrong is not None][:1]
    lines = picture(history, wrong, width=width, ascii_only=ascii_only)
    for made in stories:
        lines += ["", f"{made.requirement}: {made.verdict.value}", *wrapped(made, width)]
    return "\n".join(lines) + "\n"


def wrapped(made: Story, width: int) -> list[str]:
    """Return the sentences of a story, wrapped and indented."""
    lines: list[str] = []
    for sentence in made.lines:
        lines += textwrap.wrap(sentence, width, initial_indent="  ", subsequent_indent="    ")
    return lines
