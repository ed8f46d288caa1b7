"""Keyed numbers from a CSV file with the columns key and value: input of app ``count``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tickproof.generators.csv_market import checked_sha256
from tickproof.generators.csv_table import batches
from tickproof.generators.decimals import parse
from tickproof.generators.layouts import COUNT_IN, framed
from tickproof.generators.partitions import Chunk, Source
from tickproof.generators.spill import Spill


def read_keyed(path: Path) -> np.ndarray:
    """Return the rows as framed COUNT_IN records; raises CsvError with line and column."""
    read = Spill(framed(COUNT_IN))
    for batch in batches(path, ("key", "value")):
        key, value = parse(batch.columns["key"], 0), parse(batch.columns["value"], 0)
        batch.reject("key", key.bad, "not a whole number: {}")
        minus = key.negative & (key.value > 0)
        batch.reject("key", minus | key.huge, "expected 0 to 2**64 - 1: {}")
        batch.reject("value", value.bad, "not a whole number: {}")
        over = value.value > np.uint64(2**63 - 1) + value.negative.astype(np.uint64)
        batch.reject("value", value.huge | over, "expected -2**63 to 2**63 - 1: {}")
        batch.check()
        rows = np.empty(batch.rows, framed(COUNT_IN))
        rows["size"] = COUNT_IN.itemsize
        rows["payload"]["key"] = key.value
        rows["payload"]["value"] = np.where(value.negative, 0 - value.value, value.value).view("i8")
        read.append(rows)
    return read.array()


def csv_source(recipe: dict[str, Any]) -> Source:
    """Return the source of a keyed-csv recipe."""
    path = Path(recipe["path"])
    found = checked_sha256(path, recipe["sha256"])
    rows = read_keyed(path)

    def chunk(start: int, stop: int) -> Chunk:
        return Chunk(rows[start:stop], keys=rows["payload"]["key"][start:stop])

    return Source(len(rows), (rows.dtype,), chunk, recipe={"sha256": found})
