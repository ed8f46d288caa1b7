"""Columns of a CSV file (plain or gzip) as arrays of bytes, and what is wrong with it.

Numbers stay text until ``decimals`` reads them: nothing passes through a float.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

_BLOCK: Final = 1 << 20


class CsvError(ValueError):
    """Wrong data in a CSV file. line counts from 1, the header included; 0: the whole file."""

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

    def text(self, row: int) -> str:
        """Return one field for a message: shortened, any byte shown."""
        raw = self.data[self.starts[row] : self.starts[row] + self.lengths[row]].tobytes()
        shown = raw[:40].decode("utf-8", "backslashreplace")
        return repr(shown) + ("..." if len(raw) > 40 else "")

    def is_utf8(self, row: int) -> bool:
        """Tell whether one field is valid UTF-8."""
        raw = self.data[self.starts[row] : self.starts[row] + self.lengths[row]].tobytes()
        try:
            raw.decode("utf-8")
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
    of another width, or ends inside a quoted field or a gzip member. Errors found in a
    batch's rows are in ``errors``: add to them, then call ``check``.
    """
    _check_header(path, wanted)
    ragged: list[pacsv.InvalidRow] = []

    def keep(row: pacsv.InvalidRow) -> str:
        ragged.append(row)
        return "skip"

    line = 2
    try:
        with pa.OSFile(str(path)) as file:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            stream = pa.CompressedInputStream(file, "gzip") if zipped else file
            for table in _open(stream, path, keep):
                batch = _batch(path, line, table, wanted, ragged)
                yield batch
                line += batch.rows
    except (pa.ArrowException, OSError) as error:
        raise CsvError(path, line, "", f"cannot be read from here on: {error}") from error
    for row in ragged:
        raise _ragged(path, row)
    if line == 2:
        raise CsvError(path, 2, wanted[0], "empty: expected at least one row")


def _open(stream: pa.NativeFile, path: Path, keep: object) -> pacsv.CSVStreamingReader:
    names = _header(path)
    return pacsv.open_csv(
        stream,
        read_options=pacsv.ReadOptions(use_threads=False, block_size=_BLOCK),
        parse_options=pacsv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=keep),
        convert_options=pacsv.ConvertOptions(
            column_types={name: pa.binary() for name in names},
            strings_can_be_null=False,
            check_utf8=False,
        ),
    )


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


def _header(path: Path) -> list[str]:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if zipped else path.open("rb") as file:
        first = file.readline(_BLOCK)
    return next(csv.reader([first.decode("utf-8-sig")]), [])


def _check_header(path: Path, wanted: Sequence[str]) -> None:
    try:
        names = _header(path)
    except UnicodeDecodeError as error:
        raise CsvError(path, 1, "", f"not UTF-8: {error.reason}") from error
    except csv.Error as error:
        raise CsvError(path, 1, "", f"cannot be read: {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CsvError(path, 0, "", f"cannot be read: {reason}") from error
    if not names:
        raise CsvError(path, 1, "", f"empty: expected a header with {', '.join(wanted)}")
    for name in wanted:
        if names.count(name) != 1:
            found = "missing" if name not in names else "there twice"
            expected = f"expected {', '.join(wanted)}; got {', '.join(names)}"
            raise CsvError(path, 1, name, f"{found}: {expected[:300]}")
