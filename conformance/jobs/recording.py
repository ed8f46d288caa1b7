"""Recorded topics: files of JSON lines, CSV or Parquet, packed or not, read in pieces.

A piece gives columns for fingerprints, quickly, and its records exactly, as Python has them.
"""

from __future__ import annotations

import json
import re
import stat
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson

from tickproof.conformance.errors import InvalidFile, out_of_reach
from tickproof.conformance.jobs.comparison import canonical
from tickproof.conformance.jobs.declaration import CellType
from tickproof.conformance.jobs.records import converted, expect_columns, plain
from tickproof.conformance.text import shown
from tickproof.generators.csv_table import CsvError, header, packing

Values = dict[str, Any]
Columns = dict[str, "pa.Array | list[Any]"]

_PIECE: Final = 1 << 21
#: The first piece is small, for it is read by Python too.
_FIRST: Final = 1 << 18
#: The longest line; what is longer is no record but a file of another kind.
_LINE: Final = 1 << 22
#: Rows of a piece of Parquet: at most so many, and as many of the first as say how wide they are.
_ROWS: Final = 1 << 17
_PROBED: Final = 1 << 8
#: A sample ends with so many records, or pieces.
_SAMPLE: Final = 1_000
_SAMPLED: Final = 2
#: Floats hold each integer below this one.
_EXACT: Final = 1 << 53
_JSON: Final = (".jsonl", ".ndjson", ".json")
_PACKED: Final = (".gz", ".gzip", ".bz2", ".zst", ".zstd", ".lz4")
#: What pyarrow's reader of JSON takes for something else, or breaks on: two values on one line,
#: and a value that is not an object. Such a piece is read by Python.
_SUSPECT: Final = re.compile(rb"\}(?:\s*n|[ \t\r]*\{)")
_BEGINS: Final = re.compile(rb"\s*n")
_ARROW_TYPES: Final = {
    "int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_(),
}  # fmt: skip


@dataclass(frozen=True)
class Placed:
    """One record and where it is, as "line 3" or "partition 0, offset 7".

    answers: the input of which an oracle made it.
    """

    where: str
    value: Values
    answers: Placed | None = None

    def __str__(self) -> str:
        text = json.dumps(self.value, ensure_ascii=False, default=str)
        return f"{self.where}: {shown(text, 300)}"

    @property
    def source(self) -> Placed:
        """The record as a story shows it: of what an oracle says, the input."""
        return self.answers or self

    def expect(self, names: Sequence[str], path: Path) -> None:
        """Raise InvalidFile if a field is not there, or null."""
        for name in names:
            if self.value.get(name) is None:
                got = shown(canonical(self.value), 200)
                said = f"{self.where}: expected a value of {name!r}; got {got}"
                raise InvalidFile(path, [said])


class Piece(ABC):
    """Consecutive records of a recording, ``count`` of them; its methods raise InvalidFile."""

    count: int

    @abstractmethod
    def columns(self, names: Sequence[str]) -> Columns | None:
        """Return fields as columns of ``count`` values, None if only Python can; sets ``count``."""

    @abstractmethod
    def records(self, some: Sequence[int] | None = None) -> list[Placed]:
        """Return the records exactly, all or those of some indices within the piece."""

    def values(self, names: Sequence[str]) -> Columns:
        """Return fields as columns of Python's values, which take much memory; sets ``count``."""
        values = [one.value for one in self.records()]
        return {name: [one.get(name) for one in values] for name in names}


