"""Columns of a table in a file as arrays of bytes, and what is wrong with them.

The first bytes of a file say what it is, not its name: CSV, plain or compressed, or Parquet.
Numbers stay text until ``decimals`` reads them: nothing passes through a float, but for a
double of Parquet, which is read as the shortest decimal number that stands for it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

_BLOCK: Final = 1 << 20
_READ: Final = "CSV, plain or packed by gzip, bzip2, zstd or lz4, or Parquet"
_PARQUET: Final = "parquet"
#: First bytes of a file -> the codec of pyarrow that unpacks it.
_PACKED: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"PAR1": _PARQUET,
}
#: First bytes of a file that is not read -> its name.
_NOT_READ: Final = {
    b"PK\x03\x04": "a zip archive (or a workbook of Excel)",
    b"PK\x05\x06": "an empty zip archive",
    b"\xfd7zXZ\x00": "an xz file",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!": "a rar archive",
    b"ARROW1": "an Arrow file",
    b"ORC": "an ORC file",
    b"Obj\x01": "an Avro file",
    b"SQLite format 3": "an SQLite database",
    b"\x89HDF": "an HDF5 file",
    b"\xd0\xcf\x11\xe0": "an old workbook of Excel",
}
#: A packed file may unpack to this many bytes, or to this many times its own size.
_MOST_UNPACKED: Final = 1 << 28
_MOST_RATIO: Final = 256
_PARQUET_ROWS: Final = 1 << 16


class CsvError(ValueError):
    """Wrong data in a file. line: from 1, the header included, of Parquet the row; 0: all of it."""

    def __init__(self, path: Path, line: int, column: str, message: str) -> None:
        self.path, self.line, self.column, self.message = path, line, column, message
        where = f"{path}:{line}" if line else str(path)
        super().__init__(f"{where}: {f'column {column}: ' if column else ''}{message}")


@dataclass(frozen=True)
class Fields:
    """One column of a batch: field i is data[starts[i] : starts[i] + lengths[i]] (uint8)."""

    array: pa.BinaryArray
    data: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, array: pa.BinaryArray) -> Fields:
        """Return the column without spaces around its fields."""
        _, offsets, data = array.buffers()
        bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
        starts, ends = bounds[:-1].astype(np.int64), bounds[1:].astype(np.int64)
        text = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
        text = np.append(text, np.uint8(0))  # so that an empty last field has a first byte
        while np.any(pad := (starts < ends) & (text[starts] == ord(" "))):
            starts = starts + pad
        while np.any(pad := (starts < ends) & (text[ends - 1] == ord(" "))):
            ends = ends - pad
        return cls(array, text, starts, ends - starts)

    def of_rows(self, rows: np.ndarray) -> Fields:
        """Return some of the fields."""
        return Fields(self.array, self.data, self.starts[rows], self.lengths[rows])

    def split(self, marks: bytes) -> tuple[Fields, Fields]:
        """Return what stands before the first of some bytes in each field, and what after."""
        at = np.zeros(len(self.starts), np.int64)
        wanted = np.frombuffer(marks, np.uint8)
        while np.any(on := (at < self.lengths) & ~np.isin(self.data[self.starts + at], wanted)):
            at += on
        rest = np.maximum(self.lengths - at - 1, 0)
        after = np.where(rest > 0, self.starts + at + 1, self.starts)
        head = Fields(self.array, self.data, self.starts, at)
        return head, Fields(self.array, self.data, after, rest)

    def raw(self, row: int) -> bytes:
        """Return the bytes of one field."""
        return self.data[self.starts[row] : self.starts[row] + self.lengths[row]].tobytes()

    def equal(self, text: bytes) -> np.ndarray:
        """Return a mask of the fields that are ``text`` in letters of either case."""
        rows = np.flatnonzero(self.lengths == len(text))
        for at, char in enumerate(text.lower()):
            here = self.data[self.starts[rows] + at]
            upper = (here >= ord("A")) & (here <= ord("Z"))
            rows = rows[here + np.uint8(32) * upper == char]
        found = np.zeros(len(self.starts), bool)
        found[rows] = True
        return found

    def text(self, row: int) -> str:
        """Return one field for a message: shortened, any byte shown."""
        raw = self.raw(row)
        shown = raw[:40].decode("utf-8", "backslashreplace")
        return repr(shown) + ("..." if len(raw) > 40 else "")

    def is_utf8(self, row: int) -> bool:
        """Tell whether one field is valid UTF-8."""
        try:
            self.raw(row).decode("utf-8")
        except UnicodeDecodeError:
            return False
        return True


@dataclass
class Batch:
    """Consecutive rows of a file; the first of them stands in line ``line``."""

    path: Path
    line: int
    rows: int
    columns: dict[str, Fields]
    errors: list[CsvError] = field(default_factory=list)

    def reject(self, column: str, bad: np.ndarray, message: str) -> None:
        """Note an error at the first row where ``bad`` is true; {} is replaced by the field."""
        if not bad.any():
            return
        row = int(np.argmax(bad))
        fields = self.columns[column]
        if not fields.is_utf8(row):
            message = "not UTF-8: {}"
        elif fields.lengths[row] == 0:
            message = "empty"
        self.errors.append(
            CsvError(self.path, self.line + row, column, message.format(fields.text(row)))
        )

    def check(self) -> None:
        """Raise the error of the first line that has one."""
        if self.errors:
            raise min(self.errors, key=lambda error: error.line)


def batches(path: Path, wanted: Sequence[str]) -> Iterator[Batch]:
    """Yield the rows of a file that has at least the ``wanted`` columns.

    Raises CsvError for a file that cannot be read, is empty, lacks a column, has a row
    of another width, or ends inside a quoted field or a packed block. Empty lines at the end are
    left out. Errors found in a batch's rows are in ``errors``: add to them, then call ``check``.
    """
    ragged: list[pacsv.InvalidRow] = []
    made, line, unpacked, blank = 0, 0, 0, 0
    try:
        codec, size = packing(path)
        most = max(_MOST_UNPACKED, _MOST_RATIO * size)
        if codec == _PARQUET:
            line, tables = 1, _parquet(path, wanted)
        else:
            line, tables = 2, _csv(path, codec, wanted, ragged)
        first = line
        for table in tables:
            unpacked += table.nbytes
            if codec and unpacked > most:
                expected = f"expected at most {most:,} bytes when unpacked"
                raise CsvError(path, line, "", f"{expected}, because the file has {size:,}")
            used = _without_blank_end(table)
            if used and blank:
                raise CsvError(path, blank, wanted[0], "empty: the line has no fields")
            if used < table.num_rows:
                blank = blank or line + used
            if used:
                yield _batch(path, line, table.slice(0, used), wanted, ragged)
                made += used
            line += table.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        place = f" from {'row' if line == 1 else 'line'} {line} on" if made else ""
        raise CsvError(path, line if made else 0, "", f"cannot be read{place}: {reason}") from error
    for row in ragged:
        raise _ragged(path, row)
    if not made:
        raise CsvError(path, first, wanted[0], "empty: expected at least one row")


def packing(path: Path) -> tuple[str, int]:
    """Return the codec of a file by its first bytes, "" for plain text, and its size."""
    with path.open("rb") as file:
        head = file.read(1 << 9)
        size = file.seek(0, io.SEEK_END)
    for magic, name in _NOT_READ.items():
        if head.startswith(magic):
            raise CsvError(path, 0, "", f"{name}; expected {_READ}")
    if head[257:262] == b"ustar":
        raise CsvError(path, 0, "", f"a tar archive; expected {_READ}")
    found = (one for magic, one in _PACKED.items() if head.startswith(magic))
    return next(found, ""), size


def _without_blank_end(table: pa.RecordBatch) -> int:
    """Return how many rows are left without those at the end whose fields are all empty."""
    used = table.num_rows
    if not used or any(column[used - 1].as_py() for column in table.columns):
        return int(used)
    filled = np.zeros(used, bool)
    for column in table.columns:
        ends = np.frombuffer(column.buffers()[1], np.int32)[column.offset :][: used + 1]
        filled |= np.diff(ends) > 0
    return int(np.flatnonzero(filled)[-1]) + 1 if filled.any() else 0


def _csv(
    path: Path, codec: str, wanted: Sequence[str], ragged: list[pacsv.InvalidRow]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a CSV file, each column as bytes; rows of another width go to ragged."""

    def keep(row: pacsv.InvalidRow) -> str:
        ragged.append(row)
        return "skip"

    with pa.OSFile(str(path)) as file:
        head = pa.CompressedInputStream(file, codec) if codec else file
        names = header(path, head.read(_BLOCK))
        _expect_columns(path, names, wanted)
    with pa.OSFile(str(path)) as file:
        yield from pacsv.open_csv(
            pa.CompressedInputStream(file, codec) if codec else file,
            read_options=pacsv.ReadOptions(use_threads=False, block_size=_BLOCK),
            parse_options=pacsv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=keep),
            convert_options=pacsv.ConvertOptions(
                column_types={name: pa.binary() for name in names},
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )


