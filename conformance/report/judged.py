"""Say how much of a request was judged, and why the rest was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, Protocol, TypeVar

from tickproof.conformance.verdicts import DOES_NOT_APPLY, JUDGED, SEVERITY, Verdict


class _Result(Protocol):
    """What is looked at of the result of a requirement."""

    @property
    def id(self) -> str: ...
    @property
    def verdict(self) -> Verdict: ...
    @property
    def reason(self) -> str: ...
    @property
    def actual(self) -> str: ...
    @property
    def expected(self) -> str: ...
    @property
    def run(self) -> str: ...


Told = TypeVar("Told", bound=_Result)


def why(result: _Result) -> str:
    """Return in short why a result is no judgement: the code of an unknown, else the words."""
    return result.reason if result.verdict is Verdict.UNKNOWN else result.actual


#: Reasons that a sum of what was not judged names.
_MOST_REASONS: Final = 3


def applies(result: _Result) -> bool:
    """Tell whether a requirement says something of such an engine at all."""
    return result.verdict in JUDGED or not result.actual.startswith(DOES_NOT_APPLY)


def groups(results: Iterable[_Result]) -> list[tuple[Verdict, str, list[str]]]:
    """Return (verdict, why, ids) of what was not judged: worst first, then the most."""
    rest = [result for result in results if result.verdict not in JUDGED]
    rest.sort(key=lambda one: (-SEVERITY.index(one.verdict), why(one)))
    found = [
        (verdict, reason, [one.id for one in same])
        for (verdict, reason), same in groupby(rest, key=lambda one: (one.verdict, why(one)))
    ]
    return sorted(found, key=lambda row: (-SEVERITY.index(row[0]), -len(row[2])))


def told_once(results: Iterable[Told]) -> list[tuple[Told, list[Told]]]:
    """Return results, each with those that say the same of the same run, which it stands for.

    Of such the last is told: what is asked of all runs comes before what is asked of one.
    """
    found: dict[tuple[object, ...], list[Told]] = {}
    for one in results:
        shows = (one.verdict, one.reason, one.expected, one.actual, one.run)
        found.setdefault(shows if one.run else (one.id,), []).append(one)
    return [(last, before) for *before, last in found.values()]


def counts(results: Iterable[_Result]) -> Counter[Verdict]:
    """Return how many came out how, of those that apply."""
    return Counter(result.verdict for result in results if applies(result))


def share(results: Sequence[_Result]) -> str:
    """Return "64 of 86 judged", of those that apply."""
    judged = sum(result.verdict in JUDGED for result in results)
    return f"{judged} of {sum(map(applies, results))} judged"


def rest(results: Iterable[_Result], not_asked: Sequence[str] = ()) -> str:
    """Return "12 not-claimed (10: offers no app double, 2: ...), 1 unknown (...)", or "".

    Of many reasons the most frequent are named: a summary lists all of them above. What does not
    apply is left out. ``not_asked``: ids of what several hosts would show.
    """
    parts = []
    applying = groups(filter(applies, results))
    for verdict, rows in groupby(applying, key=lambda row: row[0]):
        whys = [(reason, len(ids)) for _, reason, ids in rows]
        number = sum(count for _, count in whys)
        named = [(reason, count) for reason, count in whys if reason]
        if len(whys) == 1:
            said = whys[0][0]
        else:
            said = ", ".join(f"{count}: {reason}" for reason, count in named[:_MOST_REASONS])
            if more := named[_MOST_REASONS:]:
                reasons = "other reasons" if len(more) > 1 else "another reason"
                said += f", {sum(count for _, count in more)} for {reasons}"
        parts.append(f"{number} {verdict.value} ({said})" if said else f"{number} {verdict.value}")
    if not_asked:
        parts.append(f"{len(not_asked)} not asked (about several hosts: needs --hosts)")
    return ", ".join(parts)
