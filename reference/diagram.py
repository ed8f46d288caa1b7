"""An application as a picture: text for a terminal, Mermaid for a document."""

from __future__ import annotations

from collections.abc import Iterator

from tickproof.reference.api.words import Application, Pipeline, Sink, StateComputation, Step


def _steps(pipeline: Pipeline) -> Iterator[tuple[Step | Sink, str]]:
    """Return the steps and sinks, each with its state and key, if it has one."""
    for stage in pipeline.stages:
        for step in stage.steps:
            if isinstance(step, StateComputation):
                yield step, f"{step.state.name} by {stage.key}"
            else:
                yield step, ""


def text(application: Application) -> str:
    """Return one line a pipeline; a state that several share shows the same name."""
    lines = [application.name]
    for pipeline in application.pipelines:
        parts = [f"source {pipeline.source.stream}"]
        for step, state in _steps(pipeline):
            name = f"sink {step.stream}" if isinstance(step, Sink) else step.name
            parts.append(f"{name} [{state}]" if state else name)
        lines.append(f"  {pipeline.name}: " + " -> ".join(parts))
    return "\n".join(lines)


def mermaid(application: Application) -> str:
    """Return a Mermaid flowchart."""
    lines = ["flowchart LR"]
    states: dict[str, str] = {}
    for number, pipeline in enumerate(application.pipelines):
        at = f"source{pipeline.source.stream}[/source {pipeline.source.stream}/]"
        for place, (step, state) in enumerate(_steps(pipeline)):
            if isinstance(step, Sink):
                lines.append(f"    {at} --> sink{step.stream}[\\sink {step.stream}\\]")
                continue
            node = f"p{number}s{place}[{step.name}]"
            lines.append(f"    {at} --> {node}")
            at = node.partition("[")[0]
            if state:
                name = states.setdefault(state, f"state{len(states) or ''}")
                lines.append(f"    {at} <-.-> {name}[({state})]")
    return "\n".join(lines)