def _parquet(path: Path, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file, the wanted columns as bytes, null as an empty field."""
    import pyarrow.parquet as pq  # few need it, and it takes a while

    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        _expect_columns(path, names, wanted)
        for table in file.iter_batches(_PARQUET_ROWS, columns=list(wanted), use_threads=False):
            columns = [_as_text(path, name, table.column(name)) for name in wanted]
            yield pa.record_batch(columns, names=list(wanted))


def _as_text(path: Path, name: str, array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64())
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    ):
        raise CsvError(path, 0, name, f"expected numbers or text, got {kind}")
    return array.cast(pa.string()).fill_null("").cast(pa.binary())


def _batch(
    path: Path,
    line: int,
    table: pa.RecordBatch,
    wanted: Sequence[str],
    ragged: list[pacsv.InvalidRow],
) -> Batch:
    columns = {name: Fields.of(table.column(name)) for name in wanted}
    batch = Batch(path, line, table.num_rows, columns)
    batch.errors += [_ragged(path, row) for row in ragged]
    for name, array in zip(table.schema.names, table.columns, strict=True):
        # A quote that is never closed swallows the lines after it.
        fields = columns.get(name) or Fields.of(array)
        if len(newlines := np.flatnonzero(fields.data == ord("\n"))):
            row = int(np.searchsorted(fields.starts, newlines[0], side="right")) - 1
            message = f"a line break in quotes: {fields.text(row)}"
            batch.errors.append(CsvError(path, line + max(row, 0), name, message))
    return batch


def _ragged(path: Path, row: pacsv.InvalidRow) -> CsvError:
    message = f"expected {row.expected_columns} columns, got {row.actual_columns}"
    return CsvError(path, row.number or 0, "", f"{message}: {row.text[:80]!r}")


def header(path: Path, start: bytes) -> list[str]:
    """Return the names of the columns, from the first bytes of the text."""
    try:
        first = io.BytesIO(start).readline().decode("utf-8-sig")
        return next(csv.reader([first]), [])
    except UnicodeDecodeError as error:
        raise CsvError(path, 1, "", f"not UTF-8: {error.reason}") from error
    except csv.Error as error:
        raise CsvError(path, 1, "", f"cannot be read: {error}") from error


def _expect_columns(path: Path, names: Sequence[str], wanted: Sequence[str]) -> None:
    if not names:
        raise CsvError(path, 1, "", f"empty: expected a header with {', '.join(wanted)}")
    for name in wanted:
        if names.count(name) != 1:
            found = "missing" if name not in names else "there twice"
            expected = f"expected {', '.join(wanted)}; got {', '.join(names)}"
            raise CsvError(path, 1, name, f"{found}: {expected[:300]}")
