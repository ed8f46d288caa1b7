"""Records of input: made by a function or read from a file, each with its key and partition."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.jobs import user_code
from tickproof.conformance.jobs.declaration import InputTable, Job
from tickproof.conformance.text import shown
from tickproof.generators.partitioner import Texts, partitions_of

#: A job's records are handled one by one in plain Python.
MOST: Final = 1_000_000


@dataclass(frozen=True)
class Record:
    """One message of input: ``number`` counts from 1 in the order in which they are sent."""

    number: int
    key: str
    partition: int
    value: dict[str, Any]

    def __str__(self) -> str:
        return f"record {self.number:,} {shown(json.dumps(self.value, ensure_ascii=False), 200)}"


def of_input(job: Job, name: str, seed: int) -> list[Record]:
    """Return the records of an input; raises InvalidFile that names file, record and key."""
    table = job.inputs[name]
    path = job.folder / (table.file or (table.make or "").rpartition(":")[0])
    values = list(_checked(path, table, _values(job, table, path, seed)))
    if not values:
        raise InvalidFile(path, [f"expected records for [inputs.{name}]; there are none"])
    keys = [_text(value[table.key]) for value in values]
    places = partitions_of(
        table.partitioner, Texts.of([key.encode() for key in keys]), table.partitions
    )
    return [
        Record(number, key, int(place), value)
        for number, (key, place, value) in enumerate(zip(keys, places, values, strict=True), 1)
    ]


def _text(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key)


def _values(job: Job, table: InputTable, path: Path, seed: int) -> Iterator[Any]:
    if table.make is None:
        yield from _of_file(path)
        return
    make = user_code.function(job.folder, table.make)
    asks = "seed" in inspect.signature(make).parameters
    try:
        yield from make(seed=seed) if asks else make()
    except Exception as error:
        raise InvalidFile(path, [f"{table.make}: {user_code.raised(error)}"]) from error


def _of_file(path: Path) -> Iterator[Any]:
    if path.suffix in (".csv", ".parquet"):
        import pyarrow.csv
        import pyarrow.parquet

        try:
            read = pyarrow.csv.read_csv if path.suffix == ".csv" else pyarrow.parquet.read_table
            yield from read(path).to_pylist()
        except (pyarrow.ArrowException, OSError) as error:
            raise InvalidFile(path, [shown(str(error), 300)]) from error
        return
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield json.loads(line)
            except ValueError as error:
                what = f"line {number}: expected a JSON object; got {shown(line, 80)!r}"
                raise InvalidFile(path, [what]) from error


def _checked(path: Path, table: InputTable, values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for number, value in enumerate(values, 1):
        if number > MOST:
            raise InvalidFile(path, [f"expected at most {MOST:,} records"])
        if not isinstance(value, dict):
            raise InvalidFile(
                path, [f"record {number}: expected an object; got {shown(repr(value), 80)}"]
            )
        if value.get(table.key) is None:
            what = f"record {number}: expected the key {table.key!r}; got {shown(repr(value), 200)}"
            raise InvalidFile(path, [what])
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidFile(path, [f"record {number}: expected JSON: {error}"]) from error
        yield value
