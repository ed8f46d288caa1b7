"""What numba computes as numpy does: a function is compiled if it does nothing else.

A function means what Python makes of numpy's scalars. numba differs in places: there an int32
plus an int32 is an int64, and a u64 plus the number 1 a float. So each operation of what numba
made of a function is looked up here, by the types that it has.
"""

from __future__ import annotations

import operator as op
from collections.abc import Mapping
from typing import Any

from numba.core import ir, types
from numba.np.numpy_support import from_dtype as type_of

from tickproof.reference.api.layouts import Layout, fields
from tickproof.reference.compiler.loops import Refused, Result

__all__ = ["expect_same", "result_of", "type_of"]

_WIDE = {types.int64, types.uint64, types.float64}
_COMPARED = {op.eq, op.ne, op.lt, op.le, op.gt, op.ge}
_BITS = {op.and_, op.or_, op.xor}
_ROUND = {op.add, op.sub, op.mul}
_WHOLE = {op.floordiv, op.mod}
_FUNCTIONS = {abs, min, max, bool}
#: What a value may be; no range, no text, and no generator: there numba gives it a copy of the
#: state. A list can only be returned.
_VALUES = (
    types.Number, types.Boolean, types.Record, types.CharSeq, types.BaseTuple, types.NoneType,
    types.Optional, types.Module, types.NumberClass, types.NamedTupleClass, types.Dispatcher,
    types.Function, types.ExceptionClass, types.ExceptionInstance, types.StringLiteral,
    types.List,
)  # fmt: skip
#: Expressions that only hand on what there is.
_HANDED_ON = {"getattr", "build_tuple", "build_list", "static_getitem", "exhaust_iter"}


def expect_same(name: str, typed: Any) -> None:
    """Raise Refused for the first thing in a function that is not known to be the same.

    typed: numba's TypeAnnotation of the function.
    """
    for block in typed.blocks.values():
        for statement in block.body:
            why = _statement(statement, typed.typemap, typed.calltypes)
            if why:
                raise Refused(f"{name}, line {statement.loc.line}: {why}")


def result_of(body: Any, out: Layout) -> Result:
    """Return what a compiled function returns; Refused if the layout does not hold it as it is."""
    name, (overload,) = body.__name__, body.overloads.values()
    made = overload.signature.return_type
    if made == types.none:
        return Result("none")
    form: Any = "one"
    names: tuple[str, ...] = ()
    parts: list[types.Type] = []
    if isinstance(made, types.Optional):
        form, made = "optional", made.type
    elif isinstance(made, types.List):
        form, made = "many", made.dtype
    if isinstance(made, types.Record):
        names, parts = tuple(made.fields), [made.typeof(name) for name in made.fields]
    elif isinstance(made, types.BaseTuple):
        names, parts = getattr(made, "fields", ()), list(iter(made))  # type: ignore[call-overload]
    # numba knows the parts of what may be None by name only.
    if not parts or (form == "optional" and not names):
        raise Refused(f"{name}: expected a named tuple, got {made}")
    if len(parts) != len(fields(out)):
        raise Refused(f"{name}: expected {', '.join(fields(out))}, got {made}")
    for field, type_ in zip(fields(out), parts, strict=True):
        if not _held(type_, type_of(out[field])):
            raise Refused(f"{name}: {field}: expected {out[field]}, got {type_}")
    return Result(form, names)


def _statement(
    statement: ir.Stmt, kinds: Mapping[str, types.Type], calls: Mapping[Any, Any]
) -> str | None:
    """Return what in a statement is not known to be the same."""
    if isinstance(statement, ir.Assign):
        value, made = statement.value, kinds[statement.target.name]
        if not isinstance(made, _VALUES):
            return f"{made}"
        if isinstance(value, ir.Expr):
            return _expression(value, kinds, made)
        if isinstance(value, ir.Var):
            return _kept_as([kinds[value.name]], made)
        return None
    if isinstance(statement, ir.SetAttr):
        record, value = kinds[statement.target.name], kinds[statement.value.name]
        if not isinstance(record, types.Record):
            return f"an attribute of {record}"
        field = record.typeof(statement.attr)
        return None if _held(value, field) else f"{statement.attr}: expected {field}, got {value}"
    if isinstance(statement, ir.Terminator | ir.Del):
        return None
    return f"{statement}"


