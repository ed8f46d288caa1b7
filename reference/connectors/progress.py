"""RELEASE after the batch is committed, and knowing how far that is.

Spark calls ``commit`` of a source only when it plans the next batch, which on a quiet stream
may be never. A query listener hears of each batch right after it was written to the
commit log: from then on no restart goes below it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from operator import methodcaller
from pathlib import Path

from pyspark.sql.streaming.listener import StreamingQueryListener

from tickproof.reference.connectors.source import persistently

Offsets = dict[str, int]


class CheckpointError(ValueError):
    """A checkpoint that this application cannot go on from."""


class Progress(StreamingQueryListener):
    """Releases what the next query that starts has committed, and knows how far that is.

    log: host, port, token. ``committed``: offset by "STREAM/PARTITION"; once the query has
    started, it has what the checkpoint says.
    """

    def __init__(self, log: Mapping[str, str], checkpoint: Path) -> None:
        self._log = log
        self._checkpoint = checkpoint
        self._changed = threading.Condition()
        self._query = None
        self.committed: Offsets = {}
        #: A death between the commit log and RELEASE: it is made good when the query starts, for
        #: until then nobody has looked whose checkpoint this is.
        self._unreleased = _offsets(checkpoint, _newest(checkpoint / "commits"))

    def onQueryProgress(self, event) -> None:
        """Release every partition that moved; an earlier query of the session may still report."""
        if event.progress.id != self._query:
            return
        for source in event.progress.sources:
            self._release(json.loads(source.endOffset))

    def _release(self, offsets: Offsets) -> None:
        for name, offset in offsets.items():
            if offset > self.committed.get(name, 0):
                stream, partition = map(int, name.split("/"))
                release = methodcaller("release", stream, partition, offset)
                persistently(self._log, release)
                self.committed[name] = offset
        with self._changed:
            self._changed.notify_all()

    def planned(self) -> Offsets:
        """Return the end of the newest batch that was planned."""
        return _offsets(self._checkpoint, _newest(self._checkpoint / "offsets"))

    def wait(self, seconds: float) -> None:
        """Wait for the next batch, so long at most."""
        with self._changed:
            self._changed.wait(seconds)

    def onQueryStarted(self, event) -> None:
        """Listen to this query alone: Spark calls this before the query does anything."""
        if self._query is None:
            self._query = event.id
            self._release(self._unreleased)

    def onQueryIdle(self, event) -> None:
        """Nothing new."""

    def onQueryTerminated(self, event) -> None:
        """Nothing more."""


def _newest(log: Path) -> int:
    """Return the newest batch id in one of Spark's logs, -1 where there is none."""
    names = [entry.name for entry in log.iterdir()] if log.is_dir() else []
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def _offsets(checkpoint: Path, batch: int) -> Offsets:
    """Return where a batch ends: of its file, a version, metadata, then a line a source."""
    if batch < 0:
        return {}
    path = checkpoint / "offsets" / str(batch)
    try:
        lines = path.read_text().splitlines()[2:]
        return {name: at for line in lines for name, at in json.loads(line).items()}
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: expected a line of offsets a source: {error}") from error
