"""What an application is made of: the words, and how they are put together."""

from tickproof.reference.api.words import (
    Application,
    Computation,
    Pipeline,
    PipelineError,
    Sink,
    Source,
    State,
    StateComputation,
    Timer,
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
    "Timer",
]
