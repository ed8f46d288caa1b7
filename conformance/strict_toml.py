"""Files of settings in TOML, read into a pydantic model: every mistake in the words of the file.

A model that is a `Table` converts nothing and takes no key that it does not name. What is
wrong is said as ``[table] key: expected ...; got ...``, all of it at once.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.text import shown

#: Files of settings have some kilobytes.
MAX_BYTES: Final = 1 << 20

Loc = Sequence[int | str]
AnyModel = TypeVar("AnyModel", bound=BaseModel)


class Table(BaseModel):
    """A table of a file: every key is known, and every value has its type."""

    model_config = ConfigDict(defer_build=True, strict=True, extra="forbid", frozen=True)


def load(path: Path, model: type[AnyModel]) -> AnyModel:
    """Read a file into a model; raises InvalidFile with everything that is wrong with it."""
    return validated(read(path), path, model)


def read(path: Path) -> dict[str, Any]:
    """Read the tables of a file, unchecked; raises InvalidFile where it is no TOML."""
    return parse(read_text(path), path)


def parse(text: str, path: Path) -> dict[str, Any]:
    """Return the tables of a file's text, unchecked; raises InvalidFile where it is no TOML."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidFile(path, [f"expected TOML; {shown(str(error), 300)}"]) from error


def read_text(path: Path) -> str:
    """Read a file of at most MAX_BYTES; raises InvalidFile."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) <= MAX_BYTES:
            return content.decode("utf-8")
        reason = f"expected at most {MAX_BYTES:,} bytes"
    except FileNotFoundError:
        reason = "there is no such file"
    except OSError as error:
        reason = f"expected a readable file; {error.strerror}"
    except UnicodeDecodeError as error:
        reason = f"expected UTF-8; byte {error.start} is not"
    raise InvalidFile(path, [reason])


def validated(data: Any, path: Path, model: type[AnyModel], more: Iterable[str] = ()) -> AnyModel:
    """Return the model of what a file holds.

    Raises InvalidFile with what is wrong, and with ``more``, which its reader found.
    """
    try:
        made, errors = model.model_validate(data), []
    except ValidationError as error:
        details = error.errors(include_url=False)
        made, errors = None, [_line(model, data, detail) for detail in details]
    errors += more
    if made is None or errors:
        raise InvalidFile(path, errors)
    return made


def wrong(expected: str, got: object, *loc: int | str) -> PydanticCustomError:
    """Return the error of a validator: what was expected at ``loc``, from where it stands."""
    return PydanticCustomError(
        "wrong", "{expected}", {"expected": expected, "got": got, "loc": loc}
    )


def matching(pattern: str, expected: str) -> AfterValidator:
    """Accept text that matches as a whole; ``expected`` says the pattern in words."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise wrong(expected, text)
        return text

    return AfterValidator(check)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint at the known name nearest to ``name``; nothing where none is near."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def quoted(value: object) -> str:
    """Return a value of a file as an error shows it: on one line, cut short."""
    return shown(repr(value), 80)


_KINDS: Final = {
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_BOUNDS: Final = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}


def _line(model: type[BaseModel], data: Any, detail: ErrorDetails) -> str:
    """Put one error of pydantic in the words of the file."""
    kind, value = detail["type"], detail["input"]
    loc = tuple(part for part in detail["loc"] if part != "[key]")  # it marks a key, not a value
    context: Mapping[str, Any] = detail.get("ctx", {})
    if kind == "wrong":
        loc, value = (*loc, *context["loc"]), context["got"]
    where = _where(model, data, loc, kind == "extra_forbidden" and isinstance(value, dict))
    if kind == "missing":
        return f"{where}: missing"
    if kind == "extra_forbidden":
        table = _model_at(model, loc[:-1])
        known = list(_fields(table)) if table else []
        hint = did_you_mean(str(loc[-1]), known)
        expected = _known_keys(model, loc[:-1], known, table_only=isinstance(value, dict))
        return f"{where}: unknown key; expected {expected}{hint}"
    expected = f"expected {_expected(kind, context, value) or detail['msg']}; got {quoted(value)}"
    return f"{where}: {expected}" if where else expected


def _expected(kind: str, context: Mapping[str, Any], value: object) -> str | None:
    if kind == "wrong":
        return shown(context["expected"], 300)
    if kind == "literal_error":
        return _one_of(context["expected"].replace(" or ", ", ").replace("'", "").split(", "))
    if kind in _BOUNDS:
        word, key = _BOUNDS[kind]
        return f"a number {word} " + f"{context[key]:,}".removesuffix(".0")
    if kind == "string_too_long":
        return f"at most {context['max_length']} characters"
    if kind == "too_short":
        return f"a {'table' if isinstance(value, dict) else 'list'} that is not empty"
    if kind == "too_long":
        return f"at most {context['max_length']} entries"
    return _KINDS.get(kind)


def _one_of(choices: Sequence[str]) -> str:
    return "one of " * (len(choices) > 1) + ", ".join(choices)


def _where(model: type[BaseModel], data: Any, loc: Loc, is_table: bool) -> str:
    """Say where something stands: "[apps.count] emit[0]", "[[fault]] 2: at", "[limits]"."""
    entry, names, index = "", list[str](), ""
    for at, part in enumerate(loc):
        if isinstance(part, str):
            names.append(shown(part, 80))
        elif _model_at(model, loc[:at]):
            entry, names = f"[[{'.'.join(names)}]] {_entry(data, loc[: at + 1])}", []
        else:
            index += f"[{part}]"
    if entry:
        return ": ".join([entry, ".".join(names) + index]) if names else entry
    annotation = _annotation_at(model, loc)
    if index or not (is_table or _model_of(annotation) or _origin(annotation) is dict):
        table, key = ".".join(names[:-1]), "".join(names[-1:])
    else:
        table, key = ".".join(names), ""
    if not table:
        return key + index
    brackets = "[[{}]]" if not key and _origin(annotation) is list else "[{}]"
    return f"{brackets.format(table)} {key}{index}".rstrip()


def _entry(data: Any, loc: Loc) -> str:
    """Name an entry of an array of tables: by its id, where it has one, else by its number."""
    for part in loc:
        data = data[part]
    id_ = data.get("id") if isinstance(data, dict) else None
    return shown(id_, 80) if isinstance(id_, str) else str(int(loc[-1]) + 1)


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the keys of a table as the file has them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _annotation_at(model: type[BaseModel], loc: Loc) -> Any:
    """Return the type of what belongs at a place, None where nothing does."""
    annotation: Any = model
    for part in loc:
        if isinstance(part, str):
            table = _model_of(annotation)
            field = _fields(table).get(part) if table else None
            annotation = field.annotation if field else None
    return annotation


def _model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    return _model_of(_annotation_at(model, loc))


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model in Model, list[Model] or Model | None."""
    found = (annotation, *get_args(annotation))
    return next((t for t in found if isinstance(t, type) and issubclass(t, BaseModel)), None)


def _known_keys(
    model: type[BaseModel], table: Loc, known: Sequence[str], *, table_only: bool
) -> str:
    """List the keys of a table, values and tables apart."""
    tables = [name for name in known if _is_table(_annotation_at(model, (*table, name)))]
    values = [name for name in known if name not in tables]
    if not values or (table_only and tables):
        return _one_of(tables or values)
    return _one_of(values) + f", or a table: {', '.join(tables)}" * bool(tables)


def _is_table(annotation: Any) -> bool:
    """Tell whether a value of this type is written as a table or an array of tables."""
    return _model_of(annotation) is not None or _origin(annotation) is dict


def _origin(annotation: Any) -> Any:
    return get_origin(annotation) or annotation
