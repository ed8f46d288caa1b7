"""Whose checkpoint it is: what the source writes into each of its offsets."""

from __future__ import annotations

from collections.abc import Mapping

from tickproof.reference.api import Application, PipelineError
from tickproof.reference.api.layouts import kind
from tickproof.reference.connectors.source import Facts


def facts(application: Application, partitions: Mapping[int, int], **more: int) -> Facts:
    """Return what is fixed for the life of a checkpoint.

    Spark would take one of another application and fail later, or not at all. more: what else is
    fixed. PipelineError for a stream without partitions.
    """
    streams = [pipeline.source.stream for pipeline in application.pipelines]
    if missing := {*streams} - {*partitions}:
        raise PipelineError(f"{application.name}: streams {missing}: expected their partitions")
    stages = list(enumerate(application.keys, 1))
    layout = application.pipelines[0].layout  # all have the same keys, of the same types
    states = [state for stage, _ in stages for state in application.states(stage)]
    lists = {
        "pipelines": [f"{p.name} of stream {p.source.stream}" for p in application.pipelines],
        "keys": [f"{key} {kind(layout(stage), key)}" for stage, key in stages],
        "state": [f"{state.name} {state.layout.descr}" for state in states],
        "partitions": [f"{partitions[stream]} of stream {stream}" for stream in streams],
    }
    joined = {what: ", ".join(values) for what, values in lists.items()}
    return {"application": application.name, **joined, **more}
