"""Whose checkpoint a folder is, written beside Spark's own files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tickproof.reference.api import Application, PipelineError
from tickproof.reference.connectors.progress import CheckpointError

#: What a checkpoint is good for.
FACTS = "application.json"


def claim(
    checkpoint: Path, application: Application, partitions: Mapping[int, int],
    form: str, more: Mapping[str, int] = {},
) -> None:  # fmt: skip
    """Write down whose checkpoint this is, or raise CheckpointError where it is another's.

    Spark would take it and fail later, or not at all. form: of the compiler. more: what else is
    fixed for the life of a checkpoint.
    """
    if missing := {p.source.stream for p in application.pipelines} - set(partitions):
        raise PipelineError(f"{application.name}: streams {missing}: expected their partitions")
    stages = range(1, len(application.keys) + 1)
    states = [state for stage in stages for state in application.states(stage)]
    now = {
        "application": application.name,
        "form": form,
        "pipelines": [f"{p.name} of stream {p.source.stream}" for p in application.pipelines],
        "keys": application.keys,
        "state": ", ".join(f"{state.name} {state.layout.descr}" for state in states),
        "partitions": [f"{count} of stream {stream}" for stream, count in partitions.items()],
        **more,
    }
    path = checkpoint / FACTS
    if not path.exists():
        checkpoint.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(now))
        aside.replace(path)
        return
    try:
        then = json.loads(path.read_text())
    except ValueError as error:
        raise CheckpointError(f"{path}: expected JSON: {error}") from error
    for what, value in now.items():
        if then.get(what) != value:
            raise CheckpointError(f"{path}: {what}: expected {value!r}, got {then.get(what)!r}")
