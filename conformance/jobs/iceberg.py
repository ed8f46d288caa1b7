"""Tables of Apache Iceberg in a folder; only imported if a job has one (extra ``iceberg``).

The metadata of a table names files by their full path, and may name a class that reads them.
Neither is trusted: every file is read here, and has to lie in the folder.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlparse

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadata

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import plain_files

#: A version of a table: of a catalog (00003-UUID), or of a folder that is its own catalog (v3).
_VERSION: Final = re.compile(r"metadata/v?(\d+)(?:-[^/]+)?(?:\.gz)?\.metadata\.json")
_MOST_BYTES: Final = 1 << 30


class Table:
    """The table in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._files = folder, _Files(folder)

    def newest(self, there: Iterable[str]) -> str:
        """Return the newest version among files of the folder, "" without any.

        A version that is not whole was never committed. Of two with one number, the writer of
        one died before the catalog had it, and the other was written later.
        """
        versions: dict[int, list[str]] = {}
        for name in there:
            if found := _VERSION.fullmatch(name):
                versions.setdefault(int(found[1]), []).append(name)
        for number in sorted(versions, reverse=True):
            written = {}
            for name in versions[number]:
                with contextlib.suppress(ValueError):
                    written[name] = self._metadata(name).last_updated_ms
            if written:
                return max(written, key=written.__getitem__)
        return ""

    def rows(self, version: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a version; raises ValueError, HistoryError, OSError.

        The library knows deletes by position, and refuses those by value.
        """
        metadata = self._metadata(version)
        table = StaticTable(("table",), metadata, version, self._files, NoopCatalog("none"))
        with _wrong_is_a_value_error():
            for batch in table.scan().to_arrow_batch_reader():
                yield from batch.to_pylist()

    def _metadata(self, name: str) -> TableMetadata:
        with _wrong_is_a_value_error():
            return FromInputFile.table_metadata(self._files.new_input(str(self._folder / name)))


@contextlib.contextmanager
def _wrong_is_a_value_error() -> Iterator[None]:
    """Turn the errors of the library, which have no class in common, into ValueError."""
    try:
        yield
    except (HistoryError, FileNotFoundError, ValueError):
        raise
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def within(folder: Path, location: str) -> str | None:
    """Return the path within a folder of a file that a table names, None for one elsewhere."""
    url = urlparse(location)
    path = PurePosixPath(unquote(url.path) if url.scheme else location)
    here = url.scheme in ("", "file") and not url.netloc and path.is_relative_to(folder)
    return str(path.relative_to(folder)) if here else None


class _Files(FileIO):
    """Reads regular files of a folder, and writes none."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def new_input(self, location: str) -> InputFile:
        if (name := within(self._folder, location)) is None:
            raise ValueError(f"expected files in the folder of the table; got {location}")
        return _File(location, self._folder, name)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError(location)


class _File(InputFile):
    def __init__(self, location: str, folder: Path, name: str) -> None:
        super().__init__(location)
        self._place = folder, name

    def __len__(self) -> int:
        return plain_files.size(*self._place)

    def exists(self) -> bool:
        return self._place[0].joinpath(self._place[1]).is_file()

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(plain_files.read_bytes(*self._place, _MOST_BYTES))
