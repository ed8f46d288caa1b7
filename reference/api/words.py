"""What a stream application is made of, checked when it is put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from tickproof.reference.api.layouts import Layout, fields, kind

#: The record, and the state, that a function is written for.
R = TypeVar("R", contravariant=True)
S = TypeVar("S", contravariant=True)
#: What becomes of a record: the fields of one output, many outputs, or none.
Result = tuple[object, ...] | Iterable[tuple[object, ...]] | None


class PipelineError(ValueError):
    """An application that cannot be compiled; the text says what was expected."""


@dataclass(frozen=True)
class Source:
    """Records of one input stream.

    decoder: layout of a record; None takes records, of one size, as they are.
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
class Computation(Generic[R]):
    """A step without state: ``function(record)`` returns a tuple of ``out``'s fields.

    Or an iterable of such tuples, or None.
    """

    name: str
    function: Callable[[R], Result]
    out: Layout


@dataclass(frozen=True)
class State:
    """State that is independent for each key; its size must not grow with the input.

    layout: fields of one key's state; they begin as zeros.
    """

    name: str
    layout: Layout

    def __post_init__(self) -> None:
        names = list(self.layout.names or ())
        taken = [name for name in names if name.startswith("_") or hasattr(np.record, name)]
        if taken or not names or names != fields(self.layout):
            raise PipelineError(
                f"state {self.name}: expected fields, none of them padding, or named with an "
                f"underscore in front or like an attribute of numpy.record, got {names}"
            )


@dataclass(frozen=True)
class Timer(Generic[R, S]):
    """A moment for which a key waits, told by the key's own records and by no clock.

    due: field of the state with the moment, 0 while there is none. time: field of the record
    that tells the time, of the same type. Before the first record of the key whose time is
    not before ``due``, ``function(record, state)`` gives outputs, and ``due`` is 0 again.
    """

    due: str
    time: str
    function: Callable[[R, S], Result]


@dataclass(frozen=True)
class StateComputation(Generic[R, S]):
    """A step with state: ``function(record, state)`` changes the state of the record's key.

    It returns what the function of a Computation does. only_last: of a key's outputs in a
    micro-batch only the last.

    replaces: tells of an array of records which of them replace the state, whatever it was, and
    give no output; all others must leave it as it is. Then what follows such a record of its key
    is decided where it is read, and only the rest travels.
    """

    name: str
    state: State
    function: Callable[[R, S], Result]
    out: Layout | None = None
    replaces: Callable[[np.ndarray], np.ndarray] | None = None
    only_last: bool = False
    timer: Timer[R, S] | None = None


Step = Computation | StateComputation


@dataclass(frozen=True)
class Stage:
    """Steps that run in one place: where records are read, or where those of a key meet."""

    key: str | None = None
    steps: tuple[Step | Sink, ...] = ()


@dataclass(frozen=True)
class Pipeline:
    """A source, and in stages its keys, steps and sinks; with none, records only change state."""

    name: str
    source: Source
    stages: tuple[Stage, ...] = (Stage(),)

    def by(self, key: str) -> Pipeline:
        """Return this pipeline with its records brought together by a field.

        The steps that follow, up to the next ``by``, have a state for each key.
        """
        return replace(self, stages=(*self.stages, Stage(key)))

    def to(self, step: Step) -> Pipeline:
        """Return this pipeline with one more step."""
        return self._with(step)

    def into(self, sink: Sink) -> Pipeline:
        """Return this pipeline with one more sink; what is in front of it may go on, too."""
        return self._with(sink)

    def _with(self, step: Step | Sink) -> Pipeline:
        *before, last = self.stages
        return replace(self, stages=(*before, replace(last, steps=(*last.steps, step))))

    def layout(self, stage: int) -> Layout | None:
        """Return the layout of a record in front of a stage."""
        steps = (step for stage in self.stages[:stage] for step in stage.steps)
        layout = self.source.decoder
        for step in steps:
            layout = layout if isinstance(step, Sink) else step.out
        return layout


@dataclass(frozen=True)
class Application:
    """Pipelines that run together, with the same keys; a state is shared by its name.

    In a micro-batch the pipelines are taken in their order here: first all quotes, say, then
    all orders. That makes the answer to a batch a function of the batch and the state before it.
    """

    name: str
    pipelines: Sequence[Pipeline] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        pipelines = self.pipelines
        self._expect(pipelines, "at least one pipeline")
        for distinct in ({p.name for p in pipelines}, {p.source.stream for p in pipelines}):
            self._expect(
                len(distinct) == len(pipelines), "a name and a stream of its own for each pipeline"
            )
        for pipeline in pipelines:
            for number, stage in enumerate(pipeline.stages):
                _check(f"{self.name}, pipeline {pipeline.name}", pipeline, number, stage)
        streams = [sink.stream for sink in self.sinks]
        self._expect(streams, "a sink")
        self._expect(
            len(set(streams)) == len(streams), f"one encoder for a stream, got {self.sinks}"
        )
        keys = {
            tuple((s.key, kind(p.layout(n), s.key)) for n, s in enumerate(p.stages) if s.key)
            for p in pipelines
        }
        self._expect(len(keys) == 1, f"the same keys in all pipelines, got {keys}")
        states = [s.name for stage in range(len(self.keys) + 1) for s in self.states(stage)]
        self._expect(
            len(set(states)) == len(states),
            f"one layout and one key for each state, got {', '.join(states)}",
        )

    def _expect(self, holds: object, text: str) -> None:
        if not holds:
            raise PipelineError(f"{self.name}: expected {text}")

    @property
    def sinks(self) -> list[Sink]:
        """The sinks, each once."""
        steps = (step for p in self.pipelines for step in p.stages[-1].steps)
        return list(dict.fromkeys(step for step in steps if isinstance(step, Sink)))

    @property
    def keys(self) -> list[str]:
        """The key of each stage but the first."""
        return [stage.key for stage in self.pipelines[0].stages if stage.key]

    def states(self, stage: int) -> list[State]:
        """Return the states of a stage, each once."""
        steps = (step for pipeline in self.pipelines for step in pipeline.stages[stage].steps)
        return list(dict.fromkeys(s.state for s in steps if isinstance(s, StateComputation)))


def _check(where: str, pipeline: Pipeline, number: int, stage: Stage) -> None:
    """Raise PipelineError for a stage that cannot follow those before it."""

    def expect(holds: object, text: str) -> None:
        if not holds:
            raise PipelineError(f"{where}: {text}")

    layout = pipeline.layout(number)
    states: list[State] = []
    if stage.key:
        expect(
            kind(layout, stage.key)[1] in "iuS",
            f"expected a whole number or a text {stage.key!r} as key",
        )
    for step in stage.steps:
        if isinstance(step, Sink):
            expect(step.encoder == layout, f"the sink takes {step.encoder}, got {layout}")
            last = stage is pipeline.stages[-1]
            expect(last, f"expected sink {step.stream} behind the last key")
            continue
        expect(layout is not None, f"{step.name} needs a decoder in front of it")
        if isinstance(step, StateComputation):
            expect(stage.key, f"{step.name} needs a key in front of it")
            fresh = step.state not in states
            expect(fresh, f"{step.name}: expected a state that no step before it has")
            states.append(step.state)
            if step.timer:
                due, time = kind(step.state.layout, step.timer.due), kind(layout, step.timer.time)
                expect(
                    due == time and due[1] in "iuf",
                    f"{step.name}: expected a timer on numbers of one type, got {due} and {time}",
                )
        layout = step.out
    if stage.key:
        expect(states, f"expected a step with state behind key {stage.key!r}")