class Recording(ABC):
    """One recorded topic. ``name``: IN or OUT. A record is known by its index, from 0.

    gone: what is known to be missing at its begin, "" for nothing.
    """

    gone = ""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path

    @abstractmethod
    def pieces(self, names: Sequence[str] | None = None) -> Iterator[Piece]:
        """Yield all pieces in order, with some fields or all; raises InvalidFile."""

    def records(self, pieces: int | None = None) -> Iterator[Placed]:
        """Yield all records in order, or those of the first pieces."""
        return (one for piece in islice(self.pieces(), pieces) for one in piece.records())

    def sample(self) -> Iterator[Placed]:
        """Yield the first records, so many that they say what fields there are."""
        return islice(self.records(_SAMPLED), _SAMPLE)

    def fields(self) -> list[str]:
        """Return the fields that the first records have, in order."""
        return list(dict.fromkeys(name for one in self.sample() for name in one.value))

    def picked(self, indices: Iterable[int], counts: Sequence[int]) -> dict[int, Placed]:
        """Return the records of some indices. counts: those of all pieces, as they were read."""
        wanted, found, begin = sorted(set(indices)), dict[int, Placed](), 0
        for piece, count in zip(self.pieces(), counts, strict=False):
            here = wanted[len(found) : bisect_left(wanted, begin + count)]
            if here:
                records = piece.records([index - begin for index in here])
                found |= zip(here, records, strict=True)
            begin += count
            if len(found) == len(wanted):
                break
        return found


@dataclass
class _Lines(Piece):
    """Whole lines of JSON, the first of which is ``line``, from 1."""

    of: JsonLines
    line: int
    text: bytes
    last: bool
    count: int = 0

    def columns(self, names: Sequence[str]) -> Columns | None:
        if not (_SUSPECT.search(self.text) or _BEGINS.match(self.text)):
            for types in self.of.types:
                table = self._table([pa.field(name, types[name]) for name in names])
                if table is not None:
                    self.count = table.num_rows
                    return {name: table.column(name).combine_chunks() for name in names}
        return None

    def _table(self, fields: list[pa.Field]) -> pa.Table | None:
        """Return the fields as pyarrow reads them, None if it does not read them exactly."""
        lines = self.text.count(b"\n") + (not self.text.endswith(b"\n"))
        try:
            table = pajson.read_json(
                pa.BufferReader(self.text),
                pajson.ReadOptions(use_threads=False, block_size=len(self.text) + 1),
                pajson.ParseOptions(
                    explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"
                ),
            )
            table.validate(full=True)
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        if table.num_rows != lines:  # blank lines, or a record on several
            return None
        for one in table.columns:
            if pa.types.is_floating(one.type) and (pc.max(pc.abs(one)).as_py() or 0) >= _EXACT:
                return None
        return table

    def records(self, some: Sequence[int] | None = None) -> list[Placed]:
        lines = [one for one in enumerate(self.text.split(b"\n"), self.line) if one[1].strip()]
        self.count = len(lines)
        wanted = lines if some is None else [lines[at] for at in some]
        return [Placed(self.of.where(at), self._read(at, line)) for at, line in wanted]

    def _read(self, number: int, line: bytes) -> Values:
        try:
            value = json.loads(line, object_pairs_hook=_object)
            why = ""
        except (ValueError, RecursionError) as error:
            value, why = None, str(error)
        if isinstance(value, dict):
            return value
        got = shown(line.decode("utf-8", "backslashreplace"), 80)
        said = f"{self.of.where(number)}: expected a JSON object; got {got!r}"
        if self.last and number == self.line + self.text.count(b"\n"):
            said += ", where the file ends: it was cut off"
        elif why:
            said += f" ({shown(why, 100)})"
        raise InvalidFile(self.of.path, [said])


def _object(pairs: list[tuple[str, Any]]) -> Values:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {shown(twice, 80)!r} is there twice")
    return found


