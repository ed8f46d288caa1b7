"""What a job's output is held to: the strongest comparison that holds without faults.

Pure functions over rows. A row is an identity and a value, both canonical JSON.
"""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tickproof.conformance.text import counted

Rows = Mapping[str, Sequence[str]]


class Level(enum.StrEnum):
    """Comparisons, the strongest first; the value says it in words."""

    SEQUENCE = "sequence by key"
    MULTISET = "multiset by key"
    VALUES = "values by key, repeats allowed"
    LAST = "last value by key"
    AT_LEAST = "at least as much by key"
    IDENTITIES = "set of identities"


class Kind(enum.StrEnum):
    """What is wrong with the output of a key."""

    LOST = "lost"
    TWICE = "twice"
    VALUE = "value"
    ORDER = "order"


@dataclass(frozen=True)
class Claims:
    """What the job promises, and what is known beside its output.

    ordered: rows come in an order (those of a topic). knows: an oracle says what is due. counts:
    the field that says how many records a row has counted, "" for none.
    """

    state: str
    delivery: str
    ordered: bool
    knows: bool
    counts: str = ""

    @property
    def blind(self) -> bool:
        """Whether a value that differs does not tell if records are lost or counted twice."""
        return not (self.knows or self.counts)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The comparisons that these claims can be held to, strongest first.

        Of rows without an order none is the last: of two of one identity any may come behind.
        """
        if self.state == "at-least-once":
            return (Level.AT_LEAST,)
        last = (Level.LAST,) if self.ordered else ()
        if self.delivery == "at-least-once":
            return Level.VALUES, *last, Level.IDENTITIES
        first = (Level.SEQUENCE,) if self.ordered else ()
        return *first, Level.MULTISET, *last, Level.IDENTITIES


@dataclass(frozen=True)
class Finding:
    """One key whose output is not what is due; ``expected`` and ``actual`` are values, or ""."""

    kind: Kind
    key: str
    expected: str
    actual: str


def canonical(value: Any) -> str:
    """Return a value as JSON text that is the same for the same value."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def grouped(rows: Iterable[tuple[str, dict[str, Any]]], ignore: Iterable[str] = ()) -> Rows:
    """Return rows by key, in order, without the ignored fields."""
    dropped, found = set(ignore), dict[str, list[str]]()
    for key, value in rows:
        kept = {name: one for name, one in value.items() if name not in dropped}
        found.setdefault(key, []).append(canonical(kept))
    return found


def view(level: Level, rows: Rows) -> Any:
    """Return what a comparison sees of rows: two runs agree where it is equal."""
    match level:
        case Level.SEQUENCE:
            return {key: tuple(values) for key, values in rows.items()}
        case Level.MULTISET:
            return {key: Counter(values) for key, values in rows.items()}
        case Level.VALUES:
            return {key: frozenset(values) for key, values in rows.items()}
        case Level.LAST:
            return {key: values[-1] for key, values in rows.items()}
        case _:
            return frozenset(rows)


def strongest(runs: Sequence[Rows], levels: Iterable[Level]) -> Level | None:
    """Return the strongest comparison on which runs agree; None: on none, or they are empty."""
    if not all(runs):
        return None
    for level in levels:
        first, *others = (view(level, one) for one in runs)
        if all(other == first for other in others):
            return level
    return None


def varying(runs: Sequence[Rows], level: Level) -> tuple[str, str, str] | None:
    """Return a key, and two values, on which runs differ at a level; None where they agree."""
    first = view(level, runs[0])
    for other in (view(level, one) for one in runs[1:]):
        if first == other:
            continue
        if not isinstance(first, dict):
            key = min(first ^ other)
            return key, *(("there", "not there") if key in first else ("not there", "there"))
        key = min(k for k in first.keys() | other.keys() if first.get(k) != other.get(k))
        return key, _shown(first.get(key)), _shown(other.get(key))
    return None


def uneven(runs: Sequence[Rows]) -> tuple[str, str, str] | None:
    """Return a key of which runs give other numbers of rows, and two of these; else None."""
    first = runs[0]
    for other in runs[1:]:
        for key in sorted(first.keys() & other.keys()):
            if len(first[key]) != len(other[key]):
                return key, counted(len(first[key]), "row"), counted(len(other[key]), "row")
    return None


