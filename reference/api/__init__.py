"""The five words: Computation, StateComputation, Source, Sink, Pipeline."""

from tickproof.reference.api.words import (
    Application,
    Computation,
    Pipeline,
    PipelineError,
    Sink,
    Source,
    State,
    StateComputation,
    on_arrays,
)

__all__ = [
    "Application",
    "Computation",
    "Pipeline",
    "PipelineError",
    "Sink",
    "Source",
    "State",
    "StateComputation",
    "on_arrays",
]