class JsonLines(Recording):
    """A file with one JSON object a line."""

    def __init__(self, name: str, path: Path, codec: str) -> None:
        super().__init__(name, path)
        self.file, self._codec = path, codec
        #: The types to read fields as, one after the other, until one fits a piece.
        self.types: list[Mapping[str, pa.DataType]] = []

    def _expect_types(self, names: Sequence[str]) -> None:
        """Take the types of fields from the first records; without one, Python reads all."""
        kinds: dict[str, set[str]] = {name: set() for name in names}
        for record in self.sample():
            for name, found in kinds.items():
                if record.value.get(name) is not None:
                    found.add(type(record.value[name]).__name__)
        types: dict[str, pa.DataType] = {}
        for name, found in kinds.items():
            kind = "float" if found == {"int", "float"} else next(iter(found), "str")
            if len(found - {"int", "float"}) > 1 or kind not in _ARROW_TYPES:
                return
            types[name] = _ARROW_TYPES[kind]
        floats = {n: pa.float64() if t == pa.int64() else t for n, t in types.items()}
        self.types = [types] if floats == types else [types, floats]

    def pieces(self, names: Sequence[str] | None = None) -> Iterator[Piece]:
        """Yield some whole lines at a time."""
        if names is not None:
            self._expect_types(names)
        line, rest, size = 1, b"", _FIRST
        with _opened(self.file, self._codec) as read:
            while more := read(size):
                text, size = rest + more, _PIECE
                end = text.rfind(b"\n") + 1
                if not end and len(text) > _LINE:
                    what = f"line {line:,}: expected at most {_LINE:,} bytes"
                    raise InvalidFile(self.path, [what])
                if end:
                    yield _Lines(self, line, text[:end], False)
                    line += text.count(b"\n", 0, end)
                rest = text[end:]
        if rest:
            yield _Lines(self, line, rest, True)

    def where(self, line: int) -> str:
        """Return the place of a line in words."""
        return f"line {line:,}"


class _opened:
    """The bytes of a file, unpacked, as a function that reads some; it raises InvalidFile."""

    def __init__(self, path: Path, codec: str) -> None:
        self._path = path
        file = pa.OSFile(str(path))
        self._file = pa.CompressedInputStream(file, codec) if codec else file

    def __enter__(self) -> Callable[[int], bytes]:
        return self._read

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _read(self, size: int) -> bytes:
        try:
            return bytes(self._file.read(size))
        except (OSError, pa.ArrowException) as error:
            raise InvalidFile(
                self._path, [f"it cannot be unpacked: {shown(str(error), 200)}"]
            ) from error


