"""The checkpoint of a query of Structured Streaming: how far its committed batches have come."""

from __future__ import annotations

import json
from collections.abc import Set
from pathlib import Path


def handled(folder: Path, topics: Set[str]) -> int:
    """Return the sum of the offsets, over all partitions of topics, that end the last batch.

    It counts only batches whose output is there; 0 before the first. What cannot be read, because
    Spark is about to write or remove it, counts as 0 too.
    """
    try:
        batches = [int(one.name) for one in (folder / "commits").iterdir() if one.name.isdecimal()]
        if not batches:
            return 0
        text = (folder / "offsets" / str(max(batches))).read_text("utf-8")
        # Version; time and settings; then a line for each source.
        sources = [json.loads(line) for line in text.splitlines()[2:] if line.startswith("{")]
        return sum(
            offset
            for source in sources
            for topic in topics & source.keys()
            for offset in source[topic].values()
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return 0