def varying_fields(one: str, other: str) -> list[str]:
    """Return the fields in which two values, canonical JSON objects, differ."""
    a, b = json.loads(one), json.loads(other)
    return sorted(k for k in a.keys() | b.keys() if a.get(k) != b.get(k))


def fields_of(value: str) -> dict[str, str]:
    """Return the fields of a value, a canonical JSON object, each as canonical JSON."""
    return {name: canonical(one) for name, one in json.loads(value).items()}


def _shown(values: Any) -> str:
    if values is None:
        return "nothing"
    return (
        values
        if isinstance(values, str)
        else ", ".join(sorted(values) if isinstance(values, frozenset) else values)
    )


def compared(level: Level, due: Rows, got: Rows, claims: Claims) -> list[Finding]:
    """Return what differs from what is due, as far as a comparison and the claims ask for it."""
    found: list[Finding] = []
    for key in sorted(due.keys() | got.keys()):
        wanted, given = due.get(key, ()), got.get(key, ())
        match level:
            case Level.AT_LEAST:
                found += _at_least(key, wanted, given, claims)
            case Level.IDENTITIES:
                found += _difference(key, wanted[-1:], given[-1:], claims, only_there=True)
            case Level.LAST:
                found += _difference(key, wanted[-1:], given[-1:], claims)
            case Level.VALUES:
                found += _difference(key, _once(wanted), _once(given), claims)
            case _:
                here = _difference(key, wanted, given, claims)
                if not here and level is Level.SEQUENCE and list(wanted) != list(given):
                    at = next(
                        n
                        for n, pair in enumerate(zip(wanted, given, strict=True))
                        if len({*pair}) > 1
                    )
                    here = [Finding(Kind.ORDER, key, wanted[at], given[at])]
                found += here
    return found


def _once(values: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _difference(
    key: str, due: Sequence[str], got: Sequence[str], claims: Claims, only_there: bool = False
) -> list[Finding]:
    """Compare two multisets of values of one key."""
    missing = list((Counter(due) - Counter(got)).elements())
    extra = list((Counter(got) - Counter(due)).elements())
    if (not missing and not extra) or (only_there and due and got):
        return []
    if claims.counts:
        wanted, given = _most(due, claims.counts), _most(got, claims.counts)
        if wanted != given:
            kind = Kind.LOST if given < wanted else Kind.TWICE
            return [Finding(kind, key, (due or ("",))[-1], (got or ("",))[-1])]
    found = []
    repeated = [one for one in extra if one in set(due)]
    strange = [one for one in extra if one not in set(due)]
    if repeated:
        found.append(Finding(Kind.TWICE, key, "", repeated[0]))
    if strange:
        found.append(Finding(Kind.VALUE, key, next(iter(missing), ""), strange[0]))
    if len(missing) > len(strange):
        found.append(Finding(Kind.LOST, key, missing[-1], ""))
    return found


def _most(values: Iterable[str], field: str) -> float:
    """Return the highest count that values of a key hold; 0 where none holds one."""
    counts = [json.loads(one).get(field) for one in values]
    return max((float(one) for one in counts if isinstance(one, int | float)), default=0.0)


def _at_least(key: str, due: Sequence[str], got: Sequence[str], claims: Claims) -> list[Finding]:
    """Compare what may be recounted: no key is invented, none has less than is due."""
    if not due:
        return [Finding(Kind.VALUE, key, "", got[-1])]
    if claims.counts:
        less = _most(got, claims.counts) < _most(due, claims.counts)
    else:
        less = len(got) < len(due)
    return [Finding(Kind.LOST, key, due[-1], got[-1] if got else "")] if less else []


def lower_bound(runs: Sequence[Rows], claims: Claims) -> Rows:
    """Return, by key, the rows of the run that has least of it: what every run has to reach."""
    keys: frozenset[str] = frozenset.intersection(*(frozenset(one) for one in runs))

    def amount(values: Sequence[str]) -> float:
        return _most(values, claims.counts) if claims.counts else len(values)

    return {key: min((one[key] for one in runs), key=amount) for key in keys}
