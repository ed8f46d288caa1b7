"""From what two recordings show to outcomes of JB, and the document that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from pydantic import Field

from tickproof.conformance.jobs import comparison
from tickproof.conformance.jobs.comparison import Kind
from tickproof.conformance.jobs.judge import BY_KIND
from tickproof.conformance.jobs.pair import Difference, Found, Rules
from tickproof.conformance.jobs.requirements import JB
from tickproof.conformance.report.document import FORMAT, Document, Model, this_host, this_kit
from tickproof.conformance.report.json_report import Result, result
from tickproof.conformance.text import counted, shown
from tickproof.conformance.verdicts import DOES_NOT_APPLY, Conclusion, Outcome, Reason, Verdict

#: Kind -> its reason, and what one of them is called, and several.
_WORDS: Final = {
    Kind.LOST: (Reason.LOST, "record has no output", "records have no output"),
    Kind.TWICE: (Reason.DUPLICATE, "record has too many outputs", "records have too many outputs"),
    Kind.VALUE: (Reason.WRONG_TOTAL, "output is not the one due", "outputs are not those due"),
    Kind.ORDER: (Reason.SKIPPED_ORDER, "key has another order", "keys have another order"),
}
#: The same where an oracle gives a record any number of outputs, which are compared by key.
_BY_KEY: Final = _WORDS | {
    Kind.LOST: (Reason.LOST, "key lacks outputs", "keys lack outputs"),
    Kind.TWICE: (Reason.DUPLICATE, "key has too many outputs", "keys have too many outputs"),
    Kind.VALUE: (Reason.WRONG_TOTAL, "key has wrong outputs", "keys have wrong outputs"),
}
_SHOWN: Final = 250


class Recorded(Model):
    """One of the two recordings."""

    name: str
    records: int = Field(ge=0)


class JudgedPair(Document):
    """What `tickproof judge` found."""

    FILE_NAME = "judge.json"

    kind: Literal["recordings"] = "recordings"
    recordings: list[Recorded] = Field(description="IN, then OUT")
    compared: str = Field(description="the comparison that the output was held to")
    fields: list[str] = Field(description="those that were compared")
    verdict: str
    exit_status: int
    requirements: list[Result]


def outcomes(found: Found, rules: Rules, examples: int) -> list[Outcome]:
    """Return one outcome for each kind of mistake; a failure has some examples."""
    return [_outcome(id_, kind, found, rules, examples) for id_, kind in BY_KIND.items()]


def document(
    found: Found, rules: Rules, names: Sequence[str], judged: Sequence[Outcome], whole: Conclusion
) -> JudgedPair:
    """Return everything as one document."""
    counts = (found.records_in, found.records_out)
    return JudgedPair(
        format=FORMAT,
        kit=this_kit(),
        host=this_host(),
        recordings=[
            Recorded(name=shown(name, 500), records=count)
            for name, count in zip(names, counts, strict=True)
        ],
        compared=rules.level.value,
        fields=[shown(name, 100) for name in found.fields],
        verdict=whole.word,
        exit_status=whole.status,
        requirements=results(judged),
    )


def results(judged: Sequence[Outcome]) -> list[Result]:
    """Return outcomes as reports show them."""
    return [result(one, JB[one.requirement]) for one in judged]


def _outcome(id_: str, kind: Kind, found: Found, rules: Rules, examples: int) -> Outcome:
    if why := _not_claimed(kind, found, rules):
        return Outcome(id_, Verdict.NOT_CLAIMED, actual=why)
    if wrong := [one for one in found.differences if one.kind is kind]:
        words = (_BY_KEY if rules.oracle else _WORDS)[kind]
        return _failed(id_, words, wrong, found, examples)
    if kind is Kind.LOST and found.missing:
        return _missing(id_, found, rules, examples)
    if kind is Kind.VALUE and found.unmatched:
        said = counted(len(found.unmatched), "output answers", "outputs answer")
        why = f"{said} no record of the input, the begin of which is gone: {found.gone}"
        return _unknown(id_, Reason.RECORDED_SHORT, why, map(_example, found.unmatched[:examples]))
    if not found.records_out:
        return _unknown(id_, Reason.NOT_SEEN, "the output holds no record")
    if found.beyond:
        return _unknown(id_, Reason.NOT_AT_SCALE, f"{found.beyond:,} more records differ")
    evidence = {"records": [found.records_in, found.records_out], "compared": rules.level.value}
    return Outcome(id_, Verdict.PASS, evidence=evidence)


def _not_claimed(kind: Kind, found: Found, rules: Rules) -> str:
    """Say why nothing is asked of a kind of mistake, "" if something is."""
    if kind in (Kind.TWICE, Kind.ORDER) and rules.delivery == "at-least-once":
        return "--delivery at-least-once allows repeats"
    if kind is Kind.ORDER and not rules.ordered:
        return "--unordered" if rules.unordered else "no --key says what order is kept by"
    if kind is Kind.ORDER and not found.repeated_keys:
        return f"{DOES_NOT_APPLY}: no key has two outputs"
    return ""


def _failed(
    id_: str,
    words: tuple[Reason, str, str],
    wrong: Sequence[Difference],
    found: Found,
    examples: int,
) -> Outcome:
    reason, one, several = words
    first = wrong[0]
    least = "at least " if found.beyond else ""
    brief = [_example(each) for each in wrong[:examples]]
    if len(wrong) > examples:
        brief.append(f"and {len(wrong) - examples:,} more")
    if reason is Reason.LOST and found.missing:
        more = ("more record has no output yet", "more records have no output yet")
        brief.append(counted(len(found.missing), *more))
    return Outcome(
        id_,
        Verdict.FAIL,
        reason=reason,
        expected=shown(first.expected, _SHOWN) or "nothing more",
        actual=shown(first.actual, _SHOWN) or "nothing",
        evidence={
            "count": len(wrong),
            "not looked at": found.beyond,
            "examples": [_evidence(each) for each in wrong[:examples]],
        },
        story={"headline": [f"{least}{counted(len(wrong), one, several)}"], "brief": brief},
    )


def _missing(id_: str, found: Found, rules: Rules, examples: int) -> Outcome:
    least = "at least " if found.beyond else ""
    said = least + counted(
        len(found.missing), "record has no output yet", "records have no output yet"
    )
    why = (
        "and no later one of their keys has"
        if rules.ordered
        else "and without an order by key a later output says nothing of them"
    )
    return _unknown(
        id_,
        Reason.RECORDED_SHORT,
        f"{said}, {why}: expected --complete if the output was recorded to its end",
        [_example(one) for one in found.missing[:examples]],
    )


def _unknown(id_: str, reason: Reason, why: str, brief: Iterable[str] = ()) -> Outcome:
    return Outcome(
        id_,
        Verdict.UNKNOWN,
        reason=reason,
        expected="recordings that show it",
        actual=why,
        story={"brief": list(brief)},
    )


def _example(one: Difference) -> str:
    """Return a difference in one line: its identity, what is wrong, where its records are."""
    due = " and ".join(f"IN {each}" for each in one.due[:2])
    got = " and ".join(f"OUT {each}" for each in one.got[:2])
    name = f"{shown(one.identity, 100)}: " if one.identity else ""
    match one.kind:
        case Kind.LOST:
            return f"{name}{due} has no output"
        case Kind.TWICE:
            return (
                f"{name}{got} {'both ' if len(one.got) > 1 else 'once more '}answer {due or 'it'}"
            )
        case Kind.ORDER:
            return f"{due} is due where {got} comes"
    if not one.expected:
        return f"{name}{got} answers no record"
    return f"{name}{_fields(one)}{got or 'nothing'} answers {due}"


def _fields(one: Difference) -> str:
    """Name the fields that differ, with both values."""
    if not (one.expected and one.actual):
        return ""
    names = comparison.varying_fields(one.expected, one.actual)[:3]
    due, got = (comparison.fields_of(text) for text in (one.expected, one.actual))
    each = (
        f"{shown(name, 40)} is {shown(got.get(name, 'missing'), 60)}, "
        f"expected {shown(due.get(name, 'nothing'), 60)}"
        for name in names
    )
    return f"{'; '.join(each)}: "


def _evidence(one: Difference) -> dict[str, object]:
    return {
        "identity": one.identity,
        "expected": one.expected,
        "actual": one.actual,
        "in": [str(each) for each in one.due[:2]],
        "out": [str(each) for each in one.got[:2]],
    }
