"""The two halves of a promise: what holds, and what is likely where it does not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

from tickproof.conformance.verdicts import Reason, Verdict

#: Where the likely causes begin, and what need not be said of a failure.
_CAUSES: Final = re.compile(r"(?<=[.!?])\s+(?=If )")
_FAILED: Final = "If it fails, "
#: How promises say what is wrong of some failures, to name the causes of each.
_WHEN: Final[Mapping[str, str]] = {
    Reason.LOST: "something is lost",
    Reason.DUPLICATE: "something is there twice",
    Reason.WRONG_TOTAL: "values differ",
    Reason.NO_RECOVERY: "stands still",
    Reason.EXITED: "ends",
}
_CONDITION: Final = re.compile(r"If (?P<when>[^,]*), (?P<cause>.*)", re.DOTALL)


def halves(promise: str, reason: str = "") -> tuple[str, str]:
    """Return what a promise says, and its likely causes of a failure ("" where it names none).

    reason: of the failure. Of causes that depend on what is wrong only its own are returned; of
    values that differ, where the promise has none of these, those of what is lost or there twice.
    """
    said, *causes = _CAUSES.split(promise.strip())
    cases = list(filter(None, map(_case, causes))) if reason in _WHEN else []
    if not cases:
        return said, _begun(" ".join(causes).removeprefix(_FAILED))
    own = [_begun(one["cause"]) for one in cases if _WHEN[reason] in one["when"]]
    if not own and reason == Reason.WRONG_TOTAL:
        own = [one[0] for one in cases if "something" in one["when"]]
    return said, " ".join(own)


def _case(cause: str) -> re.Match[str] | None:
    """Return a cause that depends on what is wrong: when, and what it is."""
    found = _CONDITION.match(cause)
    return found if found and any(one in found["when"] for one in _WHEN.values()) else None


def _begun(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


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
    def reason(self) -> str: ...
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
    return halves(result.promise, result.reason)[1]
