"""The five words: Computation, StateComputation, Source, Sink, Pipeline."""

from reference.api.words import (  # noqa: F401
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
