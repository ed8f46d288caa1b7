"""The user's oracle: a function of (state of the key, record) -> outputs, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.jobs import comparison, user_code
from tickproof.conformance.jobs.declaration import OutputTable
from tickproof.conformance.jobs.records import Record
from tickproof.conformance.jobs.sinks import Row
from tickproof.conformance.jobs.topic import KEY
from tickproof.conformance.text import shown

Expect = Callable[[dict[str, Any], dict[str, Any]], Any]


def outputs(
    expect: Expect, path: Path, records: Iterable[Record]
) -> Iterator[tuple[Record, dict[str, Any]]]:
    """Yield each output that is due, with the record that it answers, in the order of records.

    The state of a key begins as {} and is the function's to change. It returns an object, a list
    of objects, or None. Raises InvalidFile that names the record.
    """
    states: dict[str, dict[str, Any]] = {}
    for record in records:
        try:
            given = expect(states.setdefault(record.key, {}), dict(record.value))
        except Exception as error:
            raise InvalidFile(
                path, [f"the oracle, at {record}: {user_code.raised(error)}"]
            ) from error
        if given is None:
            continue
        for one in given if isinstance(given, list | tuple) else [given]:
            if not isinstance(one, dict):
                got = shown(repr(one), 80)
                what = f"the oracle, at {record}: expected objects, or None; got {got}"
                raise InvalidFile(path, [what])
            yield record, dict(one)


def row(table: OutputTable, record: Record, value: Mapping[str, Any]) -> Row:
    """Return which row of an output a value is, and the row itself.

    Without ``identity`` it is that of the key of its message: @key, else the key of the record.
    """
    fields = {name: one for name, one in value.items() if name != KEY or table.identity}
    if table.identity:
        return comparison.canonical([value[name] for name in table.identity]), fields
    return str(value.get(KEY, record.key)), fields


def last_of_each(rows: Sequence[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the last row of each key: what a table holds in the end."""
    return list(dict(rows).items())
