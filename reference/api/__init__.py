"""What an application is made of: the five words, its state, and how they are put together."""

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
