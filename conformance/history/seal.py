"""The seal of a run folder: the SHA-256 of each of its files, as `sha256sum` writes them.

The SHA-256 of the seal itself is the root of the run: who knows it knows every byte that a
verdict is computed from.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import plain_files

FILE_NAME: Final = "SHA256SUMS"
#: Labels of the user's, output that was never committed, and the list of the files of a pack, which
#: comes after the seal: no judgement reads them.
_NOT_SEALED: Final = frozenset((FILE_NAME, "tags.json", "output/staged.bin", "manifest.json"))
#: Partitions of the input: run.json has their digests, and they can be made again.
_INPUT: Final = "input/s"
_LINE: Final = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9._/-]{1,200})")
_MAX_BYTES: Final = 1 << 20


def names(folder: Path) -> list[str]:
    """Return the files that a run folder holds as evidence, by name within the folder.

    Links are among them, for `plain_files.opened` to refuse.
    """
    held = plain_files.below(folder, "input", "output")
    return [name for name in held if name not in _NOT_SEALED]


def write(folder: Path, known: Mapping[str, str]) -> None:
    """Seal the files of a run; ``known``: digests of some of them. Raises OSError."""
    sums = {}
    for name in names(folder):
        if not name.startswith(_INPUT):
            # A link or a device is not listed, so the run is refused when it is judged again.
            with contextlib.suppress(HistoryError):
                sums[name] = known.get(name) or _digest(folder, name)
    _write(folder, sums)


def renew(folder: Path, *changed: str) -> None:
    """Seal files that the kit wrote again; a run without a seal gets none."""
    if sums := read(folder):
        _write(folder, sums | {name: _digest(folder, name) for name in changed})


def read(folder: Path) -> dict[str, str]:
    """Return the digests of a run by name, none if it has no seal; raises HistoryError."""
    path = folder / FILE_NAME
    try:
        text = plain_files.read_bytes(folder, FILE_NAME, _MAX_BYTES).decode("ascii")
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise HistoryError(f"{path}: expected lines of sha256sum: {error}") from error
    found: dict[str, str] = {}
    *lines, rest = text.split("\n")
    for number, line in enumerate([*lines, rest] if rest else lines, 1):
        row = _LINE.fullmatch(line)
        if row is None or row[2] in found:
            raise HistoryError(f"{path}, line {number}: expected a digest and the name of one file")
        found[row[2]] = row[1]
    return found


def root(folder: Path) -> str:
    """Return the root of a run, "" if it has no seal; raises HistoryError."""
    try:
        return hashlib.sha256(plain_files.read_bytes(folder, FILE_NAME, _MAX_BYTES)).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _digest(folder: Path, name: str) -> str:
    with plain_files.opened(folder, name) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(folder: Path, sums: Mapping[str, str]) -> None:
    lines = (f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
    plain_files.write(folder / FILE_NAME, "".join(lines).encode("ascii"))
