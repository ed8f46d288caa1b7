"""Whole streams into files of framed records, a chunk at a time.

Each function makes the folders above ``path``, writes it only when it is complete (a ``.part``
file beside it until then), calls ``progress(records)`` with the number done so far after each
chunk, and returns the number of records written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tickproof.generators.layouts import MESSAGE, framed
from tickproof.generators.market import Market, MarketParams
from tickproof.generators.numbers import Keyed, KeyedParams, Numbers, chunk_records

Progress = Callable[[int], None]


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` on success and is gone on failure."""
    with replacing_all([path]) as (part,), part.open("wb") as file:
        yield file


@contextmanager
def replacing_all(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Give empty files that take the places of ``paths`` on success and are gone on failure.

    None of them is held open: there may be thousands. Raises OSError.
    """
    parts = [path.with_name(path.name + ".part") for path in paths]
    try:
        for part in parts:
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(b"")
        yield parts
        for part, path in zip(parts, paths, strict=True):
            part.replace(path)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def write_chunks(chunks: Iterable[np.ndarray], path: Path, progress: Progress | None) -> int:
    """Write arrays of framed records to one file.

    The kernel's part of a write takes as long as making the next chunk: a second thread
    does it meanwhile.
    """
    done = 0
    with replacing(path) as file, ThreadPoolExecutor(1) as writer:
        written: Future[int] | None = None
        for chunk in chunks:
            data = chunk.tobytes()  # a chunk is valid only until the next one is asked for
            if written is not None:
                written.result()
            written = writer.submit(file.write, data)
            done += len(chunk)
            if progress is not None:
                progress(done)
        if written is not None:
            written.result()
    return done


def ranges(stop: int, step: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield [first, end) pairs that cover ``start`` to ``stop``."""
    for first in range(start, stop, step):
        yield first, min(first + step, stop)


def write_market(params: MarketParams, path: Path, progress: Progress | None = None) -> int:
    """Write the merged stream: ``params.messages`` quotes and orders."""
    market = Market(params)
    step = chunk_records(framed(MESSAGE).itemsize)
    out = np.empty(step, framed(MESSAGE))
    pairs = ranges(params.messages, step)
    return write_chunks((market.messages(a, b, out) for a, b in pairs), path, progress)


def write_quotes(params: MarketParams, path: Path, progress: Progress | None = None) -> int:
    """Write the first ``params.messages`` quotes of the market, without its orders."""
    market = Market(params)
    pairs = ranges(params.messages, chunk_records(framed(MESSAGE).itemsize))
    return write_chunks((market.quotes(a, b) for a, b in pairs), path, progress)


def write_orders(params: MarketParams, path: Path, progress: Progress | None = None) -> int:
    """Write the first ``params.messages`` orders of the market, without its quotes."""
    market = Market(params)
    pairs = ranges(params.messages, chunk_records(framed(MESSAGE).itemsize))
    return write_chunks((market.orders(a, b) for a, b in pairs), path, progress)


def _record_chunks(source: Numbers | Keyed, records: int) -> Iterator[np.ndarray]:
    """Yield the first ``records`` records of a source of numbers."""
    pairs = ranges(records, chunk_records(source.dtype.itemsize))
    return (source.records(a, b) for a, b in pairs)


def write_numbers(
    records: int, path: Path, progress: Progress | None = None, *, seed: int = 1
) -> int:
    """Write input of app ``double``: distinct signed integers."""
    return write_chunks(_record_chunks(Numbers(seed), records), path, progress)


def write_keyed(
    params: KeyedParams, records: int, path: Path, progress: Progress | None = None
) -> int:
    """Write input of app ``count``: keys and values."""
    return write_chunks(_record_chunks(Keyed(params), records), path, progress)
