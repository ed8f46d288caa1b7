"""An application as a picture: text for a terminal, Mermaid for a document."""

from __future__ import annotations

from tickproof.reference.api.words import Application, StateComputation


def text(application: Application) -> str:
    """Return one line a pipeline; a state that several share shows the same name."""
    lines = [application.name]
    for pipeline in application.pipelines:
        parts = [f"source {pipeline.source.stream}"]
        for step in pipeline.steps:
            parts.append(step.name)
            if isinstance(step, StateComputation):
                parts[-1] += f" [{step.state.name} by {step.key}]"
        if pipeline.target:
            parts.append(f"sink {pipeline.target.stream}")
        lines.append(f"  {pipeline.name}: " + " -> ".join(parts))
    return "\n".join(lines)


def mermaid(application: Application) -> str:
    """Return a Mermaid flowchart."""
    lines = ["flowchart LR"]
    for number, pipeline in enumerate(application.pipelines):
        at = f"source{pipeline.source.stream}[/source {pipeline.source.stream}/]"
        for place, step in enumerate(pipeline.steps):
            node = f"p{number}s{place}[{step.name}]"
            lines.append(f"    {at} --> {node}")
            at = node.partition("[")[0]
            if isinstance(step, StateComputation):
                lines.append(f"    {at} <-.-> state[({step.state.name} by {step.key})]")
        if pipeline.target:
            stream = pipeline.target.stream
            lines.append(f"    {at} --> sink{stream}[\\sink {stream}\\]")
    return "\n".join(lines)