@dataclass
class _Batch(Piece):
    """Rows of CSV or Parquet, the first of which is ``row``, from 1."""

    path: Path
    row: int
    batch: pa.RecordBatch
    types: Mapping[str, CellType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.count = self.batch.num_rows

    def columns(self, names: Sequence[str]) -> Columns:
        return {name: self._typed(name, self.batch.column(name)) for name in names}

    def _typed(self, name: str, column: pa.Array) -> pa.Array | list[Any]:
        """Return a column, converted if its type is declared."""
        kind = self.types.get(name)
        if kind is None:
            return column
        if kind == "integer":
            try:
                return pc.if_else(pc.equal(column, ""), None, column).cast(pa.int64())
            except pa.ArrowInvalid:
                pass  # a cell that is none, or one beyond 64 bits
        cells = enumerate(column.to_pylist(), self.row)
        return [converted(cell, kind, f"row {at:,}", name, self.path) for at, cell in cells]

    def records(self, some: Sequence[int] | None = None) -> list[Placed]:
        at = range(self.count) if some is None else some
        columns = _Batch(self.path, self.row, self.batch.take(list(at)), self.types).columns(
            self.batch.schema.names
        )
        lists = [one if isinstance(one, list) else one.to_pylist() for one in columns.values()]
        return [
            Placed(f"row {self.row + index:,}", dict(zip(columns, map(plain, row), strict=True)))
            for index, row in zip(at, zip(*lists, strict=True), strict=True)
        ]


class Csv(Recording):
    """A CSV file whose first line names the columns; cells stay text unless ``types`` says."""

    def __init__(self, name: str, path: Path, codec: str, types: Mapping[str, CellType]) -> None:
        super().__init__(name, path)
        self._codec = codec
        with _opened(path, codec) as read:
            try:
                self._names = header(path, read(_PIECE))
            except CsvError as error:
                raise InvalidFile(path, [f"line 1: {error.message}"]) from error
        if not self._names:
            raise InvalidFile(path, ["line 1: expected the names of columns"])
        expect_columns(path, self._names)
        self.types = {one: types[one] for one in types if one in self._names}

    def fields(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._names)

    def pieces(self, names: Sequence[str] | None = None) -> Iterator[Piece]:
        """Yield some rows at a time."""
        file = pa.OSFile(str(self.path))
        row = 1
        try:
            reader = pacsv.open_csv(
                pa.CompressedInputStream(file, self._codec) if self._codec else file,
                pacsv.ReadOptions(use_threads=False, block_size=_PIECE),
                pacsv.ParseOptions(newlines_in_values=True),
                pacsv.ConvertOptions(
                    column_types={one: pa.string() for one in self._names},
                    strings_can_be_null=False,
                    include_columns=names or self._names,
                ),
            )
            for batch in reader:
                yield _Batch(self.path, row, batch, self.types)
                row += batch.num_rows
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            what = f"after row {row - 1:,}: {shown(str(error), 300)}"
            raise InvalidFile(self.path, [what]) from error


class Parquet(Recording):
    """A Parquet file; values keep their types."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(name, path)
        with self._file() as file:
            self._names = file.schema_arrow.names
        expect_columns(path, self._names)

    def fields(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._names)

    def _file(self) -> Any:
        import pyarrow.parquet as pq  # it takes a while to load

        try:
            return pq.ParquetFile(self.path)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InvalidFile(self.path, [shown(str(error), 300)]) from error

    def pieces(self, names: Sequence[str] | None = None) -> Iterator[Piece]:
        """Yield some rows at a time."""
        row = 1
        with self._file() as file:
            try:
                for batch in self._batches(file, list(names or self._names)):
                    yield _Batch(self.path, row, batch)
                    row += batch.num_rows
            except (pa.ArrowException, OSError, ValueError) as error:
                what = f"after row {row - 1:,}: {shown(str(error), 300)}"
                raise InvalidFile(self.path, [what]) from error

    def _batches(self, file: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of about as many bytes as a piece has, the same for any columns."""
        for group in range(file.num_row_groups):
            probe = next(file.iter_batches(_PROBED, row_groups=[group]), None)
            if probe is not None:
                rows = 1 + int(_PIECE / sum(map(_width, probe.columns)))
                yield from file.iter_batches(min(_ROWS, rows), row_groups=[group], columns=columns)


def _width(column: pa.Array) -> float:
    """Return the bytes of a value, on average, as it is written out."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary
    return 1 + column.nbytes / max(1, len(column))


def opened(name: str, path: Path, types: Mapping[str, CellType]) -> Recording:
    """Return a file as a recording; raises InvalidFile for one that is none."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = next((word for word, holds in _KINDS.items() if holds(mode)), "a special file")
            raise InvalidFile(path, [f"expected a regular file; it is {kind}"])
        codec, _ = packing(path)
    except CsvError as error:
        raise InvalidFile(path, [f"it is {error.message}"]) from error
    except OSError as error:
        raise InvalidFile(path, [out_of_reach(path, error)]) from error
    if codec == "parquet":
        return Parquet(name, path)
    suffixes = [one.lower() for one in path.suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix == ".csv":
        return Csv(name, path, codec, types)
    if suffix not in _JSON:
        what = f"expected a name that ends in {', '.join(_JSON)}, .csv or .parquet"
        raise InvalidFile(path, [f"{what}, and then {', '.join(_PACKED)} if it is packed"])
    return JsonLines(name, path, codec)


_KINDS: Final = {
    "a folder": stat.S_ISDIR,
    "a named pipe, and it is read more than once": stat.S_ISFIFO,
    "a socket": stat.S_ISSOCK,
}
