"""The two halves of a promise: what holds, and what is likely where it does not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

from tickproof.conformance.verdicts import Verdict

#: Where the likely causes begin, and what need not be said of a failure.
_CAUSES: Final = re.compile(r"(?<=[.!?])\s+(?=If )")
_FAILED: Final = "If it fails, "


def halves(promise: str) -> tuple[str, str]:
    """Return what a promise says, and its likely causes of a failure ("" where it names none)."""
    said, *rest = _CAUSES.split(promise.strip(), maxsplit=1)
    causes = "".join(rest)
    if causes.startswith(_FAILED):
        causes = causes.removeprefix(_FAILED)
        causes = causes[0].upper() + causes[1:]
    return said, causes


class _Told(Protocol):
    """Lines of a story that explain a result."""

    @property
    def why(self) -> list[str]: ...


class _Result(Protocol):
    """The parts of a result that a hint depends on."""

    @property
    def id(self) -> str: ...
    @property
    def verdict(self) -> Verdict: ...
    @property
    def promise(self) -> str: ...
    @property
    def story(self) -> _Told: ...
    @property
    def evidence(self) -> Mapping[str, Any]: ...


def advice(result: _Result) -> str:
    """Return the likely causes of a failure where the run itself shows none, "" elsewhere.

    A run that the engine broke off shows nothing of a promise about values: its end is the
    business of the family PR alone. An error of the kit says nothing of the engine.
    """
    ended = result.evidence.get("ended")
    if result.verdict is Verdict.KIT_ERROR or result.story.why:
        return ""
    if ended == "engine-failure" and not result.id.startswith("PR-"):
        return ""
    return halves(result.promise)[1]
