"""A function on one record, compiled to a loop over many: the same results, far faster.

numba compiles it, if all that it does is known to be the same on numba's numbers and on numpy's
scalars, which the function gets without it (`same`). Else it runs as Python. So do the first
records of a process: they are done before numba has started.
"""

from __future__ import annotations

import dis
import inspect
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Literal

import numpy as np

from tickproof.reference.api import StateComputation
from tickproof.reference.api.layouts import Layout, fields, new
from tickproof.reference.api.words import Step

#: So many are done as Python first: it does some 200,000 a second, and numba needs about a second
#: to start.
FEW = 100_000
#: What a loop returns that has more outputs than there is room for.
TOO_MANY = -1


class Refused(Exception):
    """Why a function runs as Python: what it does, and in which line."""


@dataclass(frozen=True)
class Result:
    """What a function returns: one output, "none", "optional" or "many"; names of its tuple."""

    form: Literal["none", "one", "optional", "many"]
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Loop:
    """A step's function over many records of one layout; ``run`` as `_source` has it."""

    run: Callable[..., int]
    out: Layout

    def __call__(self, records: np.ndarray, *keyed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (outputs, for each the index of its record); states change in place.

        keyed: rows and states; the state of record i is ``states[rows[i]]``. Raises what the
        function raises, and leaves the states as they were.
        """
        room, count = len(records), TOO_MANY
        rows, states = keyed or (np.empty(0, np.int64), np.empty(0, self.out))
        before = states.copy()
        while count == TOO_MANY:
            made, origins = new(room, self.out), np.empty(room, np.int64)
            tables = [table.view(_named(table.dtype)) for table in (records, states, made)]
            try:
                count = self.run(rows, *tables, origins)
            finally:
                if count == TOO_MANY:
                    states[:] = before
            room = 2 * room + 1
        return made[:count], origins[:count]


def loop_of(step: Step, records: np.ndarray) -> Loop | None:
    """Return the loop for these records, None as long as the function runs as Python."""
    try:
        key = _key(step, records.dtype)
        _in_python[key] += len(records)
        return _loop(key) if _in_python[key] > FEW else None
    except Refused:
        return None


def compiled(step: Step, records: Layout) -> Loop:
    """Compile a step's function for records of a layout, once in a process.

    Refused says why it runs as Python.
    """
    return _loop(_key(step, records))


#: A function and the layouts of records, state and output: what a loop is made of.
_Key = tuple["Function", Layout, Layout | None, Layout]
#: How many records a function did before its loop was made.
_in_python: Counter[_Key] = Counter()


@dataclass(frozen=True)
class Function:
    """A function with all that it means: equal to another copy, as Spark makes for each task."""

    code: CodeType
    #: What its code names outside itself: functions, and numbers by their text.
    named: tuple[tuple[str, object], ...]
    given: FunctionType = field(compare=False)

    @classmethod
    def of(cls, function: Callable, callers: tuple[Callable, ...] = ()) -> Function:
        """Take a function apart; Refused if it is not plain, or calls itself."""
        if not isinstance(function, FunctionType) or function in callers:
            raise Refused(f"{function!r} is no plain function, or calls itself")
        # By its instructions: among the names of its code are those of attributes, too.
        loaded = {one.argval for one in dis.get_instructions(function) if "GLOBAL" in one.opname}
        outside = function.__globals__
        found = {name: outside[name] for name in loaded & outside.keys()}
        inner = inspect.getclosurevars(function).nonlocals
        if any(isinstance(value, FunctionType) for value in inner.values()):
            raise Refused(f"{function.__name__} calls a function within another")
        found |= inner
        found |= {f"default {n}": value for n, value in enumerate(function.__defaults__ or ())}
        if function.__kwdefaults__:
            raise Refused(f"{function.__name__} has arguments by name")
        parts = ((name, _part(name, found[name], (*callers, function))) for name in sorted(found))
        return cls(function.__code__, tuple(parts), function)

    def ready(self, made: list[Any]) -> Any:
        """Return it for numba, after all that it calls, which go into ``made``, too."""
        import numba

        old = self.given
        named = {n: part.ready(made) for n, part in self.named if isinstance(part, Function)}
        copy = FunctionType(
            old.__code__, old.__globals__ | named, old.__name__, old.__defaults__, old.__closure__
        )
        made.append(numba.njit(copy))
        return made[-1]


def _part(name: str, value: object, callers: tuple[Callable, ...]) -> object:
    if isinstance(value, FunctionType):
        return Function.of(value, callers)
    if value is None or isinstance(value, bool | int | float | np.generic):
        return repr(value)
    if isinstance(value, type | ModuleType | BuiltinFunctionType):
        return value
    raise Refused(f"{name} is {value!r}: no number, function or class")


@lru_cache(maxsize=64)
def _key(step: Step, records: Layout) -> _Key:
    state = None
    if isinstance(step, StateComputation):
        state = step.state.layout
        if step.timer:
            raise Refused(f"{step.name} has a timer")
    return Function.of(step.function), records, state, step.out or records


def _loop(key: _Key) -> Loop:
    if isinstance(made := _compiled(*key), Refused):
        raise made
    return made


@cache
def _compiled(
    function: Function, records: Layout, state: Layout | None, out: Layout
) -> Loop | Refused:
    """Return the loop; a refusal, too, is found once."""
    try:
        import numba
        from numba.core.errors import NumbaError
    except ImportError as error:  # Python would look for it again each time
        return Refused(f"numba cannot be imported: {error}")

    from tickproof.reference.compiler.same import expect_same, result_of, type_of

    given = tuple(type_of(_named(layout)) for layout in (records, state) if layout is not None)
    parts: list[Any] = []
    try:
        body = function.ready(parts)
        body.compile(given)
        for part in parts:
            for overload in part.overloads.values():
                expect_same(part.__name__, overload.type_annotation)
        result = result_of(body, out)
    except Refused as error:
        return error
    except NumbaError as error:
        text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines()
        return Refused(f"{function.code.co_name}: numba: {' '.join(text[:2])}")
    names: dict[str, Any] = {"function": body}
    exec(_source(result, out, state is not None), names)
    return Loop(numba.njit(names["run"]), out)


@cache
def _named(layout: Layout) -> Layout:
    """Return the same records without what functions do not see: size and padding."""
    names = fields(layout)
    offsets = [layout.fields[name][1] for name in names]
    kinds = [layout[name] for name in names]
    return np.dtype(
        {"names": names, "formats": kinds, "offsets": offsets, "itemsize": layout.itemsize}
    )


def _source(result: Result, out: Layout, with_state: bool) -> str:
    """Return a loop that applies ``function`` and writes what it returns into ``made``."""
    call = f"function(records[i]{', states[rows[i]]' if with_state else ''})"
    parts = [f".{n}" for n in result.names] or [f"[{n}]" for n in range(len(fields(out)))]
    write = [f"made[n][{f!r}] = out{p}" for f, p in zip(fields(out), parts, strict=True)]
    write += ["origins[n] = i", "n += 1"]
    match result.form:
        case "none":
            lines = [call]
        case "one":
            lines = [f"out = {call}", *write]
        case "optional":
            lines = [f"out = {call}", "if out is not None:", *map("    {}".format, write)]
        case "many":
            full = f"if n == len(made): return {TOO_MANY}"
            lines = [f"for out in {call}:", *map("    {}".format, (full, *write))]
    body = "\n        ".join(lines)
    return f"""
def run(rows, records, states, made, origins):
    n = 0
    for i in range(len(records)):
        {body}
    return n
"""
