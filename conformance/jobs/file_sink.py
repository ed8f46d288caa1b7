"""Output in files: JSON lines, CSV and Parquet, of which only what is committed counts.

A folder with `_spark_metadata`, the log of a file sink of Structured Streaming, or `_delta_log`,
that of a table of Delta Lake, has the files that the log names. One with `*.metadata.json` below
`metadata` is a table of Apache Iceberg, and has the rows of its newest version. If a folder of the
output has a `_SUCCESS`, folders without one are not committed.
Names that begin with "." or "_", or that say tmp, temp or part, are never output.
"""

from __future__ import annotations

import fnmatch
import io
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlparse

from tickproof.conformance.engines.workspace import unfinished, walked
from tickproof.conformance.errors import HistoryError, InvalidFile
from tickproof.conformance.history import plain_files
from tickproof.conformance.jobs.declaration import OutputTable
from tickproof.conformance.jobs.records import MOST, of_file, plain
from tickproof.conformance.jobs.sinks import BadOutput, Row, SqliteSink, identity
from tickproof.conformance.text import shown

SPARK_LOG, DELTA_LOG, SUCCESS = "_spark_metadata", "_delta_log", "_SUCCESS"
_ICEBERG: Final = re.compile(r"metadata/[^/]+\.metadata\.json")
#: Where a SQL catalog of Iceberg says which version of a table is committed.
_COMMITTED: Final = OutputTable(
    sql="SELECT metadata_location FROM iceberg_tables", identity=["metadata_location"]
)
#: What a table of Delta Lake may ask of its readers here: nothing that changes rows or names.
_READ_FEATURES: Final = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
_MOST_FILES: Final = 100_000
_MOST_BYTES: Final = 1 << 30
_COMPACT: Final = ".compact"
#: What was written this recently is being written.
_FRESH_NS: Final = 20_000_000
_SUFFIXES: Final = {".jsonl", ".json", ".ndjson", ".csv", ".parquet"}

#: What tells a version of a file from others.
_Facts = tuple[int, int, int]


def place(files: str) -> tuple[str, tuple[str, ...]]:
    """Return the folder below {state} that ``files`` names, and a pattern for each name below it.

    No pattern stands for all files, however deep.
    """
    parts = PurePosixPath(files.removeprefix("{state}/")).parts
    fixed = next((n for n, part in enumerate(parts) if set(part) & set("*?[")), len(parts))
    if fixed == len(parts) and PurePosixPath(files).suffix.lower() in _SUFFIXES:
        fixed -= 1
    return "/".join(parts[:fixed]), parts[fixed:]