def _expression(value: ir.Expr, kinds: Mapping[str, types.Type], made: types.Type) -> str | None:
    """Return what in an expression is not known to be the same; made: the type of its result."""
    of = [kinds[var.name] for var in value.list_vars()]
    match value.op:
        case "binop" | "inplace_binop":
            function = value.fn if value.op == "binop" else value.immutable_fn
            if _binary(function, of[0], of[1], made):
                return None
            return f"{function.__name__} of {of[0]} and {of[1]}"
        case "unary":
            function = value.fn
            same = function is op.not_ or (
                function is op.neg and of[0] == made and made in (types.int64, types.float64)
            )
            return None if same else f"{function.__name__} of {of[0]}"
        case "call":
            called = kinds[value.func.name]
            given = [kinds[var.name] for var in value.args]
            plain = not (value.kws or value.vararg)
            return None if plain and _called(called, given, made) else f"a call of {called}"
        case "phi" | "cast":
            return _kept_as(of, made)
        case "static_getitem" if not isinstance(of[0], types.BaseTuple):
            return f"an index of {of[0]}"
    return None if value.op in _HANDED_ON else f"{value.op}"


def _binary(function: Any, left: types.Type, right: types.Type, made: types.Type) -> bool:
    if function in (op.is_, op.is_not):
        return types.none in (left, right)
    one = _common(left, right)
    if function in _COMPARED:
        # All whole numbers are compared by value, signed or not.
        return one in _WIDE or all(_whole(type_) for type_ in (left, right))
    if function in _BITS and one == types.boolean:
        return made == types.boolean
    if one not in _WIDE:
        return False
    if function is op.truediv:
        return made == types.float64
    if function is op.floordiv and one == types.int64 and not _safe_divisor(right):
        return False
    if function in _BITS | _WHOLE:
        return made == one != types.float64
    return function in _ROUND and made == one


def _safe_divisor(right: types.Type) -> bool:
    """Tell of a divisor that it is a number in the text, and not -1.

    The lowest int64 divided by -1 does not fit: numpy gives the lowest again, numba 0.
    """
    return isinstance(right, types.Literal) and right.literal_value != -1


def _common(left: types.Type, right: types.Type) -> types.Type | None:
    """Return the type of two operands, None for two types.

    A number in the text takes the type of what it meets. numba takes it for an int64.
    """
    if isinstance(left, types.Literal):
        left, right = right, left
    if not isinstance(right, types.Literal):
        return left if left == right else None
    if left == types.float64 and abs(right.literal_value) <= 2**53:
        return left
    return left if left == _plain(right) else None


def _called(called: types.Type, given: list[types.Type], made: types.Type) -> bool:
    if isinstance(called, types.NamedTupleClass | types.Dispatcher | types.ExceptionClass):
        return True
    if isinstance(called, types.NumberClass) and len(given) == 1:
        (value,), number = given, called.instance_type
        if number == types.float64:
            return isinstance(value, types.Number | types.Boolean)
        if not _whole(value) or not isinstance(number, types.Integer):
            return False
        if isinstance(value, types.Boolean | types.Literal):
            return _held(value, number)
        return bool(value.bitwidth <= number.bitwidth)  # type: ignore[attr-defined]
    if not isinstance(called, types.Function) or called.typing_key not in _FUNCTIONS:
        return False
    if called.typing_key is bool:
        return all(isinstance(value, types.Number | types.Boolean) for value in given)
    numbers = {types.int64, types.uint64}
    return set(given) <= numbers and {made} == set(given)


def _kept_as(sources: list[types.Type], made: types.Type) -> str | None:
    """Return which of the values that a variable gets does not stay as it is."""
    kept = {made, made.type, types.none} if isinstance(made, types.Optional) else {made}
    other = [source for source in sources if not {source, _plain(source)} & kept]
    return f"{other[0]} and {made} in one variable" if other else None


def _held(value: types.Type, field: types.Type) -> bool:
    """Return whether a field takes every such value as it is."""
    if isinstance(value, types.Boolean):
        return isinstance(field, types.Integer)
    if isinstance(value, types.IntegerLiteral) and isinstance(field, types.Integer):
        return field.minval <= value.literal_value <= field.maxval
    return bool(value == field)


def _plain(type_: types.Type) -> types.Type:
    """Return the type of a number that stands in the text, else the type."""
    return types.unliteral(type_)


def _whole(type_: types.Type) -> bool:
    return isinstance(type_, types.Integer | types.Boolean)
