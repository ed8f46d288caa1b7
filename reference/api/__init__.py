"""The five words: Computation, StateComputation, Source, Sink, Pipeline.

A computation is a plain function on one record. Marked with `on_arrays` it gets many
records at once, which is what makes it fast; both forms of a computation must agree.
"""

from reference.api.layouts import Layout, framed
from reference.api.words import (
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
    "Layout",
    "Pipeline",
    "PipelineError",
    "Sink",
    "Source",
    "State",
    "StateComputation",
    "framed",
    "on_arrays",
]