class FilesSink:
    """Rows of files below the folder of the job's state."""

    open = "output files that are being written"

    def __init__(self, table: OutputTable, state: Path, name: str) -> None:
        self._table, self._name = table, f"[outputs.{name}]"
        folder, self._patterns = place(table.files or "")
        self._folder = state / folder
        self.where = str(self._folder)
        self._read: dict[str, tuple[_Facts, list[Row]]] = {}
        self._catalog: SqliteSink | None = None
        if table.catalog is not None:
            file = state / table.catalog.removeprefix("{state}/")
            self._catalog = SqliteSink(_COMMITTED, file, file, f"outputs.{name}")
        #: Of a table of Iceberg the version that was read, and its rows.
        self._version, self._in_version = "", list[Row]()
        #: All files, and of these the committed ones, when they were last looked at.
        self._there, self._commits = dict[str, _Facts](), frozenset[str]()
        #: Fields of the rows of a file that are not in the file: a table is partitioned by them.
        self._beside: dict[str, dict[str, Any]] = {}

    def take(self) -> None:
        """Do nothing: rows are read when the job stands still."""

    def position(self) -> object:
        """Return what tells the versions of all its files."""
        catalog = [self._catalog.position()] if self._catalog else []
        return [*self._facts(), *catalog]

    def whole(self) -> bool:
        """Return True: what is not committed is no output yet."""
        return True

    def rows(self, ended: bool = False) -> list[Row]:
        """Return the rows of committed files, in the order of their names.

        A file that cannot be read counts once it can; if the job has ended, it raises BadOutput.
        """
        found: list[Row] = []
        facts = dict(self._facts())
        if self._is_iceberg(facts):
            return self._in_iceberg(facts.keys(), ended)
        for name in self._committed(set(facts), ended):
            known = self._read.get(name)
            if ended or known is None or known[0] != facts[name]:
                try:
                    known = facts[name], list(self._rows_of(name, ended))
                except (InvalidFile, HistoryError, OSError, BadOutput) as error:
                    if ended:
                        raise BadOutput(f"{self._name} {error}") from error
                    continue
                self._read[name] = known
            found += known[1]
            if len(found) > MOST:
                raise BadOutput(f"{self._name}: expected at most {MOST:,} rows in files")
        return found

    def settled(self) -> int | None:
        """Return None: files say nothing of the input."""
        return None

    def transactions(self) -> frozenset[str]:
        """Return one while a file, under its last name or another, was written just now."""
        catalog = self._catalog.transactions() if self._catalog else frozenset()
        now = time.time_ns()
        if any(abs(now - facts[1]) < _FRESH_NS for _, facts in self._facts()):
            return catalog | {"files"}
        return catalog

    def commits(self) -> frozenset[str] | None:
        """Return the files that are committed, None of a table of Iceberg."""
        there = dict(self._facts())
        if self._is_iceberg(there):
            return None
        if there != self._there:
            self._there, self._commits = there, frozenset(self._committed(set(there), False))
        return self._commits

    def close(self) -> None:
        """Let go of the catalog."""
        if self._catalog:
            self._catalog.close()

    def _facts(self) -> Iterator[tuple[str, _Facts]]:
        """Yield all files below the folder, by their name in it, with what tells their version."""
        count = 0
        for parent, _, names in walked(self._folder):
            for name in names:
                path = os.path.join(parent, name)  # noqa: PTH118 - many files
                try:
                    held = os.lstat(path)
                except OSError:
                    continue  # it was removed meanwhile
                if (count := count + 1) > _MOST_FILES:
                    raise BadOutput(f"{self._name}: expected at most {_MOST_FILES:,} files")
                inner = os.path.relpath(path, self._folder)
                yield inner, (held.st_ino, held.st_mtime_ns, held.st_size)

    def _committed(self, there: set[str], ended: bool) -> list[str]:
        found = sorted(name for name in there if self._is_output(name))
        for log, read in ((SPARK_LOG, self._logged), (DELTA_LOG, self._in_table)):
            if not any(name.startswith(f"{log}/") for name in there):
                continue
            try:
                logged = read(there)
            except (HistoryError, OSError, ValueError, RecursionError) as error:
                if ended:
                    raise BadOutput(f"{self._name} {log}: {error}") from error
                return []
            if ended and (gone := sorted(logged - there)):
                what = f"has committed {shown(gone[0], 200)}, which is not there"
                raise BadOutput(f"{self._name} {log}: {what}")
            return [name for name in found if name in logged]
        done = {name.rpartition("/")[0] for name in there if name.split("/")[-1] == SUCCESS}
        return [name for name in found if not done or done.intersection(_above(name))]

    def _is_iceberg(self, there: Iterable[str]) -> bool:
        return self._catalog is not None or any(map(_ICEBERG.fullmatch, there))

    def _is_output(self, name: str) -> bool:
        parts = name.split("/")
        if any(part.startswith((".", "_")) for part in parts) or unfinished(parts[-1]):
            return False
        if not self._patterns:
            return True
        return len(parts) == len(self._patterns) and all(
            map(fnmatch.fnmatchcase, parts, self._patterns)
        )

    def _logged(self, there: set[str]) -> set[str]:
        """Return the files that Spark's log commits; raises ValueError, HistoryError, OSError."""
        batches: dict[int, str] = {}
        for name in there:
            folder, _, last = name.rpartition("/")
            number = last.removesuffix(_COMPACT)
            if folder != SPARK_LOG or not (number.isdecimal() and number.isascii()):
                continue
            # A compact file holds all before it; it takes the place of the plain one.
            if last.endswith(_COMPACT) or int(number) not in batches:
                batches[int(number)] = name
        compact = max((n for n, name in batches.items() if name.endswith(_COMPACT)), default=0)
        found = set[str]()
        for log in (batches[n] for n in sorted(batches) if n >= compact):
            version, *lines = plain_files.read_bytes(self._folder, log).decode("utf-8").split("\n")
            if version != "v1":
                raise ValueError(f"{log}: expected v1; got {shown(version, 40)}")
            for line in filter(None, lines):
                self._apply(line, log, found)
        return found

    def _apply(self, line: str, log: str, found: set[str]) -> None:
        """Take a line of Spark's log."""
        entry = json.loads(line)
        try:
            path, action = unquote(urlparse(entry["path"]).path), entry["action"]
            inner = str(PurePosixPath(path).relative_to(self._folder))
        except (TypeError, KeyError, ValueError, AttributeError):
            expected = "expected a path in the folder and an action"
            raise ValueError(f"{log}: {expected}; got {shown(line, 200)}") from None
        (found.discard if action == "delete" else found.add)(inner)

    def _in_table(self, there: set[str]) -> set[str]:
        """Return the files of the newest version of a table of Delta Lake; raises as `_logged`."""
        try:
            from deltalake import DeltaTable
            from deltalake.exceptions import DeltaError
        except ImportError:
            raise self._needs("Delta Lake", "delta") from None
        links = (n for n in there if n.startswith(DELTA_LOG) and (self._folder / n).is_symlink())
        if link := next(links, None):
            raise ValueError(f"{shown(link, 200)} is a link")
        try:
            table = DeltaTable(self._folder)
            asked = {*(table.protocol().reader_features or ())} - _READ_FEATURES
            added = table.get_add_actions(flatten=True)
        except DeltaError as error:
            raise ValueError(shown(str(error), 300)) from error
        if asked:
            raise ValueError(f"expected a table without {', '.join(sorted(asked))}")
        columns = {name: added[name].to_pylist() for name in added.column_names}
        paths = [unquote(path) for path in columns["path"]]
        for at, path in enumerate(paths):
            self._beside[path] = {
                name.removeprefix("partition."): plain(values[at])
                for name, values in columns.items()
                if name.startswith("partition.")
            }
        return set(paths)

    def _needs(self, kind: str, extra: str) -> BadOutput:
        what = f"is a table of {kind}, which needs: pip install 'tickproof[{extra}]'"
        return BadOutput(f"{self._name} {what}")

    def _in_iceberg(self, there: Collection[str], ended: bool) -> list[Row]:
        """Return the rows of the committed version of a table of Iceberg; raises as `rows`."""
        try:
            from tickproof.conformance.jobs import iceberg
        except ImportError:
            raise self._needs("Iceberg", "iceberg") from None
        table = iceberg.Table(self._folder)
        version = ""
        try:
            version = self._in_catalog(iceberg.within) if self._catalog else table.newest(there)
            if version not in ("", self._version):
                rows = list[Row]()
                for number, value in enumerate(table.rows(version), 1):
                    row = {name: plain(one) for name, one in value.items()}
                    where = f"{self._folder / version}, row {number:,}"
                    rows.append((identity(self._table, row, "", where), row))
                    if number > MOST:
                        raise BadOutput(f"{self._name}: expected at most {MOST:,} rows in a table")
                self._version, self._in_version = version, rows
        except (InvalidFile, HistoryError, OSError, ValueError, RecursionError) as error:
            if ended:
                where = f"{self._name} {version or 'its table'}"
                raise BadOutput(f"{where}: {shown(str(error), 300)}") from error
        return list(self._in_version)

    def _in_catalog(self, within: Callable[[Path, str], str | None]) -> str:
        """Return the version of the table that its catalog has, "" before there is one."""
        assert self._catalog is not None
        locations = [row["metadata_location"] for _, row in self._catalog.rows()]
        found = [one for one in (within(self._folder, each) for each in locations) if one]
        if len(found) > 1:
            raise ValueError(f"expected one table in the folder; the catalog has {len(found)}")
        return "".join(found)

    def _rows_of(self, name: str, ended: bool) -> Iterator[Row]:
        content = plain_files.read_bytes(self._folder, name, _MOST_BYTES)
        path = self._folder / name
        kind = path.suffix.lower()
        if kind != ".parquet" and not content:
            return
        if kind != ".parquet" and not content.endswith(b"\n"):
            lines, end, last = content.rpartition(b"\n")
            if not ended:
                content = lines + end
            elif kind == ".csv" or not _is_object(last):
                got = shown(last.decode("utf-8", "backslashreplace"), 80)
                number = content.count(b"\n") + 1
                raise BadOutput(f"{path}, line {number:,}: expected a whole line; got {got!r}")
        for number, value in enumerate(of_file(path, self._table.types, io.BytesIO(content)), 1):
            where = f"{path}, row {number:,}"
            if not isinstance(value, dict):
                raise BadOutput(f"{where}: expected an object; got {shown(repr(value), 80)}")
            value |= self._beside.get(name, {})
            yield identity(self._table, value, "", where), value


def _is_object(line: bytes) -> bool:
    """Tell whether a last line is complete: no part of an object is an object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _above(name: str) -> set[str]:
    """Return the folders that a file is in, up to that of the output, which is ""."""
    return {"" if str(one) == "." else str(one) for one in PurePosixPath(name).parents}
