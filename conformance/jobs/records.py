"""Records of input: made by a function or read from a file, each with its key and partition."""

from __future__ import annotations

import csv
import inspect
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.jobs import user_code
from tickproof.conformance.jobs.declaration import CellType, InputTable, Job
from tickproof.conformance.text import shown
from tickproof.generators.partitioner import Texts, partitions_of

#: Rows of an output, and records of an input, which each run is sent. They are handled one
#: by one in plain Python, in about a kilobyte of memory each.
MOST: Final = 1_000_000
MOST_SENT: Final = 250_000
#: The end of the year 9999.
_LAST_MS: Final = 253_402_300_799_999
#: Type of a CSV column -> what its cells match, and what makes a value of one.
_CELLS: Final[Mapping[CellType, tuple[str, Callable[[str], Any]]]] = {
    "integer": (r"[+-]?\d+", int),
    "number": (r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", float),
    "boolean": (r"(?i:true|false)", lambda cell: cell.lower() == "true"),
}


@dataclass(frozen=True, slots=True)
class Record:
    """One message of input: ``number`` counts from 1 in the order in which they are sent.

    message: the bytes that are sent. time_ms: its timestamp since 1970, None: that of sending.
    input: the one that it is of. offset: in its partition, where nothing else is sent there.
    """

    number: int
    key: str
    partition: int
    value: dict[str, Any]
    message: bytes
    time_ms: int | None = None
    input: str = ""
    offset: int = -1

    def __str__(self) -> str:
        return _named(self.number, self.value)


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
    encode, field = _encoder(job, table), table.time
    records, sizes = [], Counter[int]()
    for number, (key, at, value) in enumerate(zip(keys, places, values, strict=True), 1):
        time_ms, place = _time_ms(number, value, field, path) if field else None, int(at)
        message = encode(number, value)
        records.append(Record(number, key, place, value, message, time_ms, name, sizes[place]))
        sizes[place] += 1
    return records


def poisoned(records: Sequence[Record], message: bytes, at: int) -> list[Record]:
    """Return records with one more at an index, for the job to choke on.

    It has the key of the record before it, and is in the same partition.
    """
    before = records[at - 1]
    return [*records[:at], replace(before, number=0, value={}, message=message), *records[at:]]


def _named(number: int, value: dict[str, Any]) -> str:
    return f"record {number:,} {shown(json.dumps(value, ensure_ascii=False), 200)}"


def _encoder(job: Job, table: InputTable) -> Callable[[int, dict[str, Any]], bytes]:
    """Return what makes the bytes of a message; it raises InvalidFile."""
    name = table.encode
    if name is None:
        return lambda _, value: json.dumps(value, ensure_ascii=False).encode()
    path = job.folder / name.rpartition(":")[0]
    encode = user_code.function(job.folder, name)

    def encoded(number: int, value: dict[str, Any]) -> bytes:
        try:
            made = encode(dict(value))
        except Exception as error:
            what = f"{name}, at {_named(number, value)}: {user_code.raised(error)}"
            raise InvalidFile(path, [what]) from error
        if not isinstance(made, bytes):
            got = shown(repr(made), 80)
            what = f"{name}, at {_named(number, value)}: expected bytes; got {got}"
            raise InvalidFile(path, [what])
        return made

    return encoded


def _time_ms(number: int, value: dict[str, Any], field: str, path: Path) -> int:
    """Return the timestamp in the field at a path, in milliseconds since 1970."""
    found: Any = value
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    try:
        if isinstance(found, str):
            at = datetime.fromisoformat(found)
            found = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000
        if not isinstance(found, bool) and 1 <= found <= _LAST_MS:
            return round(found)
    except (TypeError, ValueError):
        pass
    expected = "milliseconds since 1970, or ISO 8601 text"
    got = shown(repr(found), 80)
    what = f"{_named(number, value)}, time {field!r}: expected {expected}; got {got}"
    raise InvalidFile(path, [what])


def _text(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key)


def _values(job: Job, table: InputTable, path: Path, seed: int) -> Iterator[Any]:
    if table.make is None:
        with path.open("rb") as file:
            yield from of_file(path, table.types, file)
        return
    make = user_code.function(job.folder, table.make)
    asks = "seed" in inspect.signature(make).parameters
    try:
        yield from make(seed=seed) if asks else make()
    except Exception as error:
        raise InvalidFile(path, [f"{table.make}: {user_code.raised(error)}"]) from error


def of_file(path: Path, types: Mapping[str, CellType], file: IO[bytes]) -> Iterator[Any]:
    """Yield the values of a file, which its name says the format of; raises InvalidFile."""
    kind = path.suffix.lower()
    if kind == ".csv":
        return _of_csv(path, types, file)
    return _of_parquet(path, file) if kind == ".parquet" else _of_json_lines(path, file)


def _of_json_lines(path: Path, lines: IO[bytes]) -> Iterator[Any]:
    for number, line in enumerate(lines, 1):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            got = shown(line.decode("utf-8", "backslashreplace"), 80)
            what = f"line {number:,}: expected a JSON object; got {got!r}"
            raise InvalidFile(path, [what]) from error


def _of_csv(
    path: Path, types: Mapping[str, CellType], content: IO[bytes]
) -> Iterator[dict[str, Any]]:
    """Yield rows whose cells are the text in the file, those of declared columns converted."""
    with io.TextIOWrapper(content, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        try:
            names = next(rows, [])
            expect_columns(path, names, types)
            for row in filter(None, rows):
                if len(row) != len(names):
                    what = f"line {rows.line_num:,}: expected {len(names)} cells; got {len(row)}"
                    raise InvalidFile(path, [what])
                yield {
                    name: converted(cell, types[name], f"line {rows.line_num:,}", name, path)
                    if name in types
                    else cell
                    for name, cell in zip(names, row, strict=True)
                }
        except (csv.Error, UnicodeDecodeError) as error:
            near = f"near line {max(1, rows.line_num):,}"
            raise InvalidFile(path, [f"{near}: expected CSV in UTF-8: {error}"]) from error


def converted(cell: str, type_: CellType, line: str, name: str, path: Path) -> Any:
    """Return the value of a cell, None for an empty one."""
    pattern, convert = _CELLS[type_]
    try:
        if re.fullmatch(pattern, cell, re.ASCII):
            return convert(cell)
    except ValueError:
        pass  # Python bounds the digits of an integer
    if not cell:
        return None
    what = f"{line}, column {shown(name, 80)}: expected {type_}; got {shown(repr(cell), 80)}"
    raise InvalidFile(path, [what])


def _of_parquet(path: Path, content: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield rows as JSON has them: dates and times are ISO 8601 text, decimals plain text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(content) as file:
            expect_columns(path, file.schema_arrow.names)
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    yield {name: plain(value) for name, value in row.items()}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidFile(path, [shown(str(error), 300)]) from error


def plain(value: Any) -> Any:
    """Return a value of Parquet as JSON has it."""
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def expect_columns(path: Path, names: Sequence[str], types: Iterable[str] = ()) -> None:
    """Raise InvalidFile if a column is there twice, or is declared and not there."""
    errors = [
        f"column {shown(name, 80)} is there twice: expected once"
        for name in names
        if names.count(name) > 1
    ]
    listed = shown(", ".join(names), 200)
    errors += [
        f"expected the column {shown(name, 80)} of types; the columns are {listed}"
        for name in types
        if name not in names
    ]
    if errors:
        raise InvalidFile(path, sorted(set(errors)))


def _checked(path: Path, table: InputTable, values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for number, value in enumerate(values, 1):
        if number > MOST_SENT:
            what = f"expected at most {MOST_SENT:,} records, for each run is sent all of them"
            raise InvalidFile(path, [what])
        where = f"record {number:,}"
        if not isinstance(value, dict):
            raise InvalidFile(path, [f"{where}: expected an object; got {shown(repr(value), 80)}"])
        if value.get(table.key) in (None, ""):
            got = shown(repr(value), 200)
            raise InvalidFile(
                path, [f"{where}: expected a value of the key {table.key!r}; got {got}"]
            )
        for field, one in value.items():
            try:
                json.dumps({field: one}, allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                what = f"{where}, field {shown(repr(field), 80)}: expected JSON: {error}"
                raise InvalidFile(path, [what]) from error
        yield value
