"""A run folder: where each part lies, how it is written, how it is opened again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import numpy as np

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import plain_files, run_record, seal
from tickproof.conformance.history.events import (
    Event,
    FaultMissed,
    FiredFault,
    Link,
    Network,
    Resumed,
)
from tickproof.conformance.history.json_lines import loads, parsed
from tickproof.conformance.history.outputs import ARRIVAL, OutputLog
from tickproof.conformance.history.remade_input import remade
from tickproof.conformance.history.rows import (
    FETCH,
    HICCUP,
    MACHINE,
    OTHERS,
    PUBLISH,
    RELEASE,
    USAGE,
    of_partition,
)
from tickproof.conformance.history.run_record import Ended, Partition, RunRecord
from tickproof.conformance.scenario import Claims
from tickproof.conformance.text import shown
from tickproof.generators.layouts import framed
from tickproof.generators.spread_rule import decimals_of, spread_limit

FORMAT: Final = 1
_CHANGED: Final = "changed after it was recorded"

E = TypeVar("E", bound=Event)


def write_json(path: Path, data: Any) -> None:
    """Write a JSON file, whole or not at all; raises OSError."""
    plain_files.write(path, (json.dumps(data, indent=1) + "\n").encode())


def write_sealed_json(path: Path, data: Any) -> None:
    """Write a JSON file of a run folder that was sealed, and seal it anew; raises OSError."""
    write_json(path, data)
    seal.renew(path.parent, path.name)


_KEYS: Final = ("scenario", "claims", "input", "engine")


class History:
    """Everything recorded of one run, read from its folder. Arrays are memory maps."""

    #: Name of a piece of evidence -> how to compute it otherwise than in this process.
    other_ways: Mapping[str, Callable[[History], Any]] = MappingProxyType({})

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache: dict[str, Any] = {}  # what checkers found, kept for other tests of this run
        path = folder / "run.json"
        try:
            content = plain_files.read_document(folder, path.name)
            run = loads(content)
        except FileNotFoundError:
            raise HistoryError(
                f"{path}: not found; expected the folder of an engine's run"
            ) from None
        except OSError as error:
            raise HistoryError(f"{path}: cannot be read ({error})") from error
        except ValueError as error:
            raise HistoryError(f"{path}: not JSON ({error})") from error
        #: Digests of files by name, and the names of those that have been compared.
        self._sums, self._unchanged = seal.read(folder), set[str]()
        if self._sums and hashlib.sha256(content).hexdigest() != self._sums.get(path.name):
            raise HistoryError(f"{path}: {_CHANGED}")
        self.record = self._read(path, run)

    def _read(self, path: Path, run: Any) -> RunRecord:
        """Expect all keys of run.json."""
        if not isinstance(run, dict):
            raise HistoryError(f"{path}: expected a JSON object")
        if run.get("format") != FORMAT:
            raise HistoryError(f"{path}: format {run.get('format')!r}, expected {FORMAT}")
        for key in _KEYS:
            # A kit that was stopped while it made the input left no "input".
            if not isinstance(run.get(key), dict):
                raise HistoryError(f"{path}: {key}: expected an object; the run has not begun")
        return run_record.read(path, run)

    @property
    def sealed(self) -> bool:
        """True if the run has a seal, which it gets at its end."""
        return bool(self._sums)

    def verify(self) -> None:
        """Expect the run to be sealed, and every file to be as it was then.

        Raises HistoryError with the first that is missing, changed or not listed. Input may be
        missing, because it can be made again.
        """
        listed = self.folder / seal.FILE_NAME
        if not self.sealed:
            raise HistoryError(
                f"{listed}: not found; expected the digests of a run that ended (runs of earlier "
                "versions have none)"
            )
        self._sums |= {row.file: row.sha256 for row in self.partitions}
        held = set(seal.names(self.folder))
        if added := held - self._sums.keys():
            raise HistoryError(f"{self.folder / min(added)}: added after the run, not in {listed}")
        for name in sorted(self._sums):
            if name not in held and not name.startswith("input/"):
                raise HistoryError(f"{self.folder / name}: not found; {listed} lists it")
            if name in held:
                self.opened(name).close()

    def note(self, **facts: Any) -> None:
        """Add facts to run.json that are known only after the run; raises OSError."""
        path = self.folder / "run.json"
        run = loads(plain_files.read_document(self.folder, path.name)) | facts
        write_sealed_json(path, run)
        self._sums, self.record = seal.read(self.folder), run_record.read(path, run)

    def opened(self, name: str) -> BufferedReader:
        """Open a file of the run, by its name within the folder, as it was recorded.

        Raises HistoryError if it is not a regular file, or not what the kit sealed;
        FileNotFoundError.
        """
        file = plain_files.opened(self.folder, name)
        expected = self._sums.get(name)
        if expected is not None and name not in self._unchanged:
            if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                file.close()
                raise HistoryError(f"{self.folder / name}: {_CHANGED}")
            file.seek(0)
            self._unchanged.add(name)
        return file

    def table(self, name: str, dtype: np.dtype) -> np.ndarray:
        """Return the rows of a table; a torn last row is left out, no file is no rows."""
        try:
            with self.opened(name) as file:
                return np.fromfile(file, dtype, _size(file) // dtype.itemsize)
        except FileNotFoundError:
            return np.zeros(0, dtype)

    def read(self, name: str, limit: int = plain_files.MAX_TEXT) -> bytes:
        """Return what a file of the run holds; raises as `opened` does."""
        with self.opened(name) as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise HistoryError(f"{self.folder / name}: expected at most {limit:,} bytes")
        return content

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
        return self.record.scenario.name

    @property
    def app(self) -> str:
        """Name of the app."""
        return self.record.scenario.app

    @property
    def params(self) -> dict[str, str]:
        """Params of the deploy request."""
        return self.record.scenario.params

    @property
    def spread_limit(self) -> int:
        """Five cents in the unit of the prices of a market."""
        return spread_limit(decimals_of(self.record.input.recipe))

    @property
    def claims(self) -> Claims:
        """The engine's claims for this app and these params."""
        return self.record.claims

    @property
    def ended(self) -> Ended:
        """The end of the run, as run.json has it."""
        return self.record.ended

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """Rows of events.jsonl as they stand there."""
        return self._rows("events.jsonl", {"t_ns": int, "event": str})

    def _rows(self, name: str, keys: Mapping[str, type]) -> list[dict[str, Any]]:
        try:
            rows = parsed(self.read(name), name)
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise HistoryError(f"{self.folder}: {error}") from error
        for number, row in enumerate(rows, 1):
            for key, kind in keys.items():
                if type(row.get(key)) is not kind:
                    raise HistoryError(
                        f"{self.folder / name}, object {number}: {key}: expected {kind.__name__}"
                    )
        return rows

    def all(self, *kinds: type[E], **fields: Any) -> list[E]:
        """Return the events of some kinds, as recorded, whose fields have the given values."""
        wanted = {kind.KIND: kind for kind in kinds}
        found = [
            wanted[row["event"]].from_row(row) for row in self.events if row["event"] in wanted
        ]
        return [
            event
            for event in found
            if all(getattr(event, name) == value for name, value in fields.items())
        ]

    @cached_property
    def control(self) -> list[dict[str, Any]]:
        """Rows of control.jsonl: t_ns, direction ("to" or "from" the engine), line."""
        return self._rows("control.jsonl", {"t_ns": int, "direction": str, "line": str})

    @cached_property
    def faults(self) -> list[FiredFault]:
        """The faults that were carried out, in order."""
        return self.all(FiredFault)

    @property
    def missed_faults(self) -> list[FaultMissed]:
        """Fault steps that were not carried out, with the reason why."""
        return self.all(FaultMissed)

    @cached_property
    def publishes(self) -> np.ndarray:
        """PUBLISH rows."""
        return self.table("publishes.bin", PUBLISH)

    @cached_property
    def fetches(self) -> np.ndarray:
        """FETCH rows."""
        return self.table("fetches.bin", FETCH)

    @cached_property
    def fetches_with_cause(self) -> np.ndarray:
        """FETCH rows; where nothing gave cause to go back, without those that did.

        Faults do, and over Kafka the rebalances of a group, which come unasked.
        """
        rows = self.fetches
        if self.record.scenario.faults or self.claims.over_kafka:
            return rows
        onward = np.ones(len(rows), bool)
        number = rows["stream"].astype(np.uint32) << np.uint32(16) | rows["partition"]
        for one in np.unique(number):
            mine = np.flatnonzero(number == one)
            reach = np.maximum.accumulate(rows["end"][mine])
            onward[mine[1:]] = rows["base"][mine[1:]] >= reach[:-1]
        return rows[onward]

    @cached_property
    def releases(self) -> np.ndarray:
        """RELEASE rows."""
        return self.table("releases.bin", RELEASE)

    @cached_property
    def usage(self) -> np.ndarray:
        """USAGE rows: the engine's processes, each second."""
        return self.table("usage.bin", USAGE)

    @cached_property
    def machine(self) -> np.ndarray:
        """MACHINE rows."""
        return self.table("machine.bin", MACHINE)

    @cached_property
    def others(self) -> np.ndarray:
        """OTHERS rows."""
        return self.table("others.bin", OTHERS)

    @cached_property
    def hiccups(self) -> dict[int, np.ndarray]:
        """HICCUP rows of each core that a recorder ran on."""
        name = re.compile(r"hiccups-(-1|\d+)\.bin")
        found = [name.fullmatch(file) for file in plain_files.below(self.folder)]
        return {int(m[1]): self.table(m[0], HICCUP) for m in found if m is not None}

    @property
    def fetched(self) -> int:
        """Distinct records that were fetched, over all partitions."""
        return sum(
            int(of_partition(self.fetches, p.stream, p.partition)["end"].max(initial=0))
            for p in self.partitions
        )

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of the input."""
        return self.record.input.partitions

    @property
    def input_records(self) -> int:
        """Records of the whole input."""
        return sum(row.records for row in self.partitions)

    def inputs(self, dtype: np.dtype, stream: int = 0) -> list[np.ndarray]:
        """Return the payloads of each partition of a stream, in offset order.

        Makes the input again from its recipe where the run folder no longer holds it;
        raises HistoryError where that is impossible or gives other bytes.
        """
        self._have_input()
        rows = [row for row in self.partitions if row.stream == stream]
        return [self._framed(row.file, dtype, row.records) for row in rows]

    def _have_input(self) -> None:
        if all((self.folder / row.file).exists() for row in self.partitions):
            return
        folder = self.folder / "input"
        if folder.is_symlink():
            raise HistoryError(f"{folder}: expected a folder; found a link")
        try:
            made = self._make_input(self.record.input.recipe, folder)
        except (ValueError, OSError) as error:
            raise HistoryError(f"{folder}: cannot be made again: {error}") from error
        for row in self.partitions:
            if made.get(row.file) != row.sha256:
                shutil.rmtree(folder)  # or it would be taken for the run's own
                raise HistoryError(
                    f"{self.folder / row.file}: made again from its recipe, "
                    "it has other bytes than in the run"
                )

    def _make_input(self, recipe: dict[str, Any], folder: Path) -> dict[str, str]:
        """Write the input once more; return name of each file -> its sha256."""
        built = remade(self.record.input, folder)
        return {f"{folder.name}/{part.path.name}": part.sha256 for part in built.partitions}

    def _framed(self, name: str, dtype: np.dtype, records: int) -> np.ndarray:
        if records == 0:
            return np.zeros(0, dtype)
        layout = framed(dtype)
        try:
            opened = self.opened(name)
        except FileNotFoundError:
            raise HistoryError(f"{self.folder / name}: expected {records} records") from None
        with opened as file:
            if _size(file) < records * layout.itemsize:
                raise HistoryError(
                    f"{self.folder / name}: {_size(file)} bytes, expected {records} records "
                    f"of {layout.itemsize}"
                )
            return np.memmap(file, layout, "r", shape=(records,))["payload"]

    def outputs(self, dtype: np.dtype, stream: int = 0) -> OutputLog:
        """Return the recorded output of a stream, without the odd-sized records."""
        arrivals = self.table(f"output/s{stream}.arrivals", ARRIVAL)
        name = f"output/s{stream}.log"
        held = plain_files.size(self.folder, name) // framed(dtype).itemsize
        # A torn end: rows without bytes or bytes without a row count as not recorded.
        arrivals = arrivals[arrivals["index"] + arrivals["count"] <= held]
        records = int(arrivals["count"].sum())
        return OutputLog(self._framed(name, dtype, records), arrivals)

    def odd_output(self, stream: int) -> str:
        """Return the first output record of another size or shape, escaped and cut."""
        with self.opened(f"output/s{stream}.odd") as file:
            size = int.from_bytes(file.read(4), "little")
            return shown(file.read(min(size, 300)).decode("utf-8", "backslashreplace"), 200)

    def decided(self) -> list[str]:
        """Return the requirements that were decided from this run (verdict.json)."""
        path = self.folder / "verdict.json"
        try:
            return [
                str(row["requirement"])
                for row in loads(self.read(path.name, plain_files.MAX_DOCUMENT))
            ]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise HistoryError(
                f"{path}: expected a list of verdicts: {type(error).__name__}: {error}"
            ) from error

    def pauses(self) -> Sequence[tuple[int, int]]:
        """Return (start_ns, end_ns) of every pause of the engine, or of a source that it reads.

        After a fault of the network TCP may need as long again to find out that it is over.
        """
        over: list[Resumed | Link] = [*self.all(Resumed), *self.all(Link, target="source")]
        found = [(one.from_ns, one.t_ns) for one in over if one.from_ns is not None]
        return found + [(one.from_ns, 2 * one.t_ns - one.from_ns) for one in self.all(Network)]

    def stderr_tail(self, lines: int = 32) -> list[str]:
        """Return the last lines of the engine's standard error, escaped and cut."""
        try:
            with self.opened("stderr.log") as file:
                file.seek(max(0, _size(file) - 64 * 1024))
                text = file.read(64 * 1024).decode("utf-8", "backslashreplace")
        except FileNotFoundError:
            return []
        return [shown(line, 500) for line in text.splitlines()[-lines:]]


def _size(file: BufferedReader) -> int:
    return os.fstat(file.fileno()).st_size


@contextmanager
def made_input_removed(folder: Path) -> Iterator[None]:
    """Remove the input of a run if it is made meanwhile, and was not there before."""
    had_input = (folder / "input").exists()
    try:
        yield
    finally:
        if not had_input:
            shutil.rmtree(folder / "input", ignore_errors=True)


@contextmanager
def opened(folder: Path) -> Iterator[History]:
    """Open a history, and leave no input behind that is made for it; raises HistoryError."""
    with made_input_removed(folder):
        yield History(folder)
