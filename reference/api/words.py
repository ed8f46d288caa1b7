"""What a stream application is made of, checked when it is put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tickproof.reference.api.layouts import Layout


class PipelineError(ValueError):
    """An application that cannot be compiled; the text says what was expected."""


def on_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a computation's function: it takes an array of records and not one record."""
    function.on_arrays = True  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True)
class Source:
    """Records of one input stream.

    decoder: layout of a record; None takes records of any size as they are.
    check: raises BadRecord for an array that holds a record that makes no sense.
    dead_letters: a folder for records that the decoder refuses. None: the first ends the run.
    """

    stream: int
    decoder: Layout | None = None
    check: Callable[[np.ndarray], None] | None = None
    dead_letters: str | None = None


@dataclass(frozen=True)
class Sink:
    """Records for one output stream; encoder: layout of a record, None as for Source."""

    stream: int
    encoder: Layout | None = None


@dataclass(frozen=True)
class Computation:
    """A stateless step: ``function(record)`` returns a tuple of ``out``'s fields, or None.

    On arrays: ``function(records)`` returns records of layout ``out``.
    """

    name: str
    function: Callable[..., Any]
    out: Layout


@dataclass(frozen=True)
class State:
    """State that is independent for each key; its size must not grow with the input.

    layout: fields of one key's state; they begin as zeros.
    """

    name: str
    layout: Layout


@dataclass(frozen=True)
class StateComputation:
    """A step with state: ``function(record, state)`` changes the state of its key.

    It returns a tuple of ``out``'s fields, or None. ``key`` names a u64 field of the record.
    On arrays: ``function(records, rows, states)``, where the state of record i is
    ``states[rows[i]]``, returns outputs; records of one key come in log order.

    combine: ``combine(records)`` returns (rest, outputs) such that outputs, and what the step
    makes of the rest alone, is what the step makes of all; the state ends up the same. It
    runs where the records are read, so that only the rest travels.
    """

    name: str
    state: State
    key: str
    function: Callable[..., Any]
    out: Layout | None = None
    combine: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None


Step = Computation | StateComputation


@dataclass(frozen=True)
class Pipeline:
    """A source, computations, and a sink (or none, where records only change state)."""

    name: str
    source: Source
    steps: tuple[Step, ...] = ()
    target: Sink | None = None

    def to(self, step: Step) -> Pipeline:
        """Return this pipeline with one more computation."""
        return replace(self, steps=(*self.steps, step))

    def into(self, sink: Sink) -> Pipeline:
        """Return this pipeline with its sink."""
        return replace(self, target=sink)

    @property
    def stateful(self) -> StateComputation | None:
        """The computation with state, if there is one."""
        return next((s for s in self.steps if isinstance(s, StateComputation)), None)

    @property
    def before(self) -> tuple[Computation, ...]:
        """The computations before the one with state; all of them where there is none."""
        stateful = self.stateful
        return self.steps[: self.steps.index(stateful)] if stateful else self.steps  # type: ignore

    @property
    def before_state(self) -> Layout | None:
        """The layout of a record when the computations before the state are done."""
        return self.before[-1].out if self.before else self.source.decoder

    @property
    def after(self) -> tuple[Computation, ...]:
        """The computations after the one with state."""
        stateful = self.stateful
        return self.steps[self.steps.index(stateful) + 1 :] if stateful else ()  # type: ignore


@dataclass(frozen=True)
class Application:
    """Pipelines that run together; those with state share one State, and there is one sink.

    In a micro-batch the pipelines of a shared state are taken in their order here: first all
    quotes, say, then all orders. That makes the answer to a batch a function of the batch.
    """

    name: str
    pipelines: Sequence[Pipeline] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        if not self.pipelines:
            raise PipelineError(f"{self.name}: expected at least one pipeline")
        sinks = {p.target for p in self.pipelines if p.target}
        if len(sinks) != 1:
            raise PipelineError(f"{self.name}: expected one sink, got {len(sinks)}")
        for pipeline in self.pipelines:
            self._check(pipeline)
        states = {p.stateful.state.name for p in self.pipelines if p.stateful}
        if len(states) > 1 or (states and not all(p.stateful for p in self.pipelines)):
            raise PipelineError(f"{self.name}: expected one state for all pipelines, got {states}")
        keys = {p.stateful.key for p in self.pipelines if p.stateful}
        if len(keys) > 1:
            raise PipelineError(f"{self.name}: expected one name of the key, got {sorted(keys)}")

    def _check(self, pipeline: Pipeline) -> None:
        where = f"{self.name}, pipeline {pipeline.name}"
        if sum(isinstance(step, StateComputation) for step in pipeline.steps) > 1:
            raise PipelineError(f"{where}: expected at most one computation with state")
        layout = pipeline.source.decoder
        for step in pipeline.steps:
            if layout is None:
                raise PipelineError(f"{where}: {step.name} needs a decoder in front of it")
            if isinstance(step, StateComputation) and (step.key, "<u8") not in layout.descr:
                raise PipelineError(f"{where}: {step.name}: expected a u64 field {step.key!r}")
            layout = step.out
        if pipeline.target and pipeline.target.encoder != layout:
            raise PipelineError(f"{where}: the sink takes {pipeline.target.encoder}, got {layout}")

    @property
    def sink(self) -> Sink:
        """The one sink."""
        return next(p.target for p in self.pipelines if p.target)

    @property
    def state(self) -> State | None:
        """The one state, if there is one."""
        return next((p.stateful.state for p in self.pipelines if p.stateful), None)

    @property
    def key(self) -> str | None:
        """The field that is the key of the state, if there is one."""
        return next((p.stateful.key for p in self.pipelines if p.stateful), None)
